"""What baselines share: sessions, the source, and a durable Parquet file written by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.versus.workload import STREAM, WATERMARK, Task
from examples.kafka.broker import connector_jars
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming.query import StreamingQuery

from daybreak.spark.session import local_session

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
#: Spark's own defaults, where Daybreak's session has others.
DEFAULTS: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_CHECKPOINTING}.FileContextBasedCheckpointFileManager"
    ),
}
#: For every side: hundreds of streaming queries do not fit into the default gigabyte.
MEMORY: Mapping[str, str] = {"spark.driver.memory": "3g"}


def session(
    task: Task, *, tuned: bool, extra_conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Spark with its defaults; tuned: with the settings that Daybreak's own session has."""
    jars = {"spark.jars": ",".join(map(str, connector_jars()))} if task.servers else {}
    conf = {**MEMORY, **({} if tuned else DEFAULTS), **jars, **(extra_conf or {})}
    return local_session(f"versus-{task.side}", cores=task.cores, extra_conf=conf)


def source(spark: SparkSession, task: Task) -> DataFrame:
    """The stream of readings; by default a trigger starts as soon as the one before ended."""
    if task.servers:
        options = {"kafka.bootstrap.servers": task.servers, "subscribe": STREAM}
        read = spark.readStream.format("kafka").option("startingOffsets", "earliest")
        value = from_json(col("value").cast("string"), task.schema).alias("row")
        return read.options(**options).load().select(value).select("row.*")
    rows = spark.readStream.schema(task.schema).parquet(str(task.input))
    return rows.withWatermark("at", WATERMARK) if task.mixed else rows


def add_stations(spark: SparkSession) -> None:
    """The static table of the mixed workload."""
    names = [(i, f"station {i}") for i in range(500)]
    spark.createDataFrame(names, "station INT, name STRING").createOrReplaceTempView("stations")


def refuse(*_rows: object) -> None:
    """A sink that fails."""
    raise OSError("the other side does not answer")


def watching(queries: Iterable[StreamingQuery]) -> Callable[[], dict[str, Any]]:
    """A check that raises if one of these has died."""
    watched = list(queries)

    def check() -> dict[str, Any]:
        for query in watched:
            if not query.isActive:
                raise RuntimeError(f"streaming query {query.name} has ended: {query.exception()}")
        return {}

    return check


def write_file(folder: Path, name: str, rows: pa.Table, *, sync: bool) -> None:
    """A whole file or none: written aside, synced, renamed, the folder synced."""
    partial = folder / f"_{name}.partial"
    with partial.open("wb") as file:
        pq.write_table(rows, file)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    partial.rename(folder / name)
    if sync:
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
