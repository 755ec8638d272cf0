"""Stateful queries in three classes over one folder of files, and the feed that fills it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from daybreak.model.qos import QoSGraph

SCHEMA = "id long, station int, at timestamp, value int"
START_US = 1_767_225_600_000_000
#: Rows per second of event time, so that windows hold the same whatever the rate is.
PER_EVENT_SECOND = 100
#: Opening a file takes as long as reading thousands of rows, so all files are alike: a rate is a
#: number of files per second, whether they come one by one or as a backlog.
FILE_ROWS = 1000


class Class(NamedTuple):
    """A class of the benchmark: its weight, what a late answer is worth, and its share."""

    priority: float
    qos: QoSGraph
    share: float


CLASSES = {
    "critical": Class(60, QoSGraph(((0.0, 1.0), (1.0, 1.0), (5.0, 0.0))), 0.2),
    "normal": Class(30, QoSGraph(((0.0, 1.0), (5.0, 1.0), (20.0, 0.0))), 0.4),
    "archive": Class(10, QoSGraph(((0.0, 1.0), (30.0, 1.0), (120.0, 0.0))), 0.4),
}


class Made(NamedTuple):
    """A query: how often it reads each row, and how its result is written."""

    name: str
    cls: str
    frame: DataFrame
    mode: str
    reads: int


def table(first: int, rows: int) -> pa.Table:
    """Rows by number: the same whatever the rate is."""
    n = np.arange(first, first + rows, dtype=np.int64)
    at = START_US + n * 1_000_000 // PER_EVENT_SECOND
    return pa.table(
        {
            "id": n * 7919 % 5_003,
            "station": (n % 40).astype(np.int32),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "value": (n * 104_729 % 1000).astype(np.int32),
        }
    )


def feed(folder: Path, first: int, rows: int, rate: float) -> None:
    """Files of ``FILE_ROWS`` rows, renamed into place; a log tells when rows were created."""
    log = (folder.parent / "feed.log").open("a")
    began, written = time.time(), 0
    while written < rows:
        due = began + written / rate
        time.sleep(max(0.0, due - time.time()))
        size = min(rows - written, FILE_ROWS)
        created = time.time()
        part = folder / f".{first + written:012d}"
        pq.write_table(table(first + written, size), part)
        part.rename(folder / f"{first + written:012d}.parquet")
        written += size
        log.write(f"{first + written} {created}\n")
        log.flush()
        os.fsync(log.fileno())


def classes_of(count: int) -> list[str]:
    """Their classes, in the order of the queries."""
    found: list[str] = []
    for name, cls in CLASSES.items():
        found += [name] * round(count * cls.share)
    return (found + ["archive"] * count)[:count]


def queries(spark: SparkSession, folder: Path, count: int) -> Iterator[Made]:
    """Of five queries two remove duplicates, two count, and one joins the stream with itself."""
    rows = spark.readStream.schema(SCHEMA).parquet(str(folder))
    timed = rows.withWatermark("at", "1 second")
    for i, cls in enumerate(classes_of(count)):
        name = f"{cls}_{i}"
        if i % 5 == 4:
            left = timed.selectExpr(f"id % {500 + i} AS k", "at AS left_at", "value AS v")
            right = timed.selectExpr(f"id % {500 + i} AS k", "at", "value")
            near = "at BETWEEN left_at AND left_at + INTERVAL 1 SECOND"
            joined = left.join(right, "k").where(near).selectExpr("k", "v + value AS both")
            yield Made(name, cls, joined.where("both = 7"), "append", 2)
        elif i % 2:
            counts = rows.groupBy((rows["station"] * (i + 3) % 17).alias("k")).count()
            yield Made(name, cls, counts, "complete", 1)
        else:
            distinct = rows.selectExpr(f"id % {1000 + i} AS k").dropDuplicates(["k"])
            yield Made(name, cls, distinct, "append", 1)


def start(made: Made, out: Path) -> Any:
    """As any program does it."""
    writer = made.frame.writeStream.queryName(made.name).outputMode(made.mode)
    writer = writer.option("checkpointLocation", str(out / made.name))
    return writer.format("memory").start()
