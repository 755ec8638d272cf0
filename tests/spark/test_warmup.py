"""Plans are prepared before their rows arrive, and the report counts how jobs ran."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.windows.logs import Log, bag, declare, feed

from daybreak.report.run import job_lines
from daybreak.spark.tasks.prepared.planner import Planner
from daybreak.spark.tasks.prepared.plans import SWITCH
from daybreak.spark.tasks.task import Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WINDOW = "SELECT window.end AS e, k, count(*) AS n FROM a GROUP BY window(at, '10 seconds'), k"
SLIDING = WINDOW.replace("'10 seconds'", "'10 seconds', '5 seconds'")
JOIN = (
    "SELECT x.n, y.n AS m FROM a x JOIN b y ON x.k = y.k "
    "AND window(x.at, '10 seconds') = window(y.at, '10 seconds')"
)


def until(done: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def planned_by(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Which threads planned what."""
    found: dict[str, list[str]] = {}
    plan = Planner.plan

    def noted(planner: Planner, task: Task, *tables: Any) -> Any:
        found.setdefault(str(task.key), []).append(threading.current_thread().name)
        return plan(planner, task, *tables)

    monkeypatch.setattr(Planner, "plan", noted)
    return found


def test_plans_are_prepared_at_the_start_and_at_registration(
    spark: SparkSession, tmp_path: Path, planned_by: dict[str, list[str]]
) -> None:
    app = declare(spark)
    for name, sql in {"window": WINDOW, "sliding": SLIDING, "join": JOIN}.items():
        app.query(name, sql=sql, cls="high")
    app.query("odd", sql="SELECT n FROM a WHERE v % 2 = 1", cls="low")
    with app.run("stride", run_dir=tmp_path / "run") as run:
        until(
            lambda: run.parts.scheduling.warmup.done == run.parts.scheduling.warmup.asked == 5
        )  # two for panes
        run.register("even", "SELECT n FROM a WHERE v % 2 = 0", cls="low", force=True)
        until(lambda: run.parts.scheduling.warmup.done == run.parts.scheduling.warmup.asked == 6)
        before = {key: list(threads) for key, threads in planned_by.items()}
        feed(run, Log.random(3).segments())
        run.drain(flush=True)
        told = run.snapshot().prepared
    assert not run.failures
    assert planned_by == before, "no job had to wait for a plan"
    assert {name for threads in planned_by.values() for name in threads} == {"warm-up"}
    manifest = run.report().manifest
    assert told == {
        "wanted": 6, "ready": 6, "missing": None, "ordinary_because": {}, "jobs": manifest["jobs"],
    }  # fmt: skip
    assert manifest["jobs"].keys() == {"prepared"}
    assert manifest["ordinary_because"] == {}
    lines = (tmp_path / "run/events.jsonl").read_text().splitlines()
    assert sum("prepared-plans" in line for line in lines) == 1


def test_the_report_names_what_took_spark_jobs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.udf.register("in_python", lambda n: n, "int")
    rows = {}
    for switch in ("0", "1"):
        monkeypatch.setenv(SWITCH, switch)
        app = declare(spark)
        app.query("window", sql=WINDOW, cls="high")
        app.query("slow", sql="SELECT in_python(n) AS n FROM a", cls="low")
        with app.run("stride", run_dir=tmp_path / switch) as run:
            feed(run, Log.random(3).segments())
            run.drain(flush=True)
        rows[switch] = [bag(run.rows(name)) for name in ("window", "slow")]
        jobs, why = (run.report().manifest[key] for key in ("jobs", "ordinary_because"))
        if switch == "1":
            assert (jobs.keys(), why) == ({"spark-job"}, {})
        else:
            assert jobs.keys() == {"prepared", "spark-job"}
            assert [*why.values()] == [jobs["spark-job"]], "each for a reason"
            assert "Python" in next(iter(why))
            assert any("with prepared plans" in line for line in job_lines(run.report()))
    assert rows["0"] == rows["1"]
