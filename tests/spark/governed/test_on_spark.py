"""Governed queries on Spark: they give what they give ungoverned, when the policy says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from examples import governed as example
from tests.spark.governed.feed import Feed
from tests.until import until

from daybreak.model.errors import ConfigError
from daybreak.policies.registry import make_policy_with
from daybreak.spark.governed.governor import Governor
from daybreak.spark.governed.governor_commands import handle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own: its governor sees no query of another test."""
    return spark.newSession()


@pytest.fixture
def governor(session: SparkSession) -> Iterator[Governor]:
    governor = Governor(session, "planned", {"alarm": 60, "archive": 10}, retry_s=0.05, retries=1)
    yield governor
    for query in session.streams.active:
        query.stop()
    governor.stop()
    assert governor.unable is None
    assert not [
        t for t in threading.enumerate() if t.name.startswith(("daybreak-gov", "daybreak-p"))
    ]


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    return Feed(tmp_path)


def counted(session: SparkSession, table: str) -> int:
    found: int = session.table(table).selectExpr("coalesce(sum(count), 0)").collect()[0][0]
    return found


def test_results_are_the_same_and_all_else_is_counted(
    session: SparkSession, governor: Governor, feed: Feed, spark: SparkSession
) -> None:
    feed.put()
    rows = feed.read(session)
    seen: list[int] = []

    def remember(batch: DataFrame, _number: int) -> None:
        seen.extend(row["id"] for row in batch.collect())

    with governor.query_class("alarm"):
        counts = rows.groupBy("station").count().writeStream.outputMode("complete")
        first = counts.format("memory").queryName("counts").start()
    unnamed = rows.dropDuplicates(["id"]).writeStream.foreachBatch(remember).start()
    spells = rows.withWatermark("at", "0 seconds").groupBy("at").count()
    windows = spells.writeStream.format("memory").queryName("windows").start()
    once = rows.writeStream.format("memory").queryName("once").trigger(availableNow=True).start()
    elsewhere = feed.read(spark.newSession()).writeStream.format("noop")
    foreign = elsewhere.queryName("foreign").start()
    running = [first, unnamed, windows]
    for query in running:
        query.processAllAvailable()
    until(lambda: set(governor.free) >= {"foreign"}, "the other session's query")
    once.awaitTermination(60)
    foreign.stop()
    feed.put()
    for query in running:
        query.processAllAvailable()
    assert counted(session, "counts") == 20
    assert sorted(seen) == list(range(15))
    # Only a micro-batch without data emits the last ones: the watermark closed them too late.
    assert counted(session, "windows") == 20
    assert set(governor.governed) == {"counts", str(unnamed.id), "windows"}
    assert "<td>counts</td><td>alarm</td><td>running</td>" in governor._repr_html_()
    report = governor.report()
    assert report.by_query()["counts"].count == 20
    assert report.by_class()["alarm"].count == 20
    assert report.manifest["governed"] == 3
    assert set(report.manifest["free_seen"]) == {"once", "foreign"}
    assert "AvailableNow" in report.manifest["free_seen"]["once"]
    _steer(session, governor, feed, first)
    governor.stop()
    assert "<th>p95</th>" in governor._repr_html_(), "its record, by class"
    feed.put()
    first.processAllAvailable()
    assert counted(session, "counts") == 40, "free again"
    late = rows.writeStream.format("noop").queryName("late").start()
    late.processAllAvailable()


def _steer(session: SparkSession, governor: Governor, feed: Feed, counts: Any) -> None:
    """What the dashboard does, through its commands."""
    handle(governor, "pause", {"query": "counts", "by": "test"})
    feed.put()

    def row() -> dict[str, Any]:
        queries = handle(governor, "snapshot", {})["queries"]
        return next(q for q in queries if q["name"] == "counts")

    until(lambda: row()["waiting"] > 0, "the file to be seen")
    assert (row()["state"], row()["cls"], counted(session, "counts")) == ("paused", "alarm", 20)
    handle(governor, "set-class", {"class": "archive", "priority": 5})
    handle(governor, "set-query", {"query": "counts", "class": "archive"})
    governor.assign("counts", "archive", [[0, 1], [1, 1], [2, 0]])
    handle(governor, "set-policy", {"policy": "stride"})
    assert (row()["state"], row()["cls"]) == ("paused", "archive")
    assert row()["waiting"] > 0
    handle(governor, "resume", {"query": "counts"})
    counts.processAllAvailable()
    assert counted(session, "counts") == 30
    assert [c["by"] for c in governor.changes[:2]] == ["test", "program"]
    with pytest.raises(ConfigError, match="is not running"):
        governor.pause("cuonts")


@pytest.mark.soak
def test_the_six_queries_of_the_example_give_what_they_give_ungoverned(
    spark: SparkSession, session: SparkSession, governor: Governor, tmp_path: Path
) -> None:
    """Duplicates, counts, session windows, a join, a state in Python and a ``foreachBatch``."""
    source = tmp_path / "readings"
    source.mkdir()
    example.write_readings(source, 600, rate=10**6)
    found = {}
    for way, own in (("governed", session), ("free", spark.newSession())):
        out, alarms = tmp_path / way, example.Alarms()
        running = list(example.queries(own, source, out, alarms))
        for query in running:
            query.processAllAvailable()
        found[way] = example.results(own, out, alarms)
        for query in running:
            query.stop()
    assert len(found["free"]) == 7  # six, and how many rows raised the alarm
    assert found["governed"] == found["free"]
    names = {"distinct", "counts", "spells", "swings", "hottest", "alarm"}
    assert governor.report().by_query().keys() == names


