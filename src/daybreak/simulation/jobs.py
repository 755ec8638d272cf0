"""An executor in virtual time whose unit is the job, as on Spark: for replays of recorded runs.

A query is one box. Tuples wait in inboxes, by runs that arrived together; a policy's plan becomes
jobs, with the riders the engine would take along (``engine.compositing``), and all results of a
job leave at its end. Scheduling has a thread of its own and holds up whoever waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.compositing import Compositor
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.state import SystemState
from daybreak.policies.base import Change, Plan, Step, Work
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder

NEVER = 2**62


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

    def put(self, value: float, state: SystemState) -> None:
        if self.what == "class-priority":
            state.class_priority[self.subject] = value
        elif self.what == "query-class":
            state.query_class[self.subject] = int(value)
        else:
            state.query_weight[self.subject] = value


class Costs(Protocol):
    """What jobs of one kind cost."""

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        """Of the ``job``-th job."""


@dataclass(frozen=True)
class Queries:
    """The queries of a run by index: how they run, what they cost, which tuples pass."""

    #: What a query has in common with all that may run along with it, else None.
    kin: Sequence[str | None]
    #: Whether what arrived together is taken as a whole.
    windows: Sequence[bool]
    kinds: Sequence[Hashable]
    costs: Callable[[Hashable], Costs]
    #: Of each query, the places of the tuples that give a row in the order of its arrivals.
    passing: Sequence[NDArray[np.int64]]


class Job(NamedTuple):
    """Boxes that run together, what they take, and when their results leave."""

    boxes: list[int]
    taken: list[Waiting]
    cell: list[int]
    cost_ns: int
    end_ns: int


class JobExecutor:
    """Runs plans as jobs until ``end_ns``, or until it has made ``most_jobs``."""

    def __init__(
        self,
        state: SystemState,
        monitor: Monitor,
        queries: Queries,
        deliveries: Sequence[Delivery],
        *,
        end_ns: int,
        bound_ns: int,
        decide_ns: int = 0,
        changes: Sequence[Made] = (),
        most_jobs: int = NEVER,
        recorder: Recorder | None = None,
        progress: Callable[[int], None] = lambda _done: None,
    ) -> None:
        """``bound_ns`` for riders; ``decide_ns``: what a decision takes; ``progress`` is told
        of deliveries that are done."""
        self.workers = state.threads
        self.now_ns = 0
        self.riding: set[int] = set()
        self._state = state
        self._monitor = monitor
        self._queries = queries
        self._deliveries = deliveries
        self._next = 0
        self._end_ns = end_ns
        self._decide_ns = decide_ns
        self._changes = changes
        self._changed = 0
        for change in reversed(changes):  # as it was before the first of them
            change.put(change.was, state)
        self._recorder = recorder
        self._progress = progress
        self._inboxes = [Inbox() for _ in queries.kin]
        #: Tuples that each query has taken so far.
        self._taken = [0] * len(queries.kin)
        self._compositor = Compositor(
            state, queries.kin.__getitem__, queries.windows.__getitem__, bound_ns=bound_ns
        )
        self._ends = [NEVER] * self.workers
        self._orders: list[tuple[Plan, list[Job]]] = [(Plan(()), [])] * self.workers
        self._scheduler_free_ns = 0
        self._jobs: dict[Hashable, int] = {}
        self.jobs_left = most_jobs
        self._names = [q.name for q in state.network.queries]

    # As on Spark

    def start(self, worker: int, plan: Plan, work: Work) -> list[int]:
        monitor = self._monitor
        monitor.decisions += 1
        monitor.invoked(self._decide_ns, work)
        ready = max(self.now_ns, self._scheduler_free_ns) + self._decide_ns
        self._scheduler_free_ns = ready
        jobs: list[Job] = []
        for step in plan.steps:
            if self._state.pending[step.box]:
                jobs.append(self._job(step, jobs[-1].end_ns if jobs else ready))
        self._orders[worker] = (plan, jobs)
        self._ends[worker] = jobs[-1].end_ns if jobs else ready
        return [rider for job in jobs for rider in job.boxes[1:]]

    def _job(self, step: Step, begins_ns: int) -> Job:
        some = max(1, ceil(self._inboxes[step.box].tuples * step.fraction))
        limit = some if step.limit is None else min(some, max(1, step.limit))
        boxes, cell, tuples = self._compositor.group(step.box, limit)
        taken: list[Waiting] = []
        for b in boxes:
            taken = self._take(b, tuples)  # the same for all: they are at one place
            self._show(b)
        for rider in boxes[1:]:
            self.riding.add(rider)
            self._state.running[rider] = True
        kind = self._queries.kinds[step.box]
        nth = self._jobs[kind] = self._jobs.get(kind, -1) + 1
        total = sum(w.tuples for w in taken)
        cost_ns = max(1, self._queries.costs(kind).cost_ns(total, len(boxes) - 1, nth))
        self.jobs_left -= 1
        return Job(boxes, taken, cell, cost_ns, begins_ns + cost_ns)

    def _take(self, box: int, tuples: int) -> list[Waiting]:
        inbox = self._inboxes[box]
        if not self._queries.windows[box]:
            return inbox.take(tuples)
        whole = 0
        for item in inbox.waiting:
            whole += item.tuples
            if whole >= tuples:
                break
        return inbox.take(whole)

    def advance(self, loop: Loop) -> bool:
        arrival = self._next < len(self._deliveries)
        at_ns = self._deliveries[self._next].at_ns if arrival else NEVER
        ends_ns = min(self._ends)
        now = min(at_ns, ends_ns)
        if self._change(now, loop):
            return True
        if now > self._end_ns or self.jobs_left <= 0:
            return False
        self.now_ns = now
        if now >= self._monitor.next_sample_ns:
            self._monitor.sample(now, self._state)
        if at_ns <= ends_ns:
            self._deliver(now, loop)
        else:
            self._ended(self._ends.index(now), loop)
        return True

    def _change(self, until_ns: int, loop: Loop) -> bool:
        """Makes the next change if it is due by then."""
        if self._changed == len(self._changes):
            return False
        change = self._changes[self._changed]
        if change.at_ns > min(until_ns, self._end_ns):
            return False
        self._changed += 1
        self.now_ns = max(self.now_ns, change.at_ns)
        change.put(change.now, self._state)
        loop.changed(Change(change.what, change.subject), self.now_ns)
        return True

    def _deliver(self, now: int, loop: Loop) -> None:
        deliveries, begin = self._deliveries, self._next
        while self._next < len(deliveries) and deliveries[self._next].at_ns == now:
            _, boxes, item = deliveries[self._next]
            self._next += 1
            if self._recorder is not None:
                self._recorder.arrived(item.stream, item.arrival_ns, item.tuples)
            for box in boxes:
                self._inboxes[box].put(item)
                self._show(box)
                loop.arrived(box, item.tuples, now)
        self._progress(self._next - begin)

    def _ended(self, worker: int, loop: Loop) -> None:
        plan, jobs = self._orders[worker]
        self._ends[worker] = NEVER
        now, asked_ns = self.now_ns, 0
        rides: list[tuple[int, int]] = []
        for job in jobs:
            shares = self._account(job)
            asked_ns += shares[0]
            rides.extend(zip(job.boxes[1:], shares[1:], strict=True))
        for box, _ in rides:
            self.riding.discard(box)
            self._state.running[box] = False
        loop.completed(plan, worker, asked_ns, now)
        for box, cost_ns in rides:
            loop.rode(box, cost_ns, now)

    def _account(self, job: Job) -> list[int]:
        """Books a job on its queries; returns what each of them cost."""
        state, monitor = self._state, self._monitor
        tuples = sum(w.tuples for w in job.taken)
        shares = self._compositor.learn(job.boxes, job.cell, tuples, job.cost_ns)
        monitor.work_ns += job.cost_ns
        for box, share in zip(job.boxes, shares, strict=True):
            rows, since_ns = self._passed(box, job.taken, tuples)
            if since_ns is not None:
                monitor.was_stale(box, since_ns, job.end_ns)
            for item in job.taken:
                monitor.answered(box, item.arrival_ns, job.end_ns, item.tuples)
            state.calls[box] += 1
            state.tuples_in[box] += tuples
            state.tuples_out[box] += rows
            state.work_ns[box] += share
            state.refine(box, tuples, rows, share)
            if self._recorder is not None:
                together = len(job.boxes)
                self._recorder.ran(self._names[box], job.end_ns, tuples, rows, share, together)
        return shares

    def _passed(self, box: int, taken: list[Waiting], tuples: int) -> tuple[int, int | None]:
        """Rows that a query gives for these tuples, and when the first that gave one arrived."""
        begin = self._taken[box]
        self._taken[box] = begin + tuples
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

    def _show(self, box: int) -> None:
        state, inbox = self._state, self._inboxes[box]
        state.pending[box] = inbox.tuples
        state.head_ns[box] = inbox.head_ns
        state.arrival_sum_ns[box] = inbox.arrival_sum_ns
