"""``daybreak filters`` as a user calls it."""

from pathlib import Path

import pytest
from tests.cli.test_commands import ROOT, answer, daybreak

FILTERS = str(ROOT / "examples" / "filters.toml")


@pytest.mark.slow
def test_the_optimum_and_its_flow(tmp_path: Path) -> None:
    found = answer("filters", "optimum", FILTERS, cwd=tmp_path)
    assert found["optimum_per_s"] == pytest.approx(13.889, abs=5e-4)
    assert found["flows_per_s"]["users -> stock -> fraud"] == pytest.approx(8.436, abs=5e-4)


@pytest.mark.slow
def test_simulating_compares_routers(tmp_path: Path) -> None:
    call = ("filters", "simulate", FILTERS, "--compare", "fixed", "--tuples", "2000")
    found = answer(*call, cwd=tmp_path)["routers"]
    assert found["free-first"]["decided_per_s"] > 1.3 * found["fixed"]["decided_per_s"]
    done = daybreak(*call, "--rate", "8", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "mean latency" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("", "no filter is declared"),
        ("[filters.a]\nservice_time_ms = 5\nselectivity = 2", "selectivity 2.0"),
        ("[filters.a]\nservice_time_ms = 5\nselectivity = 0.2\nthread = 2", "unknown key 'thread'"),
        (
            "[filters.a]\nservice_time_ms = 5\nselectivity = 0.2\nafter = ['a']",
            "form a cycle: a -> a",
        ),
    ],
)
def test_a_file_that_makes_no_sense_ends_in_one_line(
    tmp_path: Path, text: str, finding: str
) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = daybreak("filters", "optimum", "bad.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert finding in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
