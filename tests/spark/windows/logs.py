"""Logs of random cuts, disorder and late rows, and what a batch over them gives."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from daybreak.spark.app import App
from daybreak.spark.ingest import generator
from daybreak.spark.log.segments import Segment
from daybreak.spark.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = 1_000_000
START = 1_767_225_600 * S  # 2026-01-01, a multiple of every window here
COLUMNS = pa.schema(
    [
        ("n", pa.int32()),
        ("k", pa.int32()),
        ("v", pa.int32()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)
DDL = "n INT, k INT, v INT, at TIMESTAMP"
DELAY = 3 * S
Row = dict[str, Any]
#: A generator that makes nothing: rows come through ``feed``.
BY_HAND = generator.Rows(DDL, lambda seed, n, now_us: COLUMNS.empty_table())
cast("dict[str, generator.Rows]", generator.KINDS)["by-hand"] = BY_HAND


@dataclass
class Log:
    """Streams a and b, as segments of rows; ``at`` in microseconds."""

    streams: dict[str, list[list[Row]]]
    #: In which order the segments of both became durable.
    order: list[str]

    @classmethod
    def random(cls, seed: int, rows: int = 120, seconds: int = 40) -> Log:
        rng = Random(seed)
        streams: dict[str, list[list[Row]]] = {}
        for name in ("a", "b"):
            made = []
            for n in range(rows):
                lag = rng.choice([0, 0, 0, rng.uniform(0, 3), rng.uniform(0, 14)])
                at = START + round((seconds * n / rows - lag) * S)
                made.append({"n": n, "k": rng.randrange(3), "v": rng.randrange(50), "at": at})
            cuts = sorted({0, rows, *(rng.randrange(1, rows) for _ in range(rng.randint(4, 9)))})
            streams[name] = [made[i:j] for i, j in pairwise(cuts)]
        order = [name for name, segments in streams.items() for _ in segments]
        rng.shuffle(order)
        return cls(streams, order)

    def watermark(self, stream: str, segments: int) -> int:
        seen = [row["at"] for rows in self.streams[stream][:segments] for row in rows]
        return max(seen) - DELAY if seen else -(10**18)

    def in_time(self, stream: str, late: Callable[[int, int], bool]) -> list[Row]:
        """The rows that are not late, given their time and the watermark before their segment."""
        return [
            row
            for k, rows in enumerate(self.streams[stream])
            for row in rows
            if not late(row["at"], self.watermark(stream, k))
        ]

    def segments(self) -> list[tuple[str, int, list[Row]]]:
        """All segments in the order they arrive."""
        at = dict.fromkeys(self.streams, 0)
        found = []
        for stream in self.order:
            found.append((stream, at[stream], self.streams[stream][at[stream]]))
            at[stream] += 1
        return found


def in_order(log: Log) -> Log:
    """The same cuts of the same rows, none of which is late."""
    for name, segments in log.streams.items():
        rows = iter(sorted((row for made in segments for row in made), key=lambda row: row["at"]))
        log.streams[name] = [[next(rows) for _ in made] for made in segments]
    return log


def table(rows: list[Row]) -> pa.Table:
    columns = {name: [row[name] for row in rows] for name in COLUMNS.names}
    at = pa.array(columns.pop("at"), pa.int64()).cast(COLUMNS.field("at").type)
    return pa.table({**columns, "at": at}, schema=COLUMNS)


def declare(spark: SparkSession, name: str = "windows") -> App:
    """An application whose two streams are fed by hand."""
    app = App(spark, name=name)
    app.query_class("high", 60, [[0, 1], [1, 1], [2, 0]])
    app.query_class("low", 10)
    app.query_class("default", 5)
    for stream in ("a", "b"):
        app.stream(
            stream,
            format="generator",
            options={"rows": "by-hand", "limit": 0},
            time="at",
            watermark="3 seconds",
        )
    return app


def feed(run: Run, segments: list[tuple[str, int, list[Row]]]) -> list[Segment]:
    """As a source does, but with cuts of our choice."""
    found = []
    for stream, k, rows in segments:
        arrival_ns = time.time_ns()
        made = run.parts.storage.store.append(stream, "by-hand", k, [0, 0], table(rows), arrival_ns)
        assert made is not None
        run.parts.scheduling.arrivals.on_segment(made)
        found.append(made)
    return found


def bag(found: pa.Table | list[Row] | None) -> Counter[str]:
    """Rows without their order."""
    rows = found.to_pylist() if isinstance(found, pa.Table) else found or []
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)


def tumbling_late(length: int) -> Callable[[int, int], bool]:
    return lambda at, before: at - at % length + length <= before


def band_late(at: int, before: int) -> bool:
    return at < before


def batches(
    spark: SparkSession, queries: dict[str, str], streams: dict[str, list[Row]]
) -> dict[str, Counter[str]]:
    """Each query as one batch over these rows."""
    session = spark.newSession()
    for name, rows in streams.items():
        data: Any = table(rows)
        session.createDataFrame(data, DDL).createOrReplaceTempView(name)
    return {name: bag(session.sql(sql).toArrow()) for name, sql in queries.items()}


def batch(spark: SparkSession, sql: str, streams: dict[str, list[Row]]) -> Counter[str]:
    """One batch over these rows."""
    return batches(spark, {"": sql}, streams)[""]


def sliding(rows: list[list[Row]], log: Log, stream: str, length: int, slide: int) -> Counter[str]:
    """count and sum by window end and key, by hand: each window takes what is not late for it."""
    groups: dict[tuple[int, int], list[int]] = {}
    for segment, made in enumerate(rows):
        before = log.watermark(stream, segment)
        for row in made:
            start = row["at"] - row["at"] % slide
            while start + length > row["at"]:
                if start + length > before:
                    groups.setdefault((start + length, row["k"]), []).append(row["v"])
                start -= slide
    return bag(
        [
            {"e": datetime.fromtimestamp(end / S, UTC), "k": k, "n": len(v), "s": sum(v)}
            for (end, k), v in groups.items()
        ]
    )
