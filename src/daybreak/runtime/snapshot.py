"""How a run stands at one moment: what pages, exporters and terminals show. Pure data.

A snapshot is the same whether it comes from a run in this process, from its control socket or
from the record of a finished run. Lists that only grow (jobs, points, changes) are numbered, so
that a watcher asks for the newer ones alone. A figure that is not known is None.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

#: Version of what ``to_json`` writes.
FORMAT = 1
#: Response times and utility "of late" are those of so many seconds.
RECENT_S = 5
#: Box plots and staleness "of late" are those of so many seconds.
MINUTE_S = 60
#: One point a second is kept for so long.
HISTORY_S = 600
#: So many of the newest jobs are kept.
MOST_JOBS = 2000

RunState = Literal["running", "ended"]


class ClassPoint(NamedTuple):
    """A class at one second: what it got in the last ``RECENT_S``, and what waited then."""

    answered: int
    mean_s: float | None
    p50_s: float | None
    p95_s: float | None
    p99_s: float | None
    utility: float | None
    #: Share of the last ``MINUTE_S`` in which its queries were stale, by their weights.
    staleness: float
    waiting: int


class Point(NamedTuple):
    """One second of a run; ``classes`` in the order of the snapshot's classes."""

    seq: int
    at_s: float
    classes: tuple[ClassPoint, ...]
    #: Cumulative priority inversion ratio of the mean response times.
    inversion: float
    #: Lowest class's mean response time over the highest's.
    starvation: float | None
    #: Of the last ``RECENT_S``: share of all threads' time that went into scheduling, and of the
    #: workers' into jobs, which are booked when they end.
    scheduler_share: float
    busy_share: float


class Spread(NamedTuple):
    """A box plot of response times; whiskers at the tenth and the ninetieth percentile."""

    p10_s: float
    p25_s: float
    p50_s: float
    p75_s: float
    p90_s: float


class ClassRow(NamedTuple):
    """A class now."""

    name: str
    priority: float
    #: How many queries are in it.
    queries: int
    #: Of the last ``RECENT_S``, as the last point has it.
    recent: ClassPoint
    #: Of the last ``MINUTE_S``, to within 2.5 %; for a finished run of all of it.
    spread: Spread | None
    #: Age of the oldest tuple that waits.
    oldest_s: float
    #: Priority inversion ratio against the next class below; 0 where it is not slower.
    inversion: float
    #: Its response times keep rising although its input does not.
    starving: bool
    #: Since the start: tuples answered, and the sum of their response times.
    answered: int
    response_sum_s: float


class QueryRow(NamedTuple):
    """A query now."""

    #: What jobs and edges call it by; stays the same during a run.
    number: int
    name: str
    cls: str
    #: Of its class.
    priority: float
    weight: float
    #: running, paused, retrying, parked; ended in a finished run.
    state: str
    kind: str
    reads: tuple[str, ...]
    #: The view whose rows it computes; None for a query of its own.
    view: str | None
    waiting: int
    oldest_s: float
    #: Tuples that came per second lately.
    arrived_per_s: float
    #: Since the start.
    tuples: int
    rows: int
    jobs: int
    cost_us: float
    selectivity: float
    #: Share of the last ``MINUTE_S`` in which it was stale; for a finished run of all of it.
    staleness: float
    failures: int
    error: str | None
    #: Rows that were given up, and how many of them for which reason.
    lost: int
    losses: Mapping[str, int] = {}
    #: Of its result rows, those that the driver has held: not what executors have written.
    rows_through_driver: int = 0
    #: In complete mode: the rows that its newest result lacks, and for how long the oldest of them
    #: has been there. None in other modes.
    behind: int | None = None
    behind_s: float | None = None


class StreamRow(NamedTuple):
    """A stream, or the stream that a view makes."""

    name: str
    view: bool
    #: Rows since the start, and per second lately.
    arrived: int
    arrived_per_s: float
    segments: int
    bytes: int
    dead_letters: int
    blocked: bool
    error: str | None
    #: Of its rows, those that the driver has held: at ingest, or because a job had to read them.
    rows_through_driver: int = 0
    #: Whether its source has failed too often and is no longer started; see ``error``.
    stopped: bool = False
    #: Who reads its source, and why: ``direct``, ``jobs: ...``, or ``spark: ...`` for a
    #: StreamingQuery; empty where nothing reads.
    ingest: str = ""
    #: Time that reading it took, and that it waited for the scheduler to let it read.
    ingest_work_s: float = 0.0
    ingest_waited_s: float = 0.0


class OffsetRow(NamedTuple):
    """A partition of a topic that a stream is read from."""

    stream: str
    topic: str
    partition: int
    #: The first offset that is not in the log yet.
    read: int
    #: The offset that the next record will have; None while the broker does not answer.
    end: int | None
    #: Records that are there and not read.
    lag: int | None


class Edge(NamedTuple):
    """Tuples of a stream that wait for a query."""

    stream: str
    query: int
    waiting: int


class Underway(NamedTuple):
    """What a worker does now: queries that run as one job, the one that was asked first."""

    worker: int
    queries: tuple[int, ...]
    tuples: int
    for_s: float


class JobRow(NamedTuple):
    """A job that ended."""

    seq: int
    #: -1 where it is not known.
    worker: int
    begin_s: float
    end_s: float
    #: By number; the one that was asked first, then those that rode along.
    queries: tuple[int, ...]
    #: That each of them took, and result rows of all together.
    tuples: int
    rows: int
    failed: bool


