"""Somebody sets the wall clock while a run is under way under the default policy."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.until import until

from daybreak.model import Arrivals
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HOUR_NS = 3_600 * 10**9


def test_rows_are_answered_as_before_when_the_wall_clock_is_set(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall_ns, step = time.time_ns, [0]
    monkeypatch.setattr(time, "time_ns", lambda: wall_ns() + step[0])
    app = App(spark, name="steps")
    app.stream(
        "readings", format="generator", options={"limit": 3000},
        arrivals=Arrivals(rate_per_s=500), time="at",
    )  # fmt: skip
    app.query("rows", sql="SELECT reading FROM readings", qos=[[0, 1], [1, 1], [2, 0]])
    sql = "SELECT count(*) AS n FROM readings GROUP BY window(at, '1 second')"
    app.query("windows", sql=sql)
    with app.run(run_dir=tmp_path / "run") as run:
        assert run.policy.name == "planned"
        for step_ns in (-HOUR_NS, 0, 24 * HOUR_NS, -24 * HOUR_NS):
            step[0] = step_ns
            answered = run.rows("rows").num_rows
            until(lambda n=answered: run.rows("rows").num_rows >= n + 300)  # type: ignore[misc]
            run.healthy()
            assert 0 <= run.elapsed_s < 600
            assert all(0 <= q.oldest_s < 600 for q in run.snapshot().queries)
        run.drain(timeout_s=100, flush=True)
        assert run.rows("rows").num_rows == 3000
        assert sum(run.rows("windows")["n"].to_pylist()) == 3000
        report = run.report()
    late_ns = report.outputs.departure_ns - report.outputs.arrival_ns
    assert late_ns.min() >= 0
    assert late_ns.max() < 60 * 10**9
