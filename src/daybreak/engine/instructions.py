"""What an engine asks of its driver: the only way in which it acts on the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from daybreak.engine.events import Ran
from daybreak.engine.inbox import Waiting
from daybreak.policies.base import Plan, Work

#: Levels of notices, as ``logging`` has them.
DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40


class Group(NamedTuple):
    """Queries to run as one job, the one that was asked for first, and what each takes."""

    boxes: tuple[int, ...]
    taken: tuple[Waiting, ...]
    #: The queries whose composite is compiled: those that run, and others like them.
    cell: tuple[int, ...]
    #: Where a source decides what a job reads: how much of it may be read; None: all of it.
    allowed: int | None = None

    @property
    def tuples(self) -> int:
        return sum(item.tuples for item in self.taken)


@dataclass(frozen=True, slots=True)
class StartJob:
    """A worker is to run these groups, one after the other."""

    order: int
    worker: int
    plan: Plan
    groups: tuple[Group, ...]
    #: What deciding on it took.
    work: Work = field(default_factory=Work)


@dataclass(frozen=True, slots=True)
class Ingest:
    """Lets a source read on; ``Ingested`` answers."""

    grant: int
    stream: str
    #: Has nothing else to do until the answer; None where the step takes no worker.
    worker: int | None
    #: How much of what it shows, in its own unit.
    most: int


@dataclass(frozen=True, slots=True)
class CancelJob:
    """The present job of a worker is past its time limit; not if it has come to another group."""

    worker: int
    order: int
    group: int = 0


@dataclass(frozen=True, slots=True)
class AbandonJob:
    """It did not heed being cancelled: replace the worker, and report the end of the order.

    Unless it is committing by now, or has come to another group: then its end is reported when it
    comes.
    """

    worker: int
    order: int
    group: int = 0


@dataclass(frozen=True, slots=True)
class Skip:
    """Record that these ranges are given up, all or none; ``Skipped`` answers."""

    skip: int
    given: tuple[tuple[int, tuple[Waiting, ...]], ...]
    why: str


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Bring what a query has committed to its sink; ``Delivered`` answers."""

    box: int
    delivery: int
    #: Give up the first result that the sink refuses.
    skip: bool = False


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send ``Woke`` at this instant at the latest."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class Account:
    """A group ran: who took what, and what each query's share of the cost is."""

    worker: int
    boxes: tuple[int, ...]
    taken: tuple[Waiting, ...]
    ran: Ran
    shares: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AccountFailure:
    """A group failed after so long."""

    worker: int
    boxes: tuple[int, ...]
    tuples: int
    cost_ns: int


@dataclass(frozen=True, slots=True)
class Shed:
    """So many tuples of each query were given up because of overload."""

    tuples: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that had to wait is carried out; ``skipped`` tuples or result rows were given up.

    ``refused``: giving them up could not be recorded, or the query was dropped before; nothing
    has changed.
    """

    command: int
    skipped: int = 0
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an operator may want to know."""

    event: str
    message: str
    box: int | None = None
    level: int = INFO
    fields: Mapping[str, object] = field(default_factory=dict)


Instruction = (
    StartJob | Ingest | CancelJob | AbandonJob | Skip | Redeliver | WakeAt | Account
    | AccountFailure | Shed | Finished | Notice
)  # fmt: skip