class ChangeRow(NamedTuple):
    """What an operator changed: who, when, what, from which value to which."""

    seq: int
    at_s: float
    #: Wall clock, seconds since 1970; None in records that do not tell.
    time_s: float | None
    by: str
    what: str
    subject: str
    was: Any
    now: Any

    @classmethod
    def of(cls, seq: int, change: Mapping[str, Any]) -> ChangeRow:
        """From what a run's manifest lists; older ones do not tell who, or what it was before."""
        return cls(
            seq=seq,
            at_s=change["at_s"],
            time_s=change.get("time_s"),
            by=change.get("by", "program"),
            what=change["what"],
            subject=change["subject"],
            was=change.get("was"),
            now=change.get("value"),
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment."""

    pipeline: str
    state: RunState
    policy: str
    parameters: Mapping[str, Any]
    elapsed_s: float
    #: Wall clock of the start, seconds since 1970; None where it is not recorded.
    started_s: float | None
    workers: int
    decisions: int
    #: Since the start, seconds: scheduling, jobs' work, making results durable, all threads' time.
    scheduling_s: float
    work_s: float
    commit_s: float
    total_s: float
    classes: tuple[ClassRow, ...]
    queries: tuple[QueryRow, ...]
    streams: tuple[StreamRow, ...]
    edges: tuple[Edge, ...]
    underway: tuple[Underway, ...]
    points: tuple[Point, ...]
    jobs: tuple[JobRow, ...]
    changes: tuple[ChangeRow, ...]
    #: What maintenance could not do lately, by the name of the task.
    troubles: Mapping[str, str]
    #: What queries have not read yet, and how much that may be; None where it is not recorded.
    log_bytes: int = 0
    log_max_bytes: int | None = None
    #: Of the streams that are read from Kafka.
    offsets: tuple[OffsetRow, ...] = ()
    #: Queries that are no longer declared, and until when (ISO 8601) their places are kept.
    undeclared: Mapping[str, str] = field(default_factory=dict)
    #: Of a policy that plans: see docs/planned.md.
    plan: Mapping[str, Any] | None = None
    #: Prepared plans: how many are wanted and ready, jobs by the way they ran, and why trains took
    #: Spark jobs. Empty where it is not recorded.
    prepared: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds that late answers lost so far, by query and cause (``policies.reasons``); of queries
    #: without a goal, those of their slowest answers. Empty where it is not noted.
    waited: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def last(self) -> Point | None:
        """The newest point; None before the first."""
        return self.points[-1] if self.points else None

    def to_json(self) -> dict[str, Any]:
        """Only what JSON knows; objects with names, except points, edges and jobs, which are many
        and become lists in the order of their fields."""
        return {
            "format": FORMAT,
            "pipeline": self.pipeline,
            "state": self.state,
            "policy": self.policy,
            "parameters": {key: _plain(value) for key, value in self.parameters.items()},
            "elapsed_s": self.elapsed_s,
            "started_s": self.started_s,
            "workers": self.workers,
            "decisions": self.decisions,
            "scheduling_s": self.scheduling_s,
            "work_s": self.work_s,
            "commit_s": self.commit_s,
            "total_s": self.total_s,
            "classes": [_class_json(c) for c in self.classes],
            "queries": [q._asdict() for q in self.queries],
            "streams": [s._asdict() for s in self.streams],
            "edges": self.edges,
            "underway": [u._asdict() for u in self.underway],
            "points": self.points,
            "jobs": self.jobs,
            "changes": [c._asdict() for c in self.changes],
            "troubles": dict(self.troubles),
            "log_bytes": self.log_bytes,
            "log_max_bytes": self.log_max_bytes,
            "offsets": [o._asdict() for o in self.offsets],
            "undeclared": dict(self.undeclared),
            "prepared": dict(self.prepared),
            "waited": {query: dict(causes) for query, causes in self.waited.items()},
            "plan": self.plan,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Snapshot:
        """What ``to_json`` gave, after a journey as text."""
        rows: dict[str, Any] = {n: tuple(map(read, data.get(n, ()))) for n, read in _ROWS.items()}
        return cls(**{k: v for k, v in data.items() if k != "format"} | rows)


def known(value: float, digits: int = 6) -> float | None:
    """A figure as JSON takes it; None for NaN and infinity."""
    return round(float(value), digits) if math.isfinite(value) else None


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _class_json(row: ClassRow) -> dict[str, Any]:
    spread = row.spread._asdict() if row.spread else None
    return row._asdict() | {"recent": row.recent._asdict(), "spread": spread}


def _class_row(data: Mapping[str, Any]) -> ClassRow:
    spread = Spread(**data["spread"]) if data["spread"] else None
    return ClassRow(**{**data, "recent": ClassPoint(**data["recent"]), "spread": spread})


def _query_row(data: Mapping[str, Any]) -> QueryRow:
    return QueryRow(**{**data, "reads": tuple(data["reads"])})


def _underway(data: Mapping[str, Any]) -> Underway:
    return Underway(**{**data, "queries": tuple(data["queries"])})


def _point(data: list[Any]) -> Point:
    return Point(*data)._replace(classes=tuple(ClassPoint(*c) for c in data[2]))


def _job(data: list[Any]) -> JobRow:
    return JobRow(*data)._replace(queries=tuple(data[4]))


_ROWS: Mapping[str, Any] = {
    "classes": _class_row,
    "queries": _query_row,
    "streams": lambda data: StreamRow(**data),
    "offsets": lambda data: OffsetRow(**data),
    "edges": lambda data: Edge(*data),
    "underway": _underway,
    "points": _point,
    "jobs": _job,
    "changes": lambda data: ChangeRow(**data),
}
