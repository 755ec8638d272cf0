"""A topic in, topics and files out, with a real broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from examples.kafka.broker import Broker
from examples.kafka.topics import create, ends, read, write
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from daybreak.dashboard.metrics import exposition
from daybreak.model.errors import ConfigError
from daybreak.model.secrets import forget_all
from daybreak.model.specs import SinkSpec
from daybreak.spark.app import App
from daybreak.spark.kafka.cluster import jvm
from daybreak.spark.sinks.kafka_producer import Producer, Record, _parts, send_one_by_one
from daybreak.spark.sinks.kafka_sink import records

pytestmark = pytest.mark.spark

ROWS = 500
SERVERS = "kafka.bootstrap.servers"
PASSWORD = "correct-horse-battery"
SCHEMA = "id INT, station STRING, temperature DOUBLE, _partition INT, _offset BIGINT"


def application(spark: SparkSession, servers: str, folder: Path, topic: str, **options: str) -> App:
    app = App(spark, folder=folder, name="kafka")
    app.query_class("high", 10)
    app.query_class("low", 1)
    app.stream(
        "readings",
        format="kafka",
        schema=SCHEMA,
        options={
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            **options,
        },
    )
    return app


def kafka(servers: str, topic: str, **options: str) -> dict[str, object]:
    return {
        "format": "kafka",
        "options": {"kafka.bootstrap.servers": servers, "topic": topic, **options},
    }


@pytest.fixture
def jaas(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Credentials that a broker without authentication does not ask for."""
    monkeypatch.setenv("TESTS_PASSWORD", PASSWORD)
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    yield {"kafka.sasl.jaas.config": f'{login} username="u" password="${{TESTS_PASSWORD}}";'}
    forget_all()


