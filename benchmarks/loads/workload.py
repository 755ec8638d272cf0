"""Three workloads over one stream: filters, windows and joins, and both mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from daybreak.model import Arrivals
from daybreak.spark.app import App

CLASSES: dict[str, tuple[float, list[list[float]]]] = {
    "critical": (60, [[0, 1.0], [0.5, 1.0], [1.5, 0.0]]),
    "normal": (30, [[0, 1.0], [2.0, 1.0], [5.0, 0.0]]),
    "archive": (10, [[0, 1.0], [10.0, 1.0], [30.0, 0.0]]),
}
#: Until then a critical answer loses nothing.
KNEE_S = 0.5
STREAM = "readings"
#: Windows close so long after their end.
WATERMARK_S = 0.2
#: The query whose sink fails always; it is parked, and not counted.
BROKEN = "broken"
WORKLOADS = ("mixed", "filters", "windows")

FILTER = """SELECT reading, station, temperature FROM readings
WHERE temperature > {warm} AND humidity < {dry} AND wind > {windy}"""
AVERAGE = """SELECT window.end AS until, district, avg(temperature) AS mean, count(*) AS n
FROM readings WHERE humidity > {dry} GROUP BY window(at, '{seconds} seconds'), district"""
NEIGHBOURS = """SELECT a.reading, b.reading AS other FROM readings a JOIN readings b
ON a.station = b.station
AND window(a.at, '{seconds} seconds') = window(b.at, '{seconds} seconds')
WHERE a.temperature > {warm} AND b.wind > {windy}"""
#: The windows in which neighbours are joined.
JOINED_S = 2
NAMED = """SELECT reading, name, temperature FROM readings JOIN districts USING (district)
WHERE temperature > {warm}"""
EXPENSIVE = "aggregate(transform(sequence(1, 300), x -> sqrt(x * wind + 1)), 0D, (a, b) -> a + b)"


class Declared(NamedTuple):
    name: str
    cls: str
    sql: str
    #: The length of its windows; 0 where it answers rows.
    window_s: int = 0


def queries(workload: str) -> Iterator[Declared]:
    """The queries in SQL; the mixed workload has two more, see ``application``."""
    if workload != "windows":
        for i in range(36):
            sql = FILTER.format(warm=35 - i % 12, dry=20 + i, windy=i % 7)
            yield Declared(f"filter-{i:02d}", list(CLASSES)[i % 3], sql)
    if workload == "filters":
        return
    for i in range(10):
        seconds = 2 + i % 3
        sql = AVERAGE.format(dry=i * 5, seconds=seconds)
        yield Declared(f"average-{i:02d}", "normal" if i % 2 else "archive", sql, seconds)
    for i in range(6):
        sql = NEIGHBOURS.format(warm=38 + i, windy=45 + i, seconds=JOINED_S)
        yield Declared(f"neighbours-{i:02d}", "normal" if i % 2 else "archive", sql, JOINED_S)
    for i in range(6):
        sql = NAMED.format(warm=30 + i)
        yield Declared(f"named-{i:02d}", "critical" if i % 2 else "normal", sql)


def prepare(spark: SparkSession) -> None:
    """The static table that some queries join with."""
    names = [(i, f"district {i}") for i in range(100)]
    spark.createDataFrame(names, "district INT, name STRING").createOrReplaceTempView("districts")


def application(spark: SparkSession, workload: str, rate_per_s: float) -> App:
    """Rows of one stream at this rate, and the workload's queries over them."""
    app = App(spark, name=workload)
    for name, (priority, qos) in CLASSES.items():
        app.query_class(name, priority, qos=qos)
    app.stream(
        STREAM, format="generator", options={"seed": 1}, arrivals=Arrivals(rate_per_s=rate_per_s),
        time="at", watermark=f"{WATERMARK_S} seconds",
    )  # fmt: skip
    for name, cls, sql, _ in queries(workload):
        app.query(name, sql=sql, cls=cls, sink=_away)
    if workload == "mixed":

        @app.query(cls="archive", sink=_away)
        def expensive(readings: DataFrame) -> DataFrame:
            return readings.selectExpr("reading", f"{EXPENSIVE} AS total")

        sql = "SELECT reading FROM readings WHERE wind > 10"
        app.query(BROKEN, sql=sql, cls="normal", sink=_refuse)
    return app


def _away(_rows: pa.Table, _key: str) -> None:
    pass


def _refuse(_rows: pa.Table, _key: str) -> None:
    raise OSError("the other side does not answer")
