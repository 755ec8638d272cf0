"""What the governor knows of each query: governed ones and their jobs, and those that run free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from daybreak.engine.events import Done, Ran
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import Group as JobGroup
from daybreak.engine.instructions import StartJob
from daybreak.spark.gates.bridge import Ready, UnitGroup
from daybreak.spark.governed.backlog import NS_PER_MS, what_was_read

#: Starts a query again, where its last checkpoint ended.
Restart = Callable[[], object]


def units_of(groups: Iterable[UnitGroup]) -> Counter[int]:
    """How many units wait, by source."""
    found: Counter[int] = Counter()
    for group in groups:
        found[group.source] += group.units
    return found


class FreeQuery(NamedTuple):
    """A query that runs as Spark runs it, and why."""

    name: str
    why: str


@dataclass(slots=True)
class GrantOrder:
    """What the engine asked a worker for: queries that are granted one after the other."""

    started: StartJob
    done: list[Done] = field(default_factory=list)
    cost_ns: int = 0

    @property
    def group(self) -> JobGroup | None:
        """The one whose turn it is."""
        groups = self.started.groups
        return groups[len(self.done)] if len(self.done) < len(groups) else None


@dataclass(slots=True)
class Job:
    """A grant that is being used: a micro-batch."""

    order: GrantOrder
    taken: tuple[Waiting, ...]
    began_ns: int
    #: How many units of each source it may read; empty: as many as there are.
    units: tuple[int, ...] = ()
    ran: bool = False
    ms: int = 0
    rows: int = 0
    out: int = 0

    def add(self, ready: Ready) -> None:
        if ready.ran:
            self.ran = True
            self.ms += ready.ms
            self.rows += ready.rows
            self.out += ready.out

    @property
    def cost_ns(self) -> int:
        return self.ms * NS_PER_MS

    def done(self, box: int, left: tuple[Waiting, ...], now_ns: int) -> Done:
        """What the engine is told of it."""
        if not self.ran:
            return Done((), None, (), left)
        read = what_was_read(self.taken, left, self.rows)
        since = min((item.arrival_ns for item in read), default=None) if self.out else None
        ran = Ran((self.out,), self.cost_ns, 0, now_ns, self.began_ns, {}, (since,))
        return Done((box,), ran, read, left)


#: A query that was stopped inside its turn: nothing was done, and nothing is left.
NOTHING = Done((), None, ())


@dataclass(slots=True)
class Governed:
    """A query behind a gate. The loop's thread alone writes it."""

    name: str
    #: Spark's id of its present run; None after it has failed.
    run: str | None
    #: The class that the program started it in.
    started_in: str | None
    restart: Restart | None
    since_ms: int
    #: Its index in the engine; -1 before its first grant is asked for.
    box: int = -1
    parked: bool = False
    turn: int = 0
    sources: tuple[str, ...] = ()
    #: Only an empty micro-batch shows that nothing waits: of a source, or for its timers.
    blind: bool = False
    #: When the interval of its trigger is over.
    due_ms: int = 0
    #: Units that the engine knows of, by source.
    told: Counter[int] = field(default_factory=Counter)
    #: The engine was asked for a grant although nothing is known to wait.
    asked: bool = False
    #: Its last micro-batch moved the watermark, and another emits what that closed.
    owed: bool = False
    job: Job | None = None
    #: Its QoS graph has changed: to be admitted again when it has no job.
    renew: bool = False
    #: Since when it is parked with nothing to do.
    idle_since_s: float = 0.0
    #: Why it failed, if nobody can start it again.
    failed: str | None = None
    #: Its last micro-batch was given up, past its time limit, and has not ended yet.
    hangs: bool = False

    def left(self, groups: tuple[UnitGroup, ...]) -> None:
        """So much waits; the engine knows."""
        self.told = units_of(groups)
        self.asked = self.owed = False

    @property
    def can_begin(self) -> bool:
        """Whether a grant has an effect now; not after it was stopped, nor while it hangs."""
        return self.parked if self.run is not None else self.restart is not None

    @property
    def waits(self) -> bool:
        """Whether the engine knows of something to do."""
        return bool(self.told) or self.asked


@dataclass(slots=True)
class Grants:
    """Grants that were used, and how long: with what the gate adds to its micro-batches."""

    count: int = 0
    wall_ns: int = 0
    batch_ns: int = 0

    def add(self, wall_ns: int, batch_ns: int) -> None:
        self.count += 1
        self.wall_ns += wall_ns
        self.batch_ns += batch_ns

    def as_json(self) -> dict[str, float]:
        """``gate_s``: until the query woke, and until its end was known."""
        return {
            "count": self.count,
            "batch_s": round(self.batch_ns / 1e9, 3),
            "gate_s": round(max(0, self.wall_ns - self.batch_ns) / 1e9, 3),
        }