def test_rows_of_a_topic_reach_topics_and_files(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    jaas: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    servers = broker.servers
    create(spark, servers, "in", "hot", "all")
    rows = [{"id": n, "station": f"s{n % 7}", "temperature": n / 10} for n in range(ROWS)]
    broken = ['{"id": "x"', '{"id": "seven"}', None]
    write(spark, servers, "in", [*map(json.dumps, rows), *broken])
    app = application(spark, servers, tmp_path, "in", maxOffsetsPerTrigger="200", **jaas)
    app.query(
        "hot",
        sql="SELECT id, station FROM readings WHERE temperature > 20",
        cls="high",
        sink=kafka(servers, "hot", key="station", **jaas),
    )
    app.query("all", sql="SELECT * FROM readings", cls="low", sink=kafka(servers, "all"))
    app.query(
        "files",
        sql="SELECT id, _partition, _offset FROM readings",
        cls="low",
        sink={"format": "parquet", "path": "out"},
    )
    create(spark, servers, "late")
    late = SinkSpec(format="kafka", options={SERVERS: servers, "topic": "late", **jaas})
    with app.run(run_dir=tmp_path / "run") as run:
        run.drain(timeout_s=120)
        run.register("late", "SELECT id FROM readings", cls="low", sink=late, force=True)
        segments = run.parts.storage.store.segments("readings")
        dead = run.parts.inflow.dead_letters.count("readings")
        run.parts.inflow.kafka.poll()
        snapshot = run.snapshot()
    assert dead == len(broken), "what does not fit the schema is kept aside"
    assert max(segment.rows for segment in segments) <= 200, "rows per trigger are bounded"
    hot = read(spark, servers, "hot")
    assert sorted(r.value["id"] for r in hot) == list(range(201, ROWS))
    assert {r.key for r in hot} == {f"s{n}" for n in range(7)}
    stations = {(r.key, r.partition) for r in hot}
    assert len(stations) == 7, "rows of one key are in one partition"
    everything = read(spark, servers, "all")
    assert [r.key for r in everything] == [
        f"{job}/{query}/{row}" for query, job, row in (r.identity for r in everything)
    ]
    assert len({r.key for r in everything}) == ROWS
    assert {k: v for k, v in everything[0].value.items() if not k.startswith("_")} in rows
    files = pq.read_table(tmp_path / "out", partitioning=None)
    assert sorted(files["id"].to_pylist()) == list(range(ROWS))
    offsets = files.group_by("_partition").aggregate([("_offset", "max")])
    assert set(offsets["_partition"].to_pylist()) == {0, 1}, "columns of the record can be read"
    end = ends(servers, "in")
    assert {(p.topic, p.partition): (p.read, p.end, p.lag) for p in snapshot.offsets} == {
        ("in", p): (end[p], end[p], 0) for p in (0, 1)
    }

    texts = [caplog.text, json.dumps(snapshot.to_json()), exposition(snapshot).decode()]
    assert all(PASSWORD not in text for text in texts)
    kept = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert len(kept) > 10
    assert [path for path in kept if PASSWORD.encode() in path.read_bytes()] == []


def test_without_a_schema_the_columns_are_kafkas(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    app = App(spark, folder=tmp_path)
    create(spark, broker.servers, "raw")
    options = {"kafka.bootstrap.servers": broker.servers, "subscribe": "raw"}
    app.stream("raw", format="kafka", options=options)
    app.query("texts", sql="SELECT CAST(value AS STRING) AS text, partition FROM raw")
    assert app.check().checked["texts"].schema.names == ["text", "partition"]


def test_records_are_sent_in_one_call_or_one_by_one(spark: SparkSession, broker: Broker) -> None:
    create(spark, broker.servers, "one-call", "one-by-one")
    producer = Producer({"kafka.bootstrap.servers": broker.servers}, "here")
    sent = [Record(b"k", '{"t": "grün"}'.encode()), Record(None, b'{"t": null}')]
    producer.send("one-call", sent, "fire", "job-1")
    assert producer._open is not None
    assert producer._open.sender is not None, "Spark's compiler took our lines"
    send_one_by_one(jvm(), producer._open.producer, "one-by-one", sent, "fire", "job-1")
    for topic in ("one-call", "one-by-one"):
        found = read(spark, broker.servers, topic)
        assert sorted((r.key or "", r.value["t"], r.identity) for r in found) == [
            ("", None, ("fire", "job-1", "1")),
            ("k", "grün", ("fire", "job-1", "0")),
        ]
    # One that Kafka refuses for good leaves the producer to others.
    with pytest.raises(Py4JJavaError, match="RecordTooLargeException"):
        producer.send("one-call", [Record(None, bytes(2**21))], "fire", "job-2")
    producer.send("one-call", sent, "fire", "job-3")
    producer.close()


def test_many_rows_cross_to_the_jvm_in_parts_with_their_numbers() -> None:
    records = [Record(None, bytes(2**20)) for _ in range(12)]
    parts = list(_parts(records))
    assert [first for first, _ in parts] == [0, 5, 10]
    assert sum(len(part) for _, part in parts) == 12
    assert list(_parts(records[:1])) == [(0, records[:1])]


def test_a_key_is_written_as_in_the_value() -> None:
    table = pa.table({"n": [1, None], "flag": [True, False], "text": ["a/b", None]})
    assert [r.key for r in records(table, "job/q", "n")] == [b"1", None]
    assert [r.key for r in records(table, "job/q", "flag")] == [b"true", b"false"]
    assert [r.key for r in records(table, "job/q", "text")] == [b"a/b", None]
    assert [r.key for r in records(table, "job/q", None)] == [b"job/q/0", b"job/q/1"]


def test_a_column_that_is_no_column_cannot_be_the_key(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(spark, broker.servers, "keyed")
    app = application(spark, broker.servers, tmp_path, "keyed")
    sink = kafka(broker.servers, "keyed", key="staton")
    app.query("q", sql="SELECT station FROM readings", cls="low", sink=sink)
    with pytest.raises(ConfigError, match="key 'staton' is not one of its columns; did you mean"):
        app.run(run_dir=tmp_path / "run")
