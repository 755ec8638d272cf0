"""Drives an engine in virtual time, where jobs cost what they are said to: for replays.

The engine is the one that runs queries on Spark. Here arrivals come at their recorded instants,
and all results of a job leave at its end. Scheduling has a thread of its own and holds up whoever
waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.costs import Kind
from daybreak.engine.drive import NEVER, EngineLoop
from daybreak.engine.engine import Engine
from daybreak.engine.events import (
    AssignClass,
    Done,
    Event,
    JobEnded,
    Ran,
    RangeArrived,
    SetPriority,
    SetWeight,
    Skipped,
    Started,
)
from daybreak.engine.inbox import Inbox, Waiting, WholeInbox
from daybreak.engine.instructions import Group, Instruction, Skip, StartJob
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import SystemState
from daybreak.model.network import Network
from daybreak.runtime.accounting import Accounts

#: How often an engine that sheds load is woken.
TICK_NS = 100_000_000


class Delivery(NamedTuple):
    """Tuples that become pending for some queries."""

    at_ns: int
    boxes: Sequence[int]
    item: Waiting


class Made(NamedTuple):
    """A change that an operator makes at some instant."""

    at_ns: int
    what: Literal["class-priority", "query-class", "weight"]
    #: Index of the class or query.
    subject: int
    was: float
    now: float

    def command(self) -> SetPriority | AssignClass | SetWeight:
        """The change as an engine is told of it."""
        if self.what == "class-priority":
            return SetPriority(self.subject, self.now)
        if self.what == "query-class":
            return AssignClass(self.subject, int(self.now))
        return SetWeight(self.subject, self.now)

    def undo(self, state: SystemState) -> None:
        """Sets the subject to what it was before."""
        if self.what == "class-priority":
            state.class_priority[self.subject] = self.was
        elif self.what == "query-class":
            state.query_class[self.subject] = int(self.was)
        else:
            state.query_weight[self.subject] = self.was


class KindCosts(Protocol):
    """What jobs of one kind cost."""

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        """Of the ``job``-th job."""


@dataclass(frozen=True)
class ReplayedQueries:
    """The queries of a run by index: how they run, what they cost, which tuples pass."""

    #: What a query has in common with all that may run along with it, else None.
    share_keys: Sequence[str | None]
    #: Whether what arrived together is taken as a whole.
    windows: Sequence[bool]
    kinds: Sequence[Hashable]
    costs: Callable[[Hashable], KindCosts]
    #: Of each query, the places of the tuples that give a row in the order of its arrivals.
    passing: Sequence[NDArray[np.int64]]
    #: What its jobs are like, and how far apart its windows close; guessed where it is not known.
    job_kinds: Sequence[Kind | None] = ()
    slides_ns: Sequence[int] = ()
    #: Of governed queries, how many tuples a unit of their sources holds: a file, for instance.
    unit_tuples: Sequence[float] = ()

    def facts(self, network: Network) -> list[QueryFacts]:
        """What the engine has to know of them."""
        return [
            QueryFacts(
                box.name, box.inputs, self._job_kind(q), self.share_keys[q],
                answers="windows" if self.windows[q] else "rows",
                slide_ns=self.slides_ns[q] if self.slides_ns else 0, spared=self.windows[q],
            )
            for q, box in enumerate(network.boxes)
        ]  # fmt: skip

    def _job_kind(self, query: int) -> Kind:
        known = self.job_kinds[query] if self.job_kinds else None
        if known is not None:
            return known
        if self.windows[query]:
            return "window"
        return "job" if self.share_keys[query] is None else "filter"

    def inboxes(self) -> list[Inbox]:
        """Empty ones; what closed together is taken together."""
        if self.unit_tuples:
            return [UnitInbox(unit_tuples=unit) for unit in self.unit_tuples]
        return [WholeInbox() if windows else Inbox() for windows in self.windows]


@dataclass
class UnitInbox(Inbox):
    """What waits for a governed query, whose micro-batches read whole files, one at least."""

    unit_tuples: float = 1.0

    def take(self, limit: int | None, *, cuts: bool = False) -> list[Waiting]:
        """As many whole units as hold ``limit`` tuples."""
        if limit is not None and limit > 0:
            limit = max(1, round(max(1, int(limit / self.unit_tuples)) * self.unit_tuples))
        return super().take(limit, cuts=cuts)


class _Job(NamedTuple):
    """A group on a worker."""

    group: Group
    began_ns: int
    cost_ns: int


class VirtualDriver:
    """Runs an engine until ``end_ns``, or until it has made ``most_jobs``; its loop's ports."""

    def __init__(
        self,
        engine: Engine,
        accounts: Accounts,
        queries: ReplayedQueries,
        deliveries: Sequence[Delivery],
        *,
        end_ns: int,
        decide_ns: int = 0,
        changes: Sequence[Made] = (),
        most_jobs: int = NEVER,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> None:
        """``decide_ns``: what a decision takes; ``progress`` hears of deliveries that are done."""
        self.engine = engine
        self._now_ns = 0
        self._loop = EngineLoop(engine, accounts, self, NEVER)
        self._accounts = accounts
        self._queries = queries
        self._deliveries = deliveries
        self._next = 0
        self._end_ns = end_ns
        self._decide_ns = decide_ns
        self._changes = changes
        self._changed = 0
        self._progress = progress
        #: Tuples that each query has answered or given up so far.
        self._past = [0] * len(queries.share_keys)
        threads = engine.view.threads
        self._ends = [NEVER] * threads
        self._given: list[tuple[int, list[_Job]]] = [(0, [])] * threads
        self._ticks = engine.sheds
        self._scheduler_free_ns = 0
        self._jobs: dict[Hashable, int] = {}
        self.jobs_left = most_jobs

    def run(self) -> None:
        self.tell(Started())
        while self.advance():
            pass

    def advance(self) -> bool:
        """Goes to the next event; False if there is none up to the end."""
        arrival = self._next < len(self._deliveries)
        at_ns = self._deliveries[self._next].at_ns if arrival else NEVER
        ends_ns = min(self._ends)
        now = min(at_ns, ends_ns, self._loop.wake_ns)
        if self._change(now):
            return True
        if now > self._end_ns or self.jobs_left <= 0:
            return False
        self._now_ns = now
        self._accounts.tick(now)
        if self._loop.wake_ns <= now:
            self._loop.tick()
        elif at_ns <= ends_ns:
            self._deliver(now)
        else:
            self._ended(self._ends.index(now))
        return True

    def _change(self, until_ns: int) -> bool:
        """Makes the next change if it is due by then."""
        if self._changed == len(self._changes):
            return False
        change = self._changes[self._changed]
        if change.at_ns > min(until_ns, self._end_ns):
            return False
        self._changed += 1
        self._now_ns = max(self._now_ns, change.at_ns)
        self.tell(change.command())
        return True

    def _deliver(self, now: int) -> None:
        deliveries, begin = self._deliveries, self._next
        came: list[Event] = []
        while self._next < len(deliveries) and deliveries[self._next].at_ns == now:
            _, boxes, item = deliveries[self._next]
            self._next += 1
            self._accounts.arrived(item.stream, item.arrival_ns, item.tuples)
            came.append(RangeArrived(tuple(boxes), item))
        if self._ticks and self._loop.wake_ns == NEVER:
            self._loop.wake_by(now + TICK_NS)
        self.tell(*came)
        self._progress(self._next - begin)

    def _ended(self, worker: int) -> None:
        order, jobs = self._given[worker]
        self._ends[worker] = NEVER
        done = tuple(Done(job.group.boxes, self._ran(job)) for job in jobs)
        self.tell(JobEnded(order, done, None, sum(job.cost_ns for job in jobs)))

    def tell(self, *events: Event) -> None:
        """Tells the engine what happens now, and carries out its instructions."""
        self._loop.settle(*events)

    def now_ns(self) -> int:
        """The virtual time."""
        return self._now_ns

    def processor(self) -> None:
        """No cores are shared: what jobs cost is known."""

    def tidy(self) -> None:
        """Does nothing: a replay keeps nothing."""

    def carry_out(self, instruction: Instruction) -> None:
        if isinstance(instruction, StartJob):
            self._start(instruction)
        elif isinstance(instruction, Skip):
            for box, items in instruction.given:
                self._past[box] += sum(item.tuples for item in items)
            self._loop.put(Skipped(instruction.skip))

    def _start(self, order: StartJob) -> None:
        self._accounts.charge(self._decide_ns)
        ready = max(self._now_ns, self._scheduler_free_ns) + self._decide_ns
        self._scheduler_free_ns = ready
        jobs: list[_Job] = []
        for group in order.groups:
            jobs.append(self._job(group, ready))
            ready += jobs[-1].cost_ns
        self._given[order.worker] = (order.order, jobs)
        self._ends[order.worker] = ready

    def _job(self, group: Group, begins_ns: int) -> _Job:
        kind = self._queries.kinds[group.boxes[0]]
        nth = self._jobs[kind] = self._jobs.get(kind, -1) + 1
        cost_ns = self._queries.costs(kind).cost_ns(group.tuples, len(group.boxes) - 1, nth)
        self.jobs_left -= 1
        return _Job(group, begins_ns, max(1, cost_ns))

    def _ran(self, job: _Job) -> Ran:
        group, tuples = job.group, job.group.tuples
        passed = [self._passed(box, group.taken, tuples) for box in group.boxes]
        return Ran(
            rows=tuple(rows for rows, _ in passed),
            work_ns=job.cost_ns,
            commit_ns=0,
            committed_at_ns=job.began_ns + job.cost_ns,
            began_ns=job.began_ns,
            undelivered={},
            stale_since_ns=tuple(since_ns for _, since_ns in passed),
        )

    def _passed(self, box: int, taken: Sequence[Waiting], tuples: int) -> tuple[int, int | None]:
        """Rows that a query gives for these tuples, and when the first that gave one arrived."""
        begin = self._past[box]
        self._past[box] = begin + tuples
        passing = self._queries.passing[box]
        first, beyond = np.searchsorted(passing, (begin, begin + tuples)).tolist()
        if first == beyond:
            return 0, None
        place = int(passing[first]) - begin
        for item in taken:
            if place < item.tuples:
                return beyond - first, item.arrival_ns
            place -= item.tuples
        return beyond - first, taken[-1].arrival_ns
