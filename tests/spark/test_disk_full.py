"""A disk that is full again and again, at random moments: exactly the rows, nothing parked."""

from __future__ import annotations

import errno
import json
import os
import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from benchmarks.soaking.disk import filled, small_disk
from tests.until import until

from daybreak.model import Arrivals
from daybreak.model.limits import Limits
from daybreak.spark.app import App
from daybreak.spark.failures import LogUnavailable, disk_is_full
from daybreak.spark.log.durable import sync_files
from daybreak.spark.run import Run
from daybreak.spark.upkeep.maintenance import prune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 1200


@contextmanager
def failing_disk(run: Run, seed: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Spells in which files cannot be synced and SQLite may not grow; yields how often it said so.

    SQLite's own limit on pages makes it say "database or disk is full", as a full disk does.
    """
    chance, hits, over = random.Random(seed), [0], threading.Event()
    full = threading.Event()
    sync, sync_all = os.fsync, sync_files

    def refuse() -> None:
        if full.is_set():
            hits[0] += 1
            raise OSError(errno.ENOSPC, "No space left on device")

    def fsync(handle: int) -> None:
        refuse()
        sync(handle)

    def sync_many(paths: Iterable[Path]) -> None:
        refuse()
        sync_all(paths)

    commit, forget = run.parts.storage.log.commit, run.parts.storage.log.forget_segments

    def counted(*arguments: Any) -> Any:
        try:
            return commit(*arguments)
        except LogUnavailable:
            hits[0] += 1
            raise

    def forgetting(*arguments: Any) -> Any:
        if full.is_set():  # a delete needs room, too: in the write-ahead log
            hits[0] += 1
            raise LogUnavailable("database or disk is full")
        return forget(*arguments)

    def spells() -> None:
        while not over.wait(chance.uniform(0.05, 0.3)):
            full.set()
            run.parts.storage.log.database.rows(
                "PRAGMA max_page_count = 1"
            )  # not below what it has
            over.wait(chance.uniform(0.05, 0.3))
            full.clear()
            run.parts.storage.log.database.rows(f"PRAGMA max_page_count = {2**31 - 2}")

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr("daybreak.spark.sinks.delivery.sync_files", sync_many)
    monkeypatch.setattr(run.parts.storage.log, "commit", counted)
    monkeypatch.setattr(run.parts.storage.log, "forget_segments", forgetting)
    thread = threading.Thread(target=spells)
    thread.start()
    try:
        yield hits
    finally:
        over.set()
        thread.join()
        full.clear()
        run.parts.storage.log.database.rows(f"PRAGMA max_page_count = {2**31 - 2}")


def test_a_disk_that_is_full_now_and_then_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    app = App(spark, name="full", folder=tmp_path)
    app.stream(
        "readings",
        format="generator",
        options={"limit": ROWS},
        arrivals=Arrivals(rate_per_s=ROWS / 8),
    )
    for name, condition in (("all", "true"), ("odd", "reading % 2 = 1"), ("low", "reading < 100")):
        app.query(
            name,
            sql=f"SELECT reading FROM readings WHERE {condition}",
            sink={"format": "parquet", "path": f"out/{name}"},
        )
    limits = Limits(retry_s=0.02)  # it is full more often than a query may fail
    with app.run("fcfs", run_dir=tmp_path / "run", limits=limits) as run:
        with failing_disk(run, seed, monkeypatch) as hits:
            rates = run.parts.inflow.rates
            until(lambda: hits[0] >= 5 and rates.per_s("readings"), "the disk is full 5 times")
        run.drain()
        assert not run.failures
    for name, expected in (
        ("all", list(range(ROWS))),
        ("odd", list(range(1, ROWS, 2))),
        ("low", list(range(100))),
    ):
        table = pq.read_table(tmp_path / "out" / name, partitioning=None)
        assert sorted(table["reading"].to_pylist()) == expected, name


def test_what_a_failed_job_has_staged_goes_while_it_runs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a disk that is full for long fills up with what never came to a commit."""
    monkeypatch.setattr("daybreak.spark.upkeep.maintenance.COMMITS_KEPT_NS", 0)
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    app = App(spark, name="failed", folder=tmp_path)
    arrivals = Arrivals(rate_per_s=200)
    app.stream("readings", format="generator", options={"limit": 100}, arrivals=arrivals)
    for form in ("json", "csv"):
        app.query(
            form, sql="SELECT reading FROM readings", sink={"format": form, "path": f"out/{form}"}
        )
    with app.run("fcfs", run_dir=tmp_path / "run", limits=Limits(retry_s=0.02)) as run:
        commit, left = run.parts.storage.log.commit, [6]

        def full(*arguments: Any) -> Any:
            if left[0] > 0:
                left[0] -= 1
                raise LogUnavailable("database or disk is full")
            return commit(*arguments)

        monkeypatch.setattr(run.parts.storage.log, "commit", full)
        run.drain()
        assert left == [0]
        staged = [p for sink in run.parts.accepted.catalog.sinks.values() for p in sink.staged()]
        assert len(staged) >= 6, "they are still there"
        prune(run.parts.storage.log, run.parts.accepted.catalog)
        assert not [p for sink in run.parts.accepted.catalog.sinks.values() for p in sink.staged()]
    for form in ("json", "csv"):
        assert sum(len(p.read_text().splitlines()) for p in (tmp_path / f"out/{form}").glob("*.*"))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real disk of 24 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, 24) as mounted:
        if not mounted:
            pytest.skip("no right to mount a tmpfs")
        yield folder


