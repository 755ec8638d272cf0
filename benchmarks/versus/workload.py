"""What every side is asked: N filters of three classes over one stream of readings.

Mixed: 24 of them are other queries: aggregates and joins over windows, joins with a static table,
one that computes a lot for each row, and one whose sink always fails. What is measured are the
filters beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.model.app_table import DEFAULT_POLICY
from daybreak.model.qos import QoSGraph

STREAM = "readings"
#: ``created_us``: when the row was made, in µs since 1970; latency counts from there.
SCHEMA = "id BIGINT, created_us BIGINT, station INT, temperature INT, humidity INT, wind INT"
#: The same with the event time that windows go by.
MIXED_SCHEMA = f"{SCHEMA}, at TIMESTAMP"
WATERMARK = "0.2 seconds"
#: What every query gives, of rows that pass.
COLUMNS = ("id", "created_us", "station", "temperature")
#: Most important first: sides that can choose an order take this one.
CLASSES: Mapping[str, int] = {"critical": 60, "normal": 30, "archive": 10}
#: Share of the queries in each class.
SHARES: Mapping[str, float] = {"critical": 0.2, "normal": 0.4, "archive": 0.4}
QOS: Mapping[str, QoSGraph] = {
    "critical": QoSGraph(((0.0, 1.0), (0.5, 1.0), (1.5, 0.0))),
    "normal": QoSGraph(((0.0, 1.0), (2.0, 1.0), (5.0, 0.0))),
    "archive": QoSGraph(((0.0, 1.0), (10.0, 1.0), (30.0, 0.0))),
}
#: Of 1000 possible temperatures, how many a query of the class wants.
_WIDTH: Mapping[str, int] = {"critical": 20, "normal": 50, "archive": 100}
_RANGE = 1000


@dataclass(frozen=True)
class Filter:
    """One continuous query."""

    name: str
    cls: str
    low: int
    high: int
    wind: int

    @property
    def condition(self) -> str:
        return f"temperature >= {self.low} AND temperature < {self.high} AND wind > {self.wind}"

    @property
    def sql(self) -> str:
        return f"SELECT {', '.join(COLUMNS)} FROM {STREAM} WHERE {self.condition}"

    def passes(self, rows: pa.Table) -> NDArray[np.bool_]:
        """Which of these rows must arrive in the sink: the condition once more, without Spark."""
        temperature, wind = rows["temperature"].to_numpy(), rows["wind"].to_numpy()
        kept: NDArray[np.bool_] = (
            (temperature >= self.low) & (temperature < self.high) & (wind > self.wind)
        )
        return kept


def filters(n: int) -> list[Filter]:
    """``n`` queries, critical ones first; no two have the same condition."""
    critical = max(1, round(n * SHARES["critical"]))
    normal = round(n * SHARES["normal"])
    counts = {"critical": critical, "normal": normal, "archive": n - critical - normal}
    made = []
    for cls, count in counts.items():
        for i in range(count):
            low = i * (_RANGE - _WIDTH[cls]) // max(1, count - 1)
            made.append(Filter(f"{cls}-{i:03d}", cls, low, low + _WIDTH[cls], wind=i % 5))
    return made


@dataclass(frozen=True)
class Other:
    """A query of the mixed workload that is no filter; whose results nobody counts."""

    name: str
    cls: str
    sql: str
    fails: bool = False


_AVERAGE = """SELECT window.end AS until, station, avg(temperature) AS mean, count(*) AS n
FROM {stream} WHERE humidity > {dry} GROUP BY window(at, '{seconds} seconds'), station"""
# Every side gets the form that both understand.
_NEIGHBOURS = """SELECT x.id, y.id AS other FROM
(SELECT *, window(at, '2 seconds') AS w FROM {stream} WHERE temperature > {warm}) x JOIN
(SELECT *, window(at, '2 seconds') AS w FROM {stream} WHERE wind > {windy}) y
ON x.w = y.w AND x.station = y.station"""
_NAMED = """SELECT id, name, temperature FROM {stream} JOIN stations USING (station)
WHERE temperature > {warm}"""
_EXPENSIVE = """SELECT id, aggregate(transform(sequence(1, 300), x -> sqrt(x * wind + 1)), 0D,
(a, b) -> a + b) AS total FROM {stream}"""


def others() -> list[Other]:
    """The 24 queries of the mixed workload that are no filters."""
    made = [
        Other(f"average-{i}", ("archive", "normal")[i % 2],
              _AVERAGE.format(stream=STREAM, dry=i * 5, seconds=2 + i % 3))
        for i in range(10)
    ]  # fmt: skip
    for i in range(6):
        sql = _NEIGHBOURS.format(stream=STREAM, warm=950 + i, windy=90 + i)
        made.append(Other(f"neighbours-{i}", ("archive", "normal")[i % 2], sql))
        sql = _NAMED.format(stream=STREAM, warm=900 + i)
        made.append(Other(f"named-{i}", ("normal", "critical")[i % 2], sql))
    made.append(Other("expensive", "archive", _EXPENSIVE.format(stream=STREAM)))
    broken = f"SELECT id FROM {STREAM} WHERE wind > 10"
    return [*made, Other("broken", "normal", broken, fails=True)]


def readings(first_id: int, count: int, created_us: int, rng: np.random.Generator) -> pa.Table:
    """Rows made at one moment."""

    def column(high: int) -> NDArray[np.int32]:
        return rng.integers(0, high, count, dtype=np.int32)

    return pa.table(
        {
            "id": np.arange(first_id, first_id + count, dtype=np.int64),
            "created_us": np.full(count, created_us, dtype=np.int64),
            "station": column(500),
            "temperature": column(_RANGE),
            "humidity": column(100),
            "wind": column(100),
            "at": pa.array(np.full(count, created_us)).cast(pa.timestamp("us", "UTC")),
        }
    )


@dataclass(frozen=True)
class Task:
    """One measurement, as the child process that runs a side is told it."""

    side: str
    queries: int
    rate_per_s: float
    work: str
    cores: str = "*"
    policy: str = DEFAULT_POLICY
    rider_bound_s: float = 0.1
    mixed: bool = False
    #: Files in the folder of the source before the start, with rows that no query wants.
    old_files: int = 0
    #: Rows have event time, which says when they were created.
    timed: bool = False
    #: Of Kafka, whose topic has the rows; empty: they come in files.
    servers: str = ""

    @property
    def filters(self) -> list[Filter]:
        return filters(self.queries - len(self.others))

    @property
    def others(self) -> list[Other]:
        return others() if self.mixed else []

    @property
    def schema(self) -> str:
        return MIXED_SCHEMA if self.mixed or self.timed else SCHEMA

    @property
    def input(self) -> Path:
        return Path(self.work) / "in"

    @property
    def output(self) -> Path:
        """Every query has a folder of its name in here."""
        return Path(self.work) / "out"

    @property
    def checkpoints(self) -> Path:
        return Path(self.work) / "checkpoints"

    def sink(self, query: Filter) -> Path:
        return self.output / query.name

    def as_json(self) -> dict[str, object]:
        return asdict(self)
