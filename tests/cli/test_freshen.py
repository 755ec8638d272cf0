"""``daybreak freshen plan`` and ``simulate``: files in and out, errors in one line."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

from daybreak.cli import freshen
from daybreak.cli.main import app
from daybreak.freshness import Mirror, RefreshPlan, curve, plan
from daybreak.model import ConfigError

TABLE = pa.table(
    {
        "id": ["a", "b", "c", "d", "e"],
        "change_rate": [1, 2, 3, 4, 5],
        "access": [5, 4, 3, 2, 1],
        "group": ["x", "x", "y", "y", "y"],
    }
)


@pytest.fixture
def objects(tmp_path: Path) -> Path:
    path = tmp_path / "objects.parquet"
    pa_parquet.write_table(TABLE, path)
    return path


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["freshen", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plan_writes_frequencies_and_reports_the_certificate(objects: Path) -> None:
    out = objects.with_name("plan.parquet")
    found = json.loads(run("plan", str(objects), "-b", "5", "--out", str(out), "--json"))
    assert found["perceived_freshness"] == pytest.approx(0.4995, abs=1e-4)
    assert found["gap"] < 1e-12
    assert found["never_refreshed"] == 2
    assert found["written"] == [str(out)]
    # Fbar(x) = 0.5 at x = 1.5936: f = lambda/x for each object.
    assert found["bandwidth_for_half"] == pytest.approx(15 / 1.5936, rel=1e-4)
    written = pa_parquet.read_table(out)
    assert written["id"].to_pylist() == TABLE["id"].to_pylist()
    exact = plan(Mirror.of([1, 2, 3, 4, 5], [5, 4, 3, 2, 1]), 5).frequency
    assert written["frequency"].to_pylist() == pytest.approx(exact)
    assert written["interval"].to_pylist()[3:] == [None, None]


@pytest.mark.slow
def test_plan_reads_csv_and_draws(tmp_path: Path) -> None:
    objects, picture, out = (tmp_path / name for name in ("o.csv", "p.png", "plan.csv"))
    pa_csv.write_csv(TABLE, objects)
    text = run("plan", str(objects), "-b", "20", "--plot", str(picture), "--out", str(out))
    assert "every object at least 50 % fresh" in text
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert out.read_text().startswith('"id","frequency"')
    assert sorted(p.name for p in tmp_path.iterdir()) == ["o.csv", "p.png", "plan.csv"]


@pytest.mark.slow
def test_a_large_mirror_is_drawn_from_a_condensed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[int] = []

    def noted(mirror: Mirror, budgets: list[float]) -> list[RefreshPlan]:
        planned.append(len(mirror))
        return curve(mirror, budgets)

    monkeypatch.setattr(freshen, "curve", noted)
    rng, n = np.random.default_rng(7), 30_000
    columns = {"change_rate": rng.lognormal(0, 1.5, n), "access": 1 / np.arange(1, n + 1)}
    objects, picture = tmp_path / "o.parquet", tmp_path / "p.png"
    pa_parquet.write_table(pa.table(columns), objects)
    run("plan", str(objects), "-b", "10000", "--plot", str(picture))
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert planned[0] < 5000


def test_group_caps_and_floors_hold(objects: Path) -> None:
    out = objects.with_name("plan.parquet")
    options = ["--group-cap", "y=4", "--group-cap", "*=3", "--least-freshness", "0.2"]
    run("plan", str(objects), "-b", "7", "--out", str(out), *options)
    plan_table = pa_parquet.read_table(out)
    use = np.array(plan_table["bandwidth"].to_pylist())
    assert use[:2].sum() <= 3 + 1e-9
    assert use[2:].sum() <= 4 + 1e-9
    assert min(plan_table["freshness"].to_pylist()) >= 0.2 - 1e-9


@pytest.mark.parametrize(
    ("options", "finding"),
    [
        (["--least-freshness", "0.9"], "give at least"),
        (["--group-cap", "z=4"], "no group 'z'"),
        (["--group-cap", "x"], "NAME=AMOUNT"),
        (["--group-cap", "y=0.1", "--least-freshness", "0.1"], "floors of group y"),
        (["--age", "-1"], "age -1"),
    ],
)
def test_mistakes_are_named(objects: Path, options: list[str], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        run("plan", str(objects), "-b", "5", *options)


@pytest.mark.parametrize(
    ("columns", "finding"),
    [
        ({"rate": [1]}, "no column change_rate"),
        ({"change_rate": ["x"]}, "change_rate is not numeric"),
        ({"change_rate": [1.0, None]}, "change_rate of row 1 is missing"),
    ],
)
def test_unusable_files_are_named(
    tmp_path: Path, columns: dict[str, list[object]], finding: str
) -> None:
    path = tmp_path / "bad.parquet"
    pa_parquet.write_table(pa.table(columns), path)
    with pytest.raises(ConfigError, match=finding):
        run("plan", str(path), "-b", "5")
    with pytest.raises(ConfigError, match="cannot be read"):
        run("plan", str(tmp_path / "none.parquet"), "-b", "5")


def test_simulate_agrees_with_the_formula(objects: Path) -> None:
    found = json.loads(
        run("simulate", str(objects), "-b", "5", "--rules", "plan,uniform,nutch", "--json",
            "--periods", "200", "--accesses", "100")
    )  # fmt: skip
    assert [f["rule"] for f in found] == ["plan", "uniform", "nutch"]
    for f in found:
        assert abs(f["simulated"] - f["computed"]) < 4 * f["standard_error"]
        assert f["refreshes_per_period"] == pytest.approx(5, rel=0.05)
    with pytest.raises(ConfigError, match="no rule 'nuts'"):
        run("simulate", str(objects), "-b", "5", "--rules", "nuts")
