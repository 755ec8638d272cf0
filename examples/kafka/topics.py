"""Topics written and read by means that Daybreak itself does not use."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from daybreak.spark.kafka.cluster import Cluster, properties


class Read(NamedTuple):
    """A record as a consumer sees it."""

    key: str | None
    value: dict[str, Any]
    #: Query, job and row: the same if the record was written again.
    identity: tuple[str, ...]
    partition: int
    #: When it was written, seconds since 1970.
    written_s: float


def create(spark: SparkSession, servers: str, *topics: str, partitions: int = 2) -> None:
    java: Any = spark.sparkContext._jvm
    make = getattr(java, "org.apache.kafka.clients.admin.NewTopic")
    wanted = java.java.util.ArrayList()
    for topic in topics:
        wanted.add(make(topic, partitions, 1))
    admin = getattr(java, "org.apache.kafka.clients.admin.AdminClient").create(
        properties(java, {"bootstrap.servers": servers})
    )
    admin.createTopics(wanted).all().get()
    admin.close()


def write(spark: SparkSession, servers: str, topic: str, values: Iterable[str | None]) -> None:
    """Through Spark's own sink, in one job; over all partitions."""
    rows = [(str(n), value) for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "key STRING, value STRING")
    options = {"kafka.bootstrap.servers": servers, "topic": topic}
    frame.write.format("kafka").options(**options).save()


def read(spark: SparkSession, servers: str, topic: str) -> list[Read]:
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "includeHeaders": "true"}
    rows = spark.read.format("kafka").options(**options).load().collect()
    return [
        Read(
            None if row.key is None else row.key.decode(),
            json.loads(row.value),
            tuple(header.value.decode() for header in row.headers or ()),
            row.partition,
            row.timestamp.timestamp(),
        )
        for row in rows
    ]


def ends(servers: str, topic: str, partitions: int = 2) -> dict[int, int]:
    cluster = Cluster({"kafka.bootstrap.servers": servers})
    try:
        return cluster.ends({topic: range(partitions)})[topic]
    finally:
        cluster.close()
