"""What goes wrong with Kafka: each has a place and a remedy, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks.soaking.quick_jvm import quick_jvm
from examples.kafka.broker import Broker, free_port
from examples.kafka.topics import create, read, write
from pyspark.sql import SparkSession
from tests.until import until

from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.secrets import forget_all
from daybreak.runtime.eventlog import EVENTS_FILE
from daybreak.spark.app import App

pytestmark = pytest.mark.spark

SERVERS = "kafka.bootstrap.servers"
#: So that Spark and the producer notice an outage within the test's patience.
QUICK = {"kafka.request.timeout.ms": "900", "kafka.default.api.timeout.ms": "1000"}


def with_stream(spark: SparkSession, folder: Path, servers: str, topic: str) -> App:
    app = App(spark, folder=folder, name="mishaps")
    options = {SERVERS: servers, "subscribe": topic}
    app.stream("readings", format="kafka", schema="id INT", options=options)
    app.query("all", sql="SELECT id FROM readings")
    return app


def with_sink(spark: SparkSession, folder: Path, servers: str, topic: str) -> App:
    app = App(spark, folder=folder, name="mishaps")
    app.stream("numbers", format="rate")
    sink = {"format": "kafka", "options": {SERVERS: servers, "topic": topic}}
    app.query("all", sql="SELECT value FROM numbers", sink=sink)
    return app


@pytest.mark.parametrize("declare", [with_stream, with_sink])
def test_an_unreachable_broker_and_a_missing_topic_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path, declare: Callable[..., App]
) -> None:
    place = "stream 'readings'" if declare is with_stream else "query 'all'"
    nowhere = f"127.0.0.1:{free_port()}"
    began_s = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        declare(spark, tmp_path, nowhere, "in").check()
    assert time.monotonic() - began_s < 30, "in bounded time"
    assert caught.value.place == place
    assert caught.value.finding == f"no Kafka broker answers at {nowhere} (Connection refused)"
    assert "start it, or correct kafka.bootstrap.servers" in caught.value.remedy
    with pytest.raises(ConfigError) as caught:
        declare(spark, tmp_path, broker.servers, "no-such-topic").check()
    assert caught.value.place == place
    assert caught.value.finding.endswith("has no topic no-such-topic")
    assert "--create --topic no-such-topic" in caught.value.remedy


def test_credentials_that_a_broker_does_not_take_are_refused_and_not_shown(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    app = App(spark, folder=tmp_path, name="mishaps")
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    options = {
        SERVERS: broker.servers,
        "subscribe": "in",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{login} username="u" password="tr0ub4dor"',  # no semicolon
        **QUICK,
    }
    app.stream("readings", format="kafka", schema="id INT", options=options)
    app.query("all", sql="SELECT id FROM readings")
    with pytest.raises(ConfigError) as caught:
        app.check()
    forget_all()
    assert caught.value.place == "stream 'readings'"
    assert "refuses to list its topics" in caught.value.finding
    assert "credentials" in caught.value.remedy
    assert "tr0ub4dor" not in str(caught.value)


def test_a_missing_connector_is_refused_with_the_setting_that_brings_it(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(
        f"""
        [spark]
        master = "local[1]"
        [streams.readings]
        format = "kafka"
        schema = "id INT"
        options = {{ {SERVERS} = "localhost:9", subscribe = "in" }}
        [queries.all]
        sql = "SELECT id FROM readings"
        sink = {{ format = "memory" }}
        """
    )
    done = subprocess.run(
        [sys.executable, "-m", "daybreak", "check", "pipeline.toml", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "SPARK_SUBMIT_OPTS": quick_jvm()},
    )
    assert done.returncode == 2, done.stderr
    [error] = json.loads(done.stdout)["errors"]
    assert error["place"] == "stream 'readings'"
    assert error["finding"].startswith("Spark runs without the Kafka connector: spark-sql-kafka")
    assert 'packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:' in error["remedy"]
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_broker_that_goes_away_and_comes_back_costs_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    servers = broker.servers
    create(spark, servers, "away-in", "away-out")
    (tmp_path / "in").mkdir()
    app = App(spark, folder=tmp_path, name="away")
    app.stream(
        "readings",
        format="kafka",
        schema="id INT",
        options={
            SERVERS: servers,
            "subscribe": "away-in",
            "startingOffsets": "earliest",
            "fetchOffset.numRetries": "1",
            "fetchOffset.retryIntervalMs": "50",
            **QUICK,
        },
    )
    app.stream("files", format="json", path="in", schema="id INT")
    app.query("kept", sql="SELECT id FROM readings", sink={"format": "parquet", "path": "out"})
    sink = {
        "format": "kafka",
        "options": {
            SERVERS: servers,
            "topic": "away-out",
            "kafka.request.timeout.ms": "900",
            "kafka.delivery.timeout.ms": "1000",
            "kafka.max.block.ms": "1000",
        },
    }
    app.query("sent", sql="SELECT id FROM files", sink=sink)
    limits = Limits(retries=1, retry_s=0.1)
    with app.run(run_dir=tmp_path / "run", limits=limits) as run:
        write(spark, servers, "away-in", [json.dumps({"id": n}) for n in range(10)])
        put(tmp_path / "in", 0)
        until(lambda: answered(tmp_path) == 10, "the first rows")
        run.drain()
        broker.stop()
        put(tmp_path / "in", 1)

        def sent() -> tuple[str, int]:
            row = next(q for q in run.snapshot().queries if q.name == "sent")
            return row.state, row.failures

        until(lambda: sent()[1] > limits.retries + 1, "its sink fails again and again")
        assert sent()[0] == "retrying", "an outage parks no query"
        until(lambda: failed(tmp_path) > limits.retries + 1, "Spark's source fails, too")
        run.healthy()
        run.parts.inflow.kafka.poll()
        shown = run.snapshot()
        assert [(o.read > 0, o.end, o.lag) for o in shown.offsets] == [(True, None, None)] * 2
        error = next(s.error for s in shown.streams if s.name == "readings")
        assert error is not None
        assert f"no answer from {servers}" in error
        broker.start()
        write(spark, servers, "away-in", [json.dumps({"id": n}) for n in range(10, 20)])
        until(lambda: answered(tmp_path) == 20, "the rows after the outage")
        until(lambda: sent() == ("running", 0), "its sink takes rows again")
        run.parts.inflow.kafka.poll()
        assert not run.parts.inflow.kafka.troubles
    found = pq.read_table(tmp_path / "out", partitioning=None)["id"].to_pylist()
    assert sorted(found) == list(range(20))
    records = {r.identity: r.value["id"] for r in read(spark, servers, "away-out")}
    assert sorted(records.values()) == [0, 1]
    told = events(tmp_path)
    lost = next(e for e in told if e["event"] == "broker-lost")
    assert "start the broker again" in lost["message"]
    assert [e for e in told if e["event"] == "broker-back"]
    source = next(e["message"] for e in told if e["event"] == "source-failed")
    assert source.startswith(f"Kafka outage: no answer from {servers} (")
    assert source.endswith("resumes where it was, nothing is lost")
    delivery = next(e["message"] for e in told if e["event"] == "delivery-failed")
    assert f"topic 'away-out' at {servers} takes no records" in delivery
    assert "results are kept and sent then" in delivery


def put(folder: Path, number: int) -> None:
    """A file of one row, which is there as a whole or not at all."""
    partial = folder / f".{number}"
    partial.write_text(json.dumps({"id": number}))
    partial.rename(folder / f"{number}.json")


def answered(folder: Path) -> int:
    files = [p for p in (folder / "out").glob("*.parquet") if p.is_file()]
    return sum(int(pq.read_metadata(f).num_rows) for f in files)


def events(folder: Path) -> list[dict[str, str]]:
    lines = (folder / "run" / EVENTS_FILE).read_text().splitlines()
    return [json.loads(line) for line in lines]


def failed(folder: Path) -> int:
    return sum(event["event"] == "source-failed" for event in events(folder))