def test_a_file_source_that_meets_a_full_disk_first_waits_for_room(
    spark: SparkSession, tmp_path: Path, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its position is the first to be refused; more often than retries, and nothing ends.

    What the disk refuses meanwhile, events among it, is there once there is room.
    """
    arriving = tmp_path / "in"
    arriving.mkdir()

    def arrive(name: str, *readings: int) -> None:
        text = "".join(f'{{"reading": {reading}}}\n' for reading in readings)
        (arriving / f".{name}").write_text(text)
        (arriving / f".{name}").rename(arriving / f"{name}.json")

    def failed() -> int:
        events = [vars(record).get("daybreak", {}).get("event") for record in caplog.records]
        return events.count("source-failed")

    app = App(spark, name="waits", folder=tmp_path)
    app.stream("files", format="json", schema="reading BIGINT", path="in")
    sink = {"format": "json", "path": "out"}
    app.query("all", sql="SELECT reading FROM files", sink=sink)
    limits = Limits(retries=1, retry_s=0.01)
    with app.run("fcfs", run_dir=disk / "run", limits=limits, workers=1) as run:
        arrive("a", 1, 2)
        run.drain()
        with filled(disk / "balloon"):
            arrive("b", 3, 4)
            sources = run.parts.inflow.sources
            until(lambda: sources.errors().get("files"), "the source notices")
            until(lambda: failed() > limits.retries + 2, "it tries again and again")
            run.healthy()
            assert disk_is_full(sources.errors()["files"])
            assert "Traceback" not in sources.errors()["files"]
            assert not sources.stopped()
        run.drain()
        assert not run.failures
    lines = [p.read_text().splitlines() for p in (tmp_path / "out").glob("*.json")]
    assert sorted(json.loads(line)["reading"] for some in lines for line in some) == [1, 2, 3, 4]
    events = [json.loads(e)["event"] for e in (disk / "run/events.jsonl").read_text().splitlines()]
    assert events.count("source-failed") > limits.retries + 2
    assert events[-1] == "stopped"


def test_a_run_ends_on_a_full_disk_as_on_any_other(
    spark: SparkSession, tmp_path: Path, disk: Path
) -> None:
    app = App(spark, name="ends", folder=tmp_path)
    arrivals = Arrivals(rate_per_s=500)
    app.stream("readings", format="generator", options={"limit": 300}, arrivals=arrivals)
    app.query("all", sql="SELECT reading FROM readings")
    run = app.run("fcfs", run_dir=disk / "run", workers=1)
    run.drain()
    for spared in (0, 4096):
        with filled(disk / "balloon", spared):
            report = run.stop()
    assert report.overall().count == 300, "what the disk did not take is in the report"
    text = (disk / "run/events.jsonl").read_bytes()
    assert text.endswith(b"\n")
    for line in text.splitlines():
        json.loads(line)
    assert json.loads((disk / "run/lock").read_text()) == {}, "nobody holds it"
    with app.run("fcfs", run_dir=disk / "run", workers=1) as run:
        run.drain()


def test_what_spark_could_not_write_keeps_no_stream_from_its_first_micro_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A full disk, or a kill, leaves half an offset where Spark demands an empty folder."""
    arriving, run_dir = tmp_path / "in", tmp_path / "run"
    arriving.mkdir()
    app = App(spark, name="first", folder=tmp_path)
    app.stream("files", format="json", schema="reading BIGINT", path="in", ingest="spark")
    app.query("all", sql="SELECT reading FROM files")
    with app.run("fcfs", run_dir=run_dir, workers=1) as run:
        run.drain()
    offsets = run_dir / "checkpoints/files/offsets"
    for name in (".0.700a8424.tmp", "..0.700a8424.tmp.crc"):
        (offsets / name).touch()
    (arriving / "a.json").write_text('{"reading": 1}\n')
    limits = Limits(retries=0)
    with app.run("fcfs", run_dir=run_dir, limits=limits, workers=1) as run:
        run.drain()
        assert run.rows("all")["reading"].to_pylist() == [1]
