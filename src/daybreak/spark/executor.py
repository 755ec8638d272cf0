"""An executor on Spark: worker threads submit jobs, events come back to the loop's thread.

The loop's thread owns the state: arrivals, completions and operators' changes reach it through
one queue and are worked off in order. Workers only run jobs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from math import ceil
from typing import NamedTuple

from daybreak.policies.base import Change, Plan, Step, Work
from daybreak.runtime.live import Live
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.runtime.state import SystemState
from daybreak.spark.compositor import Compositor
from daybreak.spark.inbox import Inbox, Waiting
from daybreak.spark.jobs import JobRunner, Ran, Runnable
from daybreak.spark.segments import Segment

#: How long the loop sleeps when nothing happens; only stopping and tidying wait for it.
TICK_S = 0.1


class Group(NamedTuple):
    """Queries to run as one job, the one that was asked for first, and what each takes."""

    boxes: list[int]
    taken: list[Waiting]
    #: The queries whose composite is compiled: those that run, and others like them.
    cell: list[int]


class Order(NamedTuple):
    """What a worker is to do: one job after the other."""

    plan: Plan
    groups: list[Group]


@dataclass(frozen=True, slots=True)
class _Arrived:
    segment: Segment


@dataclass(frozen=True, slots=True)
class _Ended:
    worker: int
    order: Order
    #: The jobs that ended well, with the boxes that really ran.
    ran: list[tuple[list[int], Ran]]
    failure: Exception | None
    cost_ns: int


@dataclass(frozen=True, slots=True)
class _Asked:
    """An operator's change, to be made between two decisions; or no change, only a question."""

    make: Callable[[SystemState], Change] | None
    #: Whether nothing waited and nothing ran at that moment.
    done: Future[bool]


_Event = _Arrived | _Ended | _Asked


@dataclass
class _Worker:
    orders: queue.SimpleQueue[Order | None] = field(default_factory=queue.SimpleQueue)
    thread: threading.Thread | None = None