def test_a_policy_decides_how_many_files_a_micro_batch_reads(
    session: SparkSession, governor: Governor, feed: Feed
) -> None:
    governor.set_policy(make_policy_with("round-robin", train=20))
    feed.put()
    query = feed.read(session).writeStream.format("noop").queryName("q").start()
    query.processAllAvailable()
    governor.pause("q")
    for _ in range(5):
        feed.put()
    until(lambda: governor.snapshot().queries[0].waiting == 50, "the files to be seen")
    governor.resume("q")
    query.processAllAvailable()
    batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert batches == [10, 20, 20, 10]
    governor.stop()
    limits = str(cast(Any, query)._jsq.streamingQuery().uniqueSources())
    assert limits.endswith("-> All Available)"), "free again"


def test_failures_are_restarted_with_backoff_or_reported_and_others_continue(
    session: SparkSession, governor: Governor, feed: Feed, tmp_path: Path
) -> None:
    feed.put()
    rows, failed, seen = feed.read(session), threading.Event(), set[int]()

    def fail_once(batch: DataFrame, _number: int) -> None:
        if not failed.is_set():
            failed.set()
            raise ValueError("not this time")
        seen.update(row["id"] for row in batch.collect())

    def fail(batch: DataFrame, _number: int) -> None:
        raise ValueError("never")

    def write(name: str) -> Any:
        return rows.writeStream.queryName(name).option("checkpointLocation", str(tmp_path / name))

    governor.start(write("mended").foreachBatch(fail_once), cls="alarm")
    governor.start(write("hopeless").foreachBatch(fail))
    write("mine").foreachBatch(fail).start()
    good = write("good").format("noop").start()
    until(lambda: len(seen) == 10, "the restarted query's rows")
    until(lambda: set(governor.failures) == {"hopeless", "mine"}, "both to be given up")
    assert all("never" in why for why in governor.failures.values())
    states = {q.name: q.state for q in governor.snapshot().queries}
    assert (states["hopeless"], states["mine"]) == ("parked", "failed")
    with pytest.raises(ConfigError, match="only your program can start it again"):
        governor.resume("mine")
    feed.put()
    good.processAllAvailable()
    assert governor.report().by_query()["good"].count == 20


def test_a_query_is_stopped_anywhere_and_restarts_from_its_checkpoint(
    session: SparkSession, governor: Governor, feed: Feed, tmp_path: Path
) -> None:
    feed.put()
    rows, seen, inside, leave = (
        feed.read(session),
        list[int](),
        threading.Event(),
        threading.Event(),
    )
    leave.set()

    def remember(batch: DataFrame, _number: int) -> None:
        inside.set()
        leave.wait(30)
        seen.extend(row["id"] for row in batch.collect())

    def start(**trigger: Any) -> Any:
        writer = rows.dropDuplicates(["id"]).writeStream.queryName("q").foreachBatch(remember)
        writer = writer.option("checkpointLocation", str(tmp_path / "q"))
        return (writer.trigger(**trigger) if trigger else writer).start()

    query = start()
    query.processAllAvailable()
    query.stop()  # while it is parked
    feed.put()
    leave.clear()
    inside.clear()
    query = start()
    until(inside.is_set, "its micro-batch")
    threading.Timer(0.2, leave.set).start()
    query.stop()  # inside a granted micro-batch
    query = start(processingTime="1 hour")
    until(lambda: len(set(seen)) == 15, "the rows that it was stopped on")
    governed = governor._roster.queries["q"]
    until(lambda: governed.parked and governed.due_ms > time.time() * 1000, "its interval")
    query.stop()
    until(lambda: not governor.governed, "its end")


def test_a_gate_has_one_permit_and_a_session_one_governor(
    session: SparkSession, governor: Governor, feed: Feed
) -> None:
    """What is granted while a micro-batch runs would run undecided after it."""
    feed.put()
    inside, leave, batches = threading.Event(), threading.Event(), list[int]()

    def hang(_batch: DataFrame, number: int) -> None:
        inside.set()
        leave.wait(60)
        batches.append(number)

    query = feed.read(session).writeStream.queryName("q").foreachBatch(hang).start()
    until(inside.is_set, "its micro-batch")
    for _ in range(3):
        assert not governor._bridge.grant(str(query.runId))
    with pytest.raises(ConfigError, match="this session has a governor already, 'governed'"):
        Governor(session)
    governor.pause("q")
    feed.put()
    leave.set()
    until(lambda: governor._roster.queries["q"].parked, "its end")
    governor.resume("q")
    query.processAllAvailable()
    assert batches == [0, 1]

    governor._roster.came.append(cast(Any, "no event of the engine's"))
    until(lambda: governor._driver.failure, "the governor fails")
    assert governor.governed == ()
    assert governor.free["q"].startswith("the governor has failed: ")
    feed.put()
    query.processAllAvailable()
    assert batches[-1] == 2, "it runs free"
    Governor(session).stop()


def test_a_micro_batch_that_waits_for_another_query_loses_its_worker_in_time(
    session: SparkSession, feed: Feed
) -> None:
    """With one worker the two would wait for each other for ever."""
    feed.put()
    with Governor(session, "fcfs", workers=1, job_timeout_s=0.2, retry_s=0.05) as governor:
        inner = feed.read(session).writeStream.queryName("inner").format("noop").start()
        inner.processAllAvailable()
        ended = threading.Event()

        def wait_for_inner(_batch: DataFrame, _number: int) -> None:
            feed.put()
            inner.processAllAvailable()
            ended.set()

        outer = feed.read(session).writeStream.queryName("outer").foreachBatch(wait_for_inner)
        query = outer.start()
        until(lambda: "outer" in governor.failures, "it is given up")
        until(ended.is_set, "the inner query has run")
        until(lambda: not governor.failures, "and the outer micro-batch has ended")
        query.stop()
        inner.stop()
