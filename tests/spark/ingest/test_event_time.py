"""Event time of direct streams: rows that wait for their turn, and rows of several producers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.until import until

from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.log.segments import SegmentStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.run import Run

pytestmark = pytest.mark.spark

SQL = "SELECT window.end AS e, count(*) AS n FROM r GROUP BY window(at, '10 seconds')"


def application(spark: SparkSession, folder: Path, **declared: Any) -> App:
    """Counts the rows of windows of 10 s over a folder of JSON files."""
    (folder / "in").mkdir(exist_ok=True)
    app = App(spark, name="times", folder=folder)
    stream = {"format": "json", "schema": "at TIMESTAMP", "path": "in", "ingest": "direct"}
    app.stream("r", **{**stream, "time": "at", "watermark": "0 seconds", **declared})
    app.query("q", sql=SQL)
    return app


def arrive(folder: Path, name: str, seconds: Iterable[float], mtime_s: float | None = None) -> None:
    made = folder / f"making-{name}"
    made.write_text("".join(json.dumps({"at": _text(s)}) + "\n" for s in seconds))
    if mtime_s is not None:
        os.utime(made, (mtime_s, mtime_s))
    made.rename(folder / "in" / name)


def _text(seconds: float) -> str:
    return f"2026-01-01T00:{int(seconds) // 60:02d}:{int(seconds) % 60:02d}Z"


def rows_of(run: Run) -> int:
    return sum(segment.rows for segment in run.parts.storage.store.segments("r"))


def late_of(run: Run) -> int:
    run.parts.inflow.late.write()
    return run.parts.inflow.late.counts["q"]


def test_rows_that_wait_for_their_turn_are_not_late_after_a_silence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream of the lowest class gets no turn for longer than its idle_timeout."""
    turn, waits, really = threading.Event(), threading.Event(), SegmentStore.wait
    turn.set()

    def wait(store: SegmentStore) -> None:
        if not turn.is_set():
            waits.set()
        turn.wait()
        really(store)

    monkeypatch.setattr(SegmentStore, "wait", wait)
    app = application(spark, tmp_path, idle_timeout="2 seconds")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        arrive(tmp_path, "a", [1, 9])
        run.drain()
        turn.clear()
        arrive(tmp_path, "b", [2, 30])
        until(waits.is_set)
        began_s = time.monotonic()
        until(lambda: time.monotonic() > began_s + 4, "twice the idle_timeout")
        clock = run.parts.storage.store.clock("r")
        assert clock is not None
        reached_us = clock.watermark_us
        turn.set()
        until(lambda: rows_of(run) == 4)
        assert run.parts.storage.store.segments("r")[-1].before_us == reached_us
        assert late_of(run) == 0
        until(lambda: clock.watermark_us > 32 * 10**6, "a silence after that counts")


def test_a_backlog_of_two_producers_has_no_late_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A thousand files, read in many pieces; one producer's clock is a minute ahead."""
    app = application(spark, tmp_path)
    for at in range(500):
        for producer, ahead_s in (("a", 60), ("b", 0)):
            arrive(tmp_path, f"{at:03d}-{producer}", [at // 10 + ahead_s], 1_700_000_000 + at)
    limits = Limits(driver_batch_bytes=4000)
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        run.drain()
        assert late_of(run) == 0
        assert run.parts.storage.store.end("r").seq > 3, "several pieces"


def test_producers_within_a_trigger_are_not_late_by_each_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    app = application(spark, tmp_path, trigger="2 seconds")
    with app.run("fcfs", run_dir=tmp_path / "run") as run:
        arrive(tmp_path, "ahead", [60])
        until(lambda: rows_of(run) == 1)
        arrive(tmp_path, "behind", [1])
        until(lambda: rows_of(run) == 2)
        clock = run.parts.storage.store.clock("r")
        assert clock is not None
        until(lambda: clock.held_us is None, "the watermark moves without another row")
        assert late_of(run) == 0
        arrive(tmp_path, "late", [2])
        until(lambda: rows_of(run) == 3)
        assert late_of(run) == 1
