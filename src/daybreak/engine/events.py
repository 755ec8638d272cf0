"""Events of an engine: arrivals, ends of jobs, time, and operators' commands.

Events are data. A driver gives an engine events with the instant at which it does, and carries out
the instructions that come back. Whatever a policy sees has come by an event, and events are handled
in the order in which they came: so the same events give the same instructions again.

To add an event: a frozen dataclass here and its name in ``Event`` (or ``Command``), then one line
in ``Engine._handlers`` that names the method which handles it. A handler reads the time from
``core.now_ns``, and nothing from outside: a figure that it needs is a field of the event. What the
world has to do about it is an instruction that the handler emits (``core.emit``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from daybreak.engine.inbox import Arrival, Inbox, Tick, Waiting
from daybreak.engine.queries import QueryFacts
from daybreak.model.network import Network
from daybreak.policies.base import BasePolicy, ProcessorUse

#: How a job was computed: by a prepared plan, as a Spark job over rows in memory or over rows in a
#: file that the driver wrote, by executors over large segments, or as a micro-batch of Spark's.
Way = Literal["prepared", "spark-job", "spark-job-on-file", "executors", "micro-batch"]
#: Of a job with several plans, the first of these that one of them took counts.
WAYS: tuple[Way, ...] = ("micro-batch", "executors", "spark-job-on-file", "spark-job", "prepared")


class Failure(NamedTuple):
    """Why a job or a delivery did not end well."""

    error: str
    #: The run's own disk refused, or a sink is down: no fault of the query's, so it is tried
    #: without end.
    ours: bool = False
    #: The job took longer than ``job_timeout``.
    timeout: bool = False


class Ran(NamedTuple):
    """What one job did."""

    #: Result rows of each of its queries.
    rows: tuple[int, ...]
    #: Time to compute, and time to make the results durable.
    work_ns: int
    commit_ns: int
    committed_at_ns: int
    #: When it began, on the clock of the arrivals.
    began_ns: int
    #: Queries whose sink would not take a result that is committed: it stays staged.
    undelivered: Mapping[str, Failure]
    #: Of each query, when the first tuple that gave a row had arrived; None where none did.
    stale_since_ns: tuple[int | None, ...]
    #: None where there was nothing to compute, or it does not matter (in a replay).
    way: Way | None = None
    #: False where there was nothing to compute, such as windows without a row: what that took says
    #: nothing of jobs.
    computed: bool = True
    #: What it read of what it was given, and what it left; None: all was read.
    read: tuple[Waiting, ...] | None = None
    left: tuple[Waiting, ...] = ()
    #: Of the work: what tasks took that their worker ran for the first time, so that Spark planned
    #: and compiled them.
    cold_ns: int = 0
    #: Of the commit: what the log took, which waits for its disk or its server.
    disk_ns: int = 0


class Done(NamedTuple):
    """A group of an order that was tried: the queries that ran, and what they did."""

    boxes: tuple[int, ...]
    #: None where none ran.
    ran: Ran | None
    #: What the group's query read in fact and what it left, where only its source decides that;
    #: None: what it was given. Such a query runs alone.
    read: tuple[Waiting, ...] | None = None
    left: tuple[Waiting, ...] = ()
    #: Of the queries that ran, those whose sinks would not take what is committed.
    behind: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """The first event: what waits already is pending from now on."""


@dataclass(frozen=True, slots=True)
class Woke:
    """Time has passed. Sent several times a second, and at every ``WakeAt``."""

    #: The use of the cores as last read; None where that is no limit for jobs, or not known.
    processor: ProcessorUse | None = None


@dataclass(frozen=True, slots=True)
class SegmentArrived:
    """Tuples of a stream are durable, and pending for every query that reads it."""

    segment: Arrival


@dataclass(frozen=True, slots=True)
class WatermarkRaised:
    """A stream's watermark was raised without a row; windows may have closed."""

    tick: Tick


@dataclass(frozen=True, slots=True)
class RangeArrived:
    """A range is pending for these queries alone."""

    boxes: tuple[int, ...]
    item: Waiting


@dataclass(frozen=True, slots=True)
class SourceShows:
    """A source has rows to read, and waits for a step to be granted.

    Asked again with other figures, it replaces what it said before.
    """

    stream: str
    #: How much there is, in a unit of the source's; 0: it asks no more.
    amount: int
    #: When the first of these rows was there to be read.
    shown_ns: int = 0
    #: What a step is expected to take: by itself, and for each unit of the amount.
    fixed_ns: float = 0.0
    per_unit_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class Ingested:
    """A step that was granted has ended, well or not; its rows come as segments."""

    stream: str
    grant: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class JobBegan:
    """A worker has come to this group of its order."""

    order: int
    group: int


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A worker is done with its order, or given up."""

    order: int
    #: The groups that were tried and did not fail, in their order.
    done: tuple[Done, ...]
    #: Why the group after those failed, if one did.
    failure: Failure | None
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a query had committed has reached its sink, or was refused (again)."""

    box: int
    failure: Failure | None = None
    #: The number of the ``Redeliver`` that this answers; 0: it was tried at the start.
    delivery: int = 0
    #: Rows of the result that was given up, where the ``Redeliver`` asked for that.
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Skipped:
    """A ``Skip`` is recorded, or could not be: then nothing was given up."""

    skip: int
    recorded: bool = True


@dataclass(frozen=True, slots=True)
class LogFull:
    """The log is full: lagging queries that may lose rows lose what lies before these places."""

    #: Segment and row, by stream.
    cut: Mapping[str, tuple[int, int]]
    #: Of queries over windows: the tuples of their oldest closed windows that must go for that.
    windows: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stop:
    """Jobs under way end; no other is started."""


# What operators ask for


@dataclass(frozen=True, slots=True)
class SetPriority:
    cls: int
    priority: float


@dataclass(frozen=True, slots=True)
class AssignClass:
    box: int
    cls: int


@dataclass(frozen=True, slots=True)
class SetWeight:
    box: int
    weight: float


@dataclass(frozen=True, slots=True)
class SetSubscribers:
    box: int
    count: int


@dataclass(frozen=True, slots=True)
class SwitchPolicy:
    """Another policy from now on; jobs under way end as they are."""

    policy: BasePolicy
    seed: int = 1


@dataclass(frozen=True, slots=True)
class AddQuery:
    """A query comes, at the end of the network or where a dropped one of its name was."""

    box: int
    facts: QueryFacts
    network: Network
    inbox: Inbox


@dataclass(frozen=True, slots=True)
class Pause:
    """No further job of the query is started."""

    box: int


@dataclass(frozen=True, slots=True)
class Resume:
    """Whatever holds the query, it may run again. Answered by ``Finished``."""

    box: int
    #: Give up what it failed on first: the tuples of a job, or one result that its sink refuses.
    skip: bool = False
    command: int = 0


@dataclass(frozen=True, slots=True)
class Drop:
    """The query goes, once its job has ended. Answered by ``Finished``."""

    box: int
    command: int = 0


Command = (
    SetPriority | AssignClass | SetWeight | SetSubscribers | SwitchPolicy
    | AddQuery | Pause | Resume | Drop
)  # fmt: skip
Event = (
    Started | Woke | SegmentArrived | WatermarkRaised | RangeArrived | SourceShows | Ingested
    | JobBegan | JobEnded | Delivered | Skipped | LogFull | Stop | Command
)  # fmt: skip
