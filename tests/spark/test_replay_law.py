"""What an engine decided on Spark, it decides again when it hears the recorded events."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.engine.journal import assert_repeats_itself
from tests.recorded.make import Case, operated, perform

from daybreak.engine.events import (
    AddQuery,
    Drop,
    JobEnded,
    LogFull,
    Pause,
    Resume,
    SetPriority,
    Skipped,
    SwitchPolicy,
    Woke,
)
from daybreak.runtime.journal_replay import replay_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("policy", "express"), [("planned", 0), ("stride", 1), ("mbd", 0), ("cqc", 0), ("lottery", 1)]
)
def test_a_run_on_spark_repeats_itself(
    spark: SparkSession, tmp_path: Path, policy: str, express: int
) -> None:
    """On busy cores, with windows, failures, commands, a full log and another policy in it."""
    case = Case(policy, 1600, operated, express, busy=True)
    run = perform(case, spark, tmp_path / "run")
    engine = run.parts.scheduling.driver.engine
    assert run.failures.keys() == {"broken"}
    events = [event for entry in engine.journal.entries() for event in entry.events]
    assert {type(event) for event in events} >= {
        AddQuery, Drop, JobEnded, LogFull, Pause, Resume, SetPriority, Skipped, SwitchPolicy, Woke,
    }  # fmt: skip
    use = [event.processor for event in events if isinstance(event, Woke) and event.processor]
    assert use[-1].busy_ns > use[0].busy_ns
    assert_repeats_itself(engine)
    replayed = replay_run(tmp_path / "run")
    assert replayed.divergence is None
    assert replayed.entries == engine.journal.added
