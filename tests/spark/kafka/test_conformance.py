"""The Kafka sink obeys the laws of sinks, with a real broker."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from examples.kafka.broker import Broker
from examples.kafka.topics import create, read
from pyspark.sql import SparkSession

from daybreak.model.specs import SinkSpec
from daybreak.spark.sinks.conformance import QUERY, SCHEMA, SinkUnderTest, check_all
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink


class Topic(SinkUnderTest):
    """A new topic for every law."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self._spark, self._servers = spark, servers
        self._numbers = count()
        self._name = ""

    def sink(self, staging: Path, limit_s: float = 30.0) -> Sink:
        options = {"kafka.bootstrap.servers": self._servers, "topic": self._name}
        spec = SinkSpec(format="kafka", options=options)
        return make_sink(QUERY, spec, staging, staging, schema=SCHEMA, limit_s=limit_s)

    def rows(self) -> list[int]:
        return [record.value["number"] for record in read(self._spark, self._servers, self._name)]

    def renew(self) -> None:
        self._name = f"laws-{next(self._numbers)}"
        create(self._spark, self._servers, self._name)


@pytest.mark.soak
def test_laws(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    check_all(Topic(spark, broker.servers), tmp_path)
