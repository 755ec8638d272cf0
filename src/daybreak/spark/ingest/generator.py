"""A built-in source for demonstrations, tests and benchmarks: rows made by a function.

``format = "generator"`` in a pipeline, with ``options = { rows = "stations", seed = 1 }`` and
the rate from ``arrivals``. Row n of a generator is always the same row, so a run that is killed
and started again continues with the row after the last durable one: nothing lost, nothing twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import StructType

from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.specs import StreamSpec
from daybreak.runtime.clock import CLOCK
from daybreak.spark.ingest.backpressure import Backpressure, Stopped
from daybreak.spark.ingest.source_failure import SourceFailure
from daybreak.spark.log.segments import OnSegment, SegmentStore

FORMAT = "generator"
#: Rows of a segment at most: if the source falls behind, its segments do not become ever larger.
MOST_ROWS = 500_000


@dataclass(frozen=True)
class Rows:
    """A kind of row: its columns, and rows ``first`` to ``last`` of a seed, made at an instant."""

    schema: str
    make: Callable[[int, NDArray[np.int64], int], pa.Table]


def stations(seed: int, n: NDArray[np.int64], now_us: int) -> pa.Table:
    """Weather stations in twelve districts; about one reading in a thousand is a fire."""
    mixed = _mix(n + np.int64(seed) * 1_000_003)
    station = _rest(mixed, 240).astype(np.int32)
    noise = _mix(mixed + 1)
    temperature = (_rest(noise, 41) - 2).astype(np.int32)
    humidity = (15 + _rest(noise // 64, 80)).astype(np.int32)
    wind = _rest(noise // 4096, 90).astype(np.int32)
    fire = np.flatnonzero(_rest(noise, 1000) == 0)
    temperature[fire] = 45 + noise[fire] % 30
    humidity[fire] = noise[fire] % 15
    return pa.table(
        {
            "reading": pa.array(n),
            "district": pa.array(station // 20),
            "station": pa.array(station),
            "temperature": pa.array(temperature),
            "humidity": pa.array(humidity),
            "wind": pa.array(wind),
            "at": pa.array(np.full(len(n), now_us, np.int64)).cast(pa.timestamp("us", "UTC")),
        }
    )


KINDS: Mapping[str, Rows] = {
    "stations": Rows(
        "reading BIGINT, district INT, station INT, temperature INT, humidity INT, wind INT, "
        "at TIMESTAMP",
        stations,
    ),
}


class GeneratorSource:
    """One stream filled by a thread of its own at the declared rate."""

    def __init__(
        self,
        spec: StreamSpec,
        store: SegmentStore,
        on_segment: OnSegment,
        backpressure: Backpressure | None = None,
        tick_s: float = 0.1,
    ) -> None:
        self.name = spec.name
        self._rows, self._seed, self._limit = _options(spec)
        self._arrivals = spec.arrivals or Arrivals(rate_per_s=100.0)
        self._store = store
        self._on_segment = on_segment
        self._backpressure = backpressure or Backpressure()
        self._tick_s = tick_s
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"generator-{self.name}", daemon=True
        )
        self._failure: SourceFailure | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def failure(self) -> SourceFailure | None:
        return self._failure

    def drain(self) -> None:
        if self._limit is None:
            raise ConfigError(
                f"stream {self.name!r}", "never ends", "give its generator a limit option"
            )
        self._thread.join()

    def _run(self) -> None:
        try:
            self._generate()
        except Stopped:
            pass  # what it would have made comes with the next start
        except Exception as error:
            self._failure = SourceFailure.of(error)

    def _generate(self) -> None:
        kept = self._store.segments(self.name)
        batch, made = (kept[-1].batch_id + 1, _last_row(kept[-1].offsets)) if kept else (0, 0)
        began, first = time.monotonic(), made
        while not self._stop.wait(self._tick_s):
            due = first + rows_due(self._arrivals, time.monotonic() - began)
            due = due if self._limit is None else min(due, self._limit)
            while due > made and not self._stop.is_set():
                self._backpressure.wait(self._stop)
                last = min(due, made + MOST_ROWS)
                self._append(batch, made, last)
                batch, made = batch + 1, last
            if self._limit is not None and made >= self._limit:
                return

    def _append(self, batch: int, first: int, last: int) -> None:
        now_ns = CLOCK.now_ns()
        table = self._rows.make(self._seed, np.arange(first, last, dtype=np.int64), now_ns // 1000)
        made_by = f"generator-{self._seed}"
        offsets = [first, last]
        self._store.append(
            self.name, made_by, batch, offsets, table, now_ns, listed=self._on_segment
        )


def generator_schema(spec: StreamSpec) -> StructType:
    rows, _, _ = _options(spec)
    schema = StructType.fromDDL(rows.schema)
    assert isinstance(schema, StructType)
    return schema


def rows_due(arrivals: Arrivals, elapsed_s: float) -> int:
    """How many rows have arrived after so long, phases included."""
    rate = arrivals.rate_per_s or 0.0
    phases = [p for p in arrivals.phases if p.duration_s is not None]
    if not phases:
        return int(rate * elapsed_s)
    cycle = sum(_span(p) for p in phases)
    rounds, rest = divmod(elapsed_s, cycle)
    made = rounds * sum(_span(p) * p.factor for p in phases)
    for phase in phases:
        inside = min(rest, _span(phase))
        made += inside * phase.factor
        rest -= inside
    return int(rate * made)


def _span(phase: Phase) -> float:
    return phase.duration_s or 0.0


def _options(spec: StreamSpec) -> tuple[Rows, int, int | None]:
    place = f"stream {spec.name!r}"
    given = resolved(spec.options, place)
    kind = given.pop("rows", "stations")
    if kind not in KINDS:
        raise ConfigError(place, f"generator has no rows {kind!r}", suggestion(kind, KINDS))
    numbers: dict[str, int | None] = {"seed": 1, "limit": None}
    for key, text in given.items():
        if key not in numbers:
            remedy = suggestion(key, ["rows", *numbers])
            raise ConfigError(place, f"generator has no option {key!r}", remedy)
        if not text.isdecimal():
            raise ConfigError(place, f"{key} is {text!r}", "give a whole number")
        numbers[key] = int(text)
    return KINDS[kind], numbers["seed"] or 0, numbers["limit"]


def _last_row(offsets: str) -> int:
    return int(offsets.strip("[]").split(",")[1])


def _mix(n: NDArray[np.int64]) -> NDArray[np.int64]:
    """A well-spread non-negative number for each number (splitmix64)."""
    with np.errstate(over="ignore"):
        z = n.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(2)).astype(np.int64)


def _rest(n: NDArray[np.int64], divisor: int) -> NDArray[np.int64]:
    """``n % divisor``, in half the time: NumPy is much faster at dividing by one number."""
    return n - n // divisor * divisor
