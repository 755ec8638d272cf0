"""What a pipeline declares, piece by piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from daybreak.model.arrivals import Arrivals
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import DEFAULT_CLASS
from daybreak.model.overheads import OVERHEADS, Overheads
from daybreak.model.qos import QoSGraph

#: How a query's rows reach its sink, as in Structured Streaming: every row once, rows that changed,
#: or the whole result, replaced.
Mode: TypeAlias = Literal["append", "update", "complete"]
MODES: tuple[Mode, ...] = ("append", "update", "complete")
#: Who reads a source: this driver's own threads, a StreamingQuery of Spark's, or the former where
#: the source allows it.
IngestWay: TypeAlias = Literal["auto", "direct", "spark"]
INGEST_WAYS: tuple[IngestWay, ...] = ("auto", "direct", "spark")


@dataclass(frozen=True, kw_only=True)
class StreamSpec:
    """A stream: its arrivals in simulation, its source on Spark."""

    name: str
    arrivals: Arrivals | None = None
    format: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    #: Event-time column; left out: arrival time.
    time: str | None = None
    #: How late a row may be behind the largest event time seen.
    watermark: str | None = None
    #: After so long without a row the stream's event time follows the clock.
    idle_timeout: str | None = None
    #: How long segments are kept for ad-hoc queries, whether or not a query still needs them.
    retain: str | None = None
    trigger: str = "100 milliseconds"
    ingest: IngestWay = "auto"


@dataclass(frozen=True, kw_only=True)
class SinkSpec:
    """Where a query's rows go."""

    format: str
    path: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    #: Columns whose values divide the rows into folders.
    partition_by: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """In a table: the place, or the kind of sink where that is all there is to tell."""
        within = self.options.get("topic") or self.options.get("table")
        return self.path or (f"{self.format} {within}" if within else self.format)


@dataclass(frozen=True, kw_only=True)
class QuerySpec:
    """A query: SQL for Spark, boxes for the simulator, or both."""

    name: str
    cls: str = DEFAULT_CLASS
    qos: QoSGraph | None = None
    weight: float = 1.0
    subscribers: int | None = None
    sql: str | None = None
    sink: SinkSpec | None = None
    #: What it does when the log is full: lose its oldest rows, or slow the sources down. Left
    #: out: the queries of the top class block, all others skip.
    on_full: Literal["skip", "block"] | None = None
    #: Left out: append, and only what needs no state beyond its windows.
    mode: Mode | None = None
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class ViewSpec:
    """A box that several queries share: SQL whose rows they read by its name."""

    name: str
    sql: str
    #: For a view over windows: its column that later windows take for event time.
    time: str | None = None
    place: str = ""


@dataclass(frozen=True, kw_only=True)
class TableSpec:
    """A static table that queries join with."""

    name: str
    format: str
    path: str | None = None
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    #: How often it is read again; None: never.
    refresh: str | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationParams:
    """How long and on what kind of machine a simulation runs."""

    #: Simulated seconds in which tuples arrive.
    duration_s: float = 10.0
    #: Threads that run queries.
    workers: int = 1
    #: The same seed gives the same run, to the tuple.
    seed: int = 1
    #: What scheduling and calls cost beside the work itself.
    overheads: str = "none"
    #: Offered load as a fraction of ideal capacity; all rates are scaled to meet it.
    load: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.duration_s <= 1e7:
            raise ConfigError("simulation", f"duration_s {self.duration_s}", "give (0, 1e7] s")
        if not 1 <= self.workers <= 1024:
            raise ConfigError("simulation", f"workers {self.workers}", "give 1 to 1024 workers")
        if self.load is not None and not 0 < self.load <= 100:
            raise ConfigError("simulation", f"load {self.load}", "give a load in (0, 100]")
        if self.overheads not in OVERHEADS:
            raise ConfigError(
                "simulation",
                f"overheads {self.overheads!r}",
                suggestion(self.overheads, OVERHEADS),
            )

    def overhead_set(self) -> Overheads:
        return OVERHEADS[self.overheads]
