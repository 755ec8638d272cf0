"""The commands as a user calls them, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from daybreak.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "wildfire-sim.toml"

pytestmark = pytest.mark.slow


def daybreak(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "daybreak", *args],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def answer(*args: str, cwd: Path) -> Any:
    done = daybreak(*args, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_simulate_compares_policies_and_leaves_reports(tmp_path: Path) -> None:
    done = daybreak(
        "simulate", str(EXAMPLE), "--compare", "round-robin", "--duration-s", "3", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "picture: runs/simulation/comparison.png" in done.stdout
    for policy in ("fixed-priority", "round-robin"):
        assert f"report: runs/simulation/{policy}" in done.stdout
        shown = answer("report", f"runs/simulation/{policy}", cwd=tmp_path)
        assert shown["manifest"]["policy"] == policy
        times = shown["time_ns"]
        assert sum(ns for kind, ns in times.items() if kind != "total") == times["total"]
    assert (tmp_path / "runs/simulation/comparison.png").stat().st_size > 10_000


def test_the_same_seed_gives_the_same_answer(tmp_path: Path) -> None:
    call = ("simulate", str(EXAMPLE), "--duration-s", "2", "--seed", "5")
    assert answer(*call, cwd=tmp_path) == answer(*call, cwd=tmp_path)


def test_policies_are_listed(tmp_path: Path) -> None:
    names = [p["policy"] for p in answer("policies", cwd=tmp_path)]
    assert {"round-robin", "fcfs", "fixed-priority"} <= set(names)


@pytest.mark.parametrize("name", ["aurora/table3.1", "aurora/table3.2", "aurora/table4.1"])
def test_the_worked_examples_hold(tmp_path: Path, name: str) -> None:
    outcome = answer("reproduce", name, cwd=tmp_path)
    assert outcome["experiment"] == name
    assert all(c["holds"] and c["kind"] == "robust" for c in outcome["claims"])
    assert (tmp_path / outcome["figure"]).exists()


def test_reproduce_writes_pages(tmp_path: Path) -> None:
    done = daybreak("reproduce", "aurora/table3.*", "--docs", "docs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "docs" / "aurora.md").read_text()
    assert "aurora/table3.2" in page
    assert (tmp_path / "docs" / "img" / "aurora-table3.1.png").exists()
    assert "| [aurora/table3.2](aurora.md) |" in (tmp_path / "docs" / "README.md").read_text()


def test_reproduce_takes_a_range_of_seeds(tmp_path: Path) -> None:
    asked = ("reproduce", "aurora/table3.1", "--seeds", "101-105", "--workers", "1")
    assert answer(*asked, cwd=tmp_path)["seeds"] == [101, 102, 103, 104, 105]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("simulate", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("simulate", str(EXAMPLE), "--policy", "fcsf"), "did you mean 'fcfs'"),
        (("simulate", str(EXAMPLE), "--load", "-1"), "load -1.0"),
        (("report", "nowhere"), "holds no readable run report"),
        (("reproduce", "aurora/table3.1", "--seeds", "5-3"), "'5-3' gives no seeds"),
        (("reproduce", "aurora/tabel3.1"), "did you mean 'aurora/table3.1'"),
        (("reproduce",), "no experiment named"),
        (("reproduce", "aurora/table3.1", "--trace", "x"), "NAME=FILE"),
    ],
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(
    tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    done = daybreak(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir()), "something was left behind"


def test_importing_daybreak_needs_no_pyspark_and_no_java(tmp_path: Path) -> None:
    """Everything but the Spark engine works where PySpark is not installed."""
    code = (
        "import sys; sys.modules['pyspark'] = None; sys.modules['py4j'] = None\n"
        "import daybreak, daybreak.cli.main, daybreak.simulation.simulate\n"
        "heavy = {'matplotlib', 'scipy', 'pandas', 'pyarrow'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.spark
def test_check_refuses_sinks_that_overlap(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "p.toml").write_text(
        """
        [streams.readings]
        format = "json"
        path = "in"
        schema = "t INT"
        [queries.q]
        sql = "SELECT t FROM readings"
        sink = { format = "json", path = "out/../in" }
        """
    )
    done = daybreak("check", "p.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert "is already the source of stream 'readings'" in done.stderr.replace("\n", " ")


def test_an_option_of_a_registered_sink_needs_a_value(tmp_path: Path) -> None:
    options = ["--sql", "SELECT 1", "--sink", "kafka", "--sink-option", "topic"]
    done = daybreak("register", str(tmp_path), "hot", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert "--sink-option: 'topic' has no value; give KEY=VALUE" in done.stderr


def test_a_program_hands_arguments_to_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """As docs/cluster.md has spark-submit do."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("daybreak ")