class SparkExecutor:
    """Runs plans as Spark jobs on ``workers`` threads."""

    def __init__(
        self,
        state: SystemState,
        monitor: Monitor,
        recorder: Recorder,
        live: Live,
        queries: Sequence[Runnable],
        runners: Sequence[JobRunner],
        backlog: Mapping[str, list[Waiting]],
        next_seq: dict[str, int],
        start_ns: int,
        tidy: Callable[[], None],
        rider_bound_s: float,
    ) -> None:
        """``queries`` in the order of the network's boxes; ``backlog`` is what waits already.

        ``next_seq`` is the first segment not in the backlog, by stream. ``tidy`` is called
        every sampling period, on the loop's thread.
        """
        self.workers = len(runners)
        self.start_ns = start_ns
        self.failures: dict[str, str] = {}
        self._state = state
        self._monitor = monitor
        self._recorder = recorder
        self._live = live
        self._tidy = tidy
        self._busy = 0
        self._queries = queries
        self._inboxes = [Inbox() for _ in queries]
        self.riding: set[int] = set()
        self._compositor = Compositor(state, queries, bound_ns=round(rider_bound_s * 1e9))
        self._readers: dict[str, list[int]] = {}
        for b, query in enumerate(queries):
            for stream in query.checked.reads:
                self._readers.setdefault(stream, []).append(b)
            for item in backlog.get(query.name, ()):
                self._inboxes[b].put(item)
            self._show(b)
        self._next_seq = next_seq
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._workers = [_Worker() for _ in runners]
        for w, runner in enumerate(runners):
            thread = threading.Thread(
                target=self._work, args=(w, runner), name=f"worker-{w}", daemon=True
            )
            self._workers[w].thread = thread
            thread.start()

    # Called from other threads

    def on_segment(self, segment: Segment) -> None:
        """A segment is durable: its tuples are pending from now on."""
        self._events.put(_Arrived(segment))

    def ask(self, make: Callable[[SystemState], Change] | None = None) -> Future[bool]:
        """Changes the state between two decisions; the future is done when it holds.

        It tells whether the system was quiet then: all that arrived before is answered.
        """
        asked = _Asked(make, Future())
        self._events.put(asked)
        return asked.done

    def stop(self) -> None:
        """Lets jobs under way end, starts no further ones."""
        self._stopping.set()

    # The loop's side

    @property
    def now_ns(self) -> int:
        return time.time_ns()

    def start(self, worker: int, plan: Plan, work: Work) -> list[int]:
        groups = [self._group(step) for step in plan.steps if self._state.pending[step.box]]
        self._busy += 1
        self._monitor.decisions += 1
        self._monitor.invoked(0, work)
        self._workers[worker].orders.put(Order(plan, groups))
        return [rider for group in groups for rider in group.boxes[1:]]

    def _group(self, step: Step) -> Group:
        """Takes what the step says for its query, and the same for those that ride along."""
        some = ceil(self._inboxes[step.box].tuples * step.fraction)
        limit = some if step.limit is None else min(some, step.limit)
        boxes, cell, tuples = self._compositor.group(step.box, max(1, limit))
        taken: list[Waiting] = []
        for b in boxes:
            taken = self._inboxes[b].take(tuples)  # the same for all: they are at one place
            self._show(b)
        for rider in boxes[1:]:
            self.riding.add(rider)
            self._state.running[rider] = True
        return Group(boxes, taken, cell)

    def advance(self, loop: Loop) -> bool:
        """Waits for events and tells them; False once stopped and every job has ended."""
        try:
            event: _Event | None = self._events.get(timeout=TICK_S)
        except queue.Empty:
            event = None
        began = time.perf_counter_ns()
        while event is not None:
            self._handle(event, loop)
            event = None if self._events.empty() else self._events.get()
        self._sample()
        self._monitor.scheduling_ns += time.perf_counter_ns() - began
        if self._stopping.is_set():
            loop.idle.clear()  # nobody asks for work any more
            return self._busy > 0
        return True

    def _handle(self, event: _Event, loop: Loop) -> None:
        if isinstance(event, _Arrived):
            self._arrived(event.segment, loop)
        elif isinstance(event, _Ended):
            self._ended(event, loop)
        else:
            try:
                if event.make is not None:
                    loop.changed(event.make(self._state), self.now_ns)
                event.done.set_result(not any(self._state.pending) and not self._busy)
            except Exception as error:
                event.done.set_exception(error)

    def _arrived(self, segment: Segment, loop: Loop) -> None:
        if segment.seq < self._next_seq.get(segment.stream, 0):
            return  # a batch that came again after a crash: its tuples are counted already
        self._next_seq[segment.stream] = segment.seq + 1
        self._recorder.arrived(segment.stream, segment.arrival_ns - self.start_ns, segment.rows)
        item = Waiting(segment.arrival_ns, segment.stream, segment.rows)
        for b in self._readers.get(segment.stream, ()):
            self._inboxes[b].put(item)
            if self._queries[b].name not in self.failures:
                self._show(b)
                loop.arrived(b, segment.rows, self.now_ns)

    def _ended(self, event: _Ended, loop: Loop) -> None:
        self._busy -= 1
        rides: list[tuple[int, int]] = []
        asked_ns = event.cost_ns
        for i, group in enumerate(event.order.groups):
            ran_boxes = event.ran[i][0] if i < len(event.ran) else []
            if ran_boxes:
                shares = self._account(ran_boxes, group, event.ran[i][1])
                rides.extend(zip(ran_boxes[1:], shares[1:], strict=True))
            for box in group.boxes[len(ran_boxes) :]:
                self._inboxes[box].put_back(group.taken)
                if box in self.riding:
                    self._compositor.alone.add(box)  # until it has run by itself
                    rides.append((box, 0))
        if event.failure is not None:
            self._park(event.order.groups[len(event.ran)].boxes[0], event.failure)
        for group in event.order.groups:
            for box in group.boxes:
                self._show(box)
        for box, cost_ns in rides:
            self.riding.discard(box)
            self._state.running[box] = False
            asked_ns -= cost_ns
        loop.completed(event.order.plan, event.worker, max(0, asked_ns), self.now_ns)
        for box, cost_ns in rides:
            loop.policy.on_ride(box, cost_ns, self.now_ns)

    def _account(self, boxes: list[int], group: Group, ran: Ran) -> list[int]:
        """Books a job on its queries; returns what each of them cost."""
        taken = group.taken
        state, monitor, tuples = self._state, self._monitor, sum(w.tuples for w in taken)
        left_ns = ran.committed_at_ns - self.start_ns
        monitor.work_ns += ran.work_ns
        monitor.call_ns += ran.commit_ns
        cost_ns = ran.work_ns + ran.commit_ns
        self._compositor.costs.learn(len(boxes), tuples, cost_ns)
        self._compositor.trains.learn(group.cell[0], tuples, cost_ns)
        if len(boxes) == 1:
            self._compositor.alone.discard(boxes[0])
        shares = self._compositor.costs.shares(len(boxes), tuples, cost_ns)
        for box, rows, share in zip(boxes, ran.rows, shares, strict=True):
            for item in taken:
                monitor.answered(box, item.arrival_ns - self.start_ns, left_ns, item.tuples)
                self._live.answered(box, item.arrival_ns, ran.committed_at_ns, item.tuples)
            state.calls[box] += 1
            state.tuples_in[box] += tuples
            state.tuples_out[box] += rows
            state.work_ns[box] += share
            state.refine(box, tuples, rows, share)
            name = self._queries[box].name
            self._recorder.ran(name, left_ns, tuples, rows, share, len(boxes))
            if name in ran.undelivered:
                self._park(box, ran.undelivered[name])
        return shares

    def _park(self, box: int, failure: Exception) -> None:
        """A query that fails runs no more; what waits for it stays in the log."""
        name = self._queries[box].name
        said = (str(failure).strip() or "no message").splitlines()[0]
        self.failures[name] = f"{type(failure).__name__}: {said}"
        self._show(box)

    def _show(self, box: int) -> None:
        """Lets policies see what waits; a parked query shows nothing."""
        state, inbox = self._state, self._inboxes[box]
        parked = self._queries[box].name in self.failures
        state.pending[box] = 0 if parked else inbox.tuples
        state.head_ns[box] = inbox.head_ns
        state.arrival_sum_ns[box] = 0 if parked else inbox.arrival_sum_ns

    def _sample(self) -> None:
        now = self.now_ns - self.start_ns
        if now >= self._monitor.next_sample_ns:
            self._monitor.sample(now, self._state)
            self._tidy()

    # The workers' side

    def _work(self, worker: int, runner: JobRunner) -> None:
        orders = self._workers[worker].orders
        while (order := orders.get()) is not None:
            began = time.perf_counter_ns()
            ran: list[tuple[list[int], Ran]] = []
            failure: Exception | None = None
            try:
                for group in order.groups:
                    ran.append(self._run_group(runner, group))
            except Exception as error:
                failure = error
            cost = time.perf_counter_ns() - began
            self._events.put(_Ended(worker, order, ran, failure, cost))

    def _run_group(self, runner: JobRunner, group: Group) -> tuple[list[int], Ran]:
        """The whole group as one job; if that fails, the query that was asked by itself."""
        try:
            return group.boxes, self._run(runner, group.boxes, group)
        except Exception:
            if len(group.boxes) == 1:
                raise
            asked = group.boxes[:1]
            return asked, self._run(runner, asked, group._replace(cell=asked))

    def _run(self, runner: JobRunner, boxes: list[int], group: Group) -> Ran:
        cell = [self._queries[b] for b in group.cell]
        return runner.run([self._queries[b] for b in boxes], group.taken, cell)

    def join(self) -> None:
        """Ends the worker threads; call it after the loop has ended."""
        for worker in self._workers:
            worker.orders.put(None)
        for worker in self._workers:
            if worker.thread is not None:
                worker.thread.join()
