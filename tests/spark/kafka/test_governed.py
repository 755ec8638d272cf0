"""Governed queries over a topic: a policy decides how many offsets a micro-batch reads."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from examples.kafka.broker import Broker
from examples.kafka.topics import create
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.until import until

from daybreak.policies.registry import make_policy_with
from daybreak.spark.governed.governor import Governor

pytestmark = pytest.mark.spark

TOPIC = "governed"
TRAIN = 20


@pytest.fixture
def session(spark: SparkSession) -> SparkSession:
    """A session of its own: its governor sees no query of another test."""
    return spark.newSession()


@pytest.fixture
def governor(session: SparkSession) -> Iterator[Governor]:
    governor = Governor(session, make_policy_with("round-robin", train=TRAIN))
    yield governor
    for query in session.streams.active:
        query.stop()
    governor.stop()
    assert governor.unable is None


def put(spark: SparkSession, servers: str, first: int, end: int) -> None:
    """Rows of these numbers, every other one in the same of two partitions."""
    rows = [(str(n), n % 2) for n in range(first, end)]
    options = {"kafka.bootstrap.servers": servers, "topic": TOPIC}
    frame = spark.createDataFrame(rows, "value STRING, partition INT").coalesce(1)
    frame.write.format("kafka").options(**options).save()


def writer(session: SparkSession, servers: str, name: str, **options: str) -> DataStreamWriter:
    """The rows of the topic, into a table of this name."""
    connection = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    rows = session.readStream.format("kafka").options(**connection, **options).load()
    numbers = rows.selectExpr("CAST(CAST(value AS STRING) AS INT) AS n")
    return numbers.writeStream.format("memory").queryName(name)


def ungoverned(spark: SparkSession, servers: str, offsets: str) -> list[int]:
    """What the same query reads in one micro-batch of another session."""
    other = spark.newSession()
    query = writer(other, servers, "free", startingOffsets=offsets)
    query.trigger(availableNow=True).start().awaitTermination(60)
    return found(other, "free")


def found(session: SparkSession, name: str) -> list[int]:
    return sorted(row.n for row in session.table(name).collect())


def test_a_policy_decides_how_many_offsets_a_micro_batch_reads(
    spark: SparkSession, broker: Broker, session: SparkSession, governor: Governor
) -> None:
    servers = broker.servers
    create(spark, servers, TOPIC)
    put(spark, servers, 0, 10)
    # What was in the topic before a query began to read it is no measure of what an offset holds.
    declared = {
        "newest": {"startingOffsets": "latest"},
        "bounded": {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "16"},
    }
    running = {
        name: writer(session, servers, name, **options).start()
        for name, options in declared.items()
    }
    for name, query in running.items():
        query.processAllAvailable()
        governor.pause(name)
    put(spark, servers, 10, 60)
    until(lambda: {q.waiting for q in governor.snapshot().queries} == {50}, "offsets to be seen")
    for name, query in running.items():
        governor.resume(name)
        query.processAllAvailable()
    read = {
        name: [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
        for name, query in running.items()
    }
    assert read == {"newest": [20, 20, 10], "bounded": [10, 16, 16, 16, 2]}
    since = json.dumps({TOPIC: {"0": 5, "1": 5}})
    assert found(session, "newest") == ungoverned(spark, servers, since)
    assert found(session, "bounded") == ungoverned(spark, servers, "earliest")
