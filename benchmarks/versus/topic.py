"""A broker of our own whose topic has the rows, in place of a folder of files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from benchmarks.versus.workload import STREAM
from examples.kafka.broker import REMEDY, Broker, can_start, connector_jars
from examples.kafka.topics import create

from daybreak.model import ConfigError
from daybreak.spark.session import local_session
from daybreak.spark.sinks.kafka_producer import Producer, Record

PARTITIONS = 2


@contextmanager
def lent_broker() -> Iterator[str]:
    """Runs a broker with an empty topic; gives its address.

    This process gets a JVM, whose producer feeds the topic: all sides are fed by the same program.
    """
    if not can_start():
        raise ConfigError("versus_spark.py", "the jars of a Kafka broker are missing", REMEDY)
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    with TemporaryDirectory(prefix="daybreak-broker-") as folder, Broker(Path(folder)) as broker:
        spark = local_session("versus-feeder", cores=1, extra_conf=jars)
        create(spark, broker.servers, STREAM, partitions=PARTITIONS)
        yield broker.servers


class Topic:
    """Writes rows as JSON objects into the topic."""

    def __init__(self, servers: str) -> None:
        self._producer = Producer({"kafka.bootstrap.servers": servers}, "feeder")

    def write(self, rows: pa.Table) -> None:
        made = rows.drop_columns(["at"]).to_pylist()
        records = [Record(str(row["id"]).encode(), json.dumps(row).encode()) for row in made]
        self._producer.send(STREAM, records, "feeder", "feeder")

    def close(self) -> None:
        self._producer.close()
