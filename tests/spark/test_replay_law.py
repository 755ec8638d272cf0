"""What an engine decided on Spark, it decides again when it is told the recorded events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.journal import assert_repeats_itself

from daybreak.engine.events import (
    AddQuery,
    Drop,
    JobEnded,
    LogFull,
    Pause,
    Resume,
    SetPriority,
    SwitchPolicy,
    Woke,
)
from daybreak.model.pipeline import Pipeline
from daybreak.spark.app import App

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PIPELINE = """
[app]
policy = "POLICY"
[limits]
retry_s = 0.05
[shedding]
patience_s = 0.2
[classes]
alarm = 5
low = 1
[streams.readings]
format = "generator"
arrivals = { rate_per_s = 800 }
options = { limit = 1600 }
time = "at"
[queries.hot]
class = "alarm"
sql = "SELECT reading FROM readings WHERE temperature > 20"
sink = { format = "memory" }
[queries.warm]
class = "alarm"
sql = "SELECT reading FROM readings WHERE temperature > 10"
sink = { format = "memory" }
[queries.cold]
class = "low"
sql = "SELECT reading FROM readings WHERE temperature < 5"
sink = { format = "memory" }
[queries.broken]
class = "low"
sql = "SELECT CAST(concat('x', reading) AS INT) AS n FROM readings"
sink = { format = "memory" }
[queries.counted]
class = "low"
sql = "SELECT window.end AS e, count(*) AS n FROM readings GROUP BY window(at, '1 second')"
sink = { format = "memory" }
"""


@pytest.mark.parametrize(("policy", "express"), [("stride", 1), ("mbd", 0)])
def test_a_run_on_spark_repeats_itself(
    spark: SparkSession,
    tmp_path: Path,
    policy: str,
    express: int,
) -> None:
    app = App.from_pipeline(Pipeline.parse(PIPELINE.replace("POLICY", policy)), spark)
    with app.run(run_dir=tmp_path / "run", workers=2, express=express, on_failure="report") as run:
        run.change_class_priority("low", 3)
        run.pause("warm")
        run.register("more", "SELECT reading FROM readings WHERE temperature > 25", cls="alarm")
        run.resume("warm")
        run.set_policy("fcfs")
        run.drop("more")
        run.drain(120, flush=True)
        engine = run.parts.scheduling.driver.engine
    assert run.failures.keys() == {"broken"}
    kinds = {type(event) for entry in engine.journal.entries() for event in entry.events}
    assert kinds >= {AddQuery, Drop, JobEnded, Pause, Resume, SetPriority, SwitchPolicy, Woke}
    assert LogFull not in kinds, "nothing was given up here because the log was full"
    assert_repeats_itself(engine)
