"""A governor with a run directory, on Spark: what it records while it runs, and its replays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.governed.feed import Feed
from tests.until import until
from typer.testing import CliRunner

import daybreak
from daybreak.cli.main import app
from daybreak.model.errors import ConfigError
from daybreak.runtime.record import ARRIVALS_FILE
from daybreak.runtime.starts import load_run
from daybreak.simulation.whatif import Wanted, what_if
from daybreak.spark.governed import governed_record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def shown(*command: str) -> str:
    done = CliRunner().invoke(app, list(command))
    assert done.exit_code == 0, done.output
    return done.output


def test_what_a_governor_recorded_is_shown_steered_and_replayed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(governed_record, "PART_S", 0.1)
    session, feed, run = spark.newSession(), Feed(tmp_path), tmp_path / "run"
    classes = {"alarm": 60.0, "archive": 10.0}
    with daybreak.govern(session, "fcfs", classes, run_dir=run) as governor:
        with pytest.raises(ConfigError, match="is in use by process"):
            daybreak.govern(spark.newSession(), run_dir=run)
        feed.put()
        rows = feed.read(session)
        with governor.query_class("alarm"):
            fire = rows.writeStream.format("noop").queryName("fire").start()
        counts = rows.groupBy("station").count().writeStream.outputMode("complete")
        audit = counts.format("noop").queryName("audit").start()
        for _ in range(2):
            feed.put()
            for query in (fire, audit):
                query.processAllAvailable()
        late = rows.dropDuplicates(["id"]).writeStream.format("noop").queryName("late").start()
        late.processAllAvailable()
        until(lambda: load_run(run).overall().count == 90, "the record of a run under way")
        assert "fire" in shown("top", str(run), "--once")
        shown("set", str(run), "class.archive=20")
        assert governor.changes[-1]["by"] == "control socket"
        assert "fcfs, replayed" in shown("whatif", str(run), "--policy", "round-robin")
        for query in (fire, audit, late):
            query.stop()
    report = governor.stop()
    read = {"fire": 30, "audit": 30, "late": 30}
    assert {name: s.count for name, s in report.by_query().items()} == read
    arrivals = pq.read_table(run / "record" / ARRIVALS_FILE, partitioning=None).to_pydict()
    assert (len(set(arrivals["stream"])), sum(arrivals["tuples"])) == (1, 30)
    found = what_if(run, [Wanted("fixed-priority")])
    for outcome in found.outcomes:
        answered = {name: s.count for name, s in outcome.report.by_query().items()}
        assert answered == read, outcome.name
    assert 1.0 <= found.calibration.worst < 100.0
    assert "(governed)" in shown("report", str(run))
    events = (run / "events.jsonl").read_text().splitlines()
    assert {json.loads(line)["event"] for line in events} >= {"governing", "governed", "change"}
