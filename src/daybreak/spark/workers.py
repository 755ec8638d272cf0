"""Worker threads: each runs one order at a time, tagged, so that a job past its time is ended.

A job that outlives its time limit is cancelled on Spark by its tag. What cannot be cancelled
there (a function that hangs in the driver) is left behind: its thread is replaced, and if it ever
comes back it is not allowed to commit.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from daybreak.engine.inbox import Waiting
from daybreak.model.errors import DaybreakError
from daybreak.policies.base import Plan
from daybreak.spark.jobs import JobRunner, Ran

#: How long a cancelled job may take to notice.
GRACE_S = 5.0
CANCEL_EVERY_S = 1.0


class Group(NamedTuple):
    """Queries to run as one job, the one that was asked for first, and what each takes."""

    boxes: list[int]
    taken: list[Waiting]
    #: The queries whose composite is compiled: those that run, and others like them.
    cell: list[int]

    def without(self, boxes: Collection[int]) -> Group:
        return self._replace(boxes=[b for b in self.boxes if b not in boxes])


class Order(NamedTuple):
    """What a worker is to do: one job after the other."""

    plan: Plan
    groups: list[Group]


#: The jobs of an order that ended well, with the boxes that really ran; None if none did.
Done = list[tuple[list[int], Ran | None]]


class JobTimeout(DaybreakError):
    """A job was cancelled because it took longer than ``job_timeout``."""


class Ticket:
    """The right to commit. Whoever is first, the worker or its watchman, decides."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.cancelled = False
        self._guard = threading.Lock()
        self._state = "working"

    def commit(self) -> None:
        """Called by the worker before it commits; raises if it was given up."""
        with self._guard:
            if self._state == "given up":
                raise JobTimeout("came too late")
            self._state = "committing"

    def next_job(self) -> None:
        with self._guard:
            if self._state == "given up":
                raise JobTimeout("came too late")
            self._state, self.began_s, self.cancelled = "working", time.monotonic(), False

    def give_up(self) -> bool:
        """False if it is committing: then it is waited for."""
        with self._guard:
            if self._state == "working":
                self._state = "given up"
            return self._state == "given up"

    def finish(self) -> bool:
        """False if it was given up: then its end has been told already."""
        with self._guard:
            if self._state != "given up":
                self._state = "finished"
            return self._state == "finished"


@dataclass
class _Worker:
    tag: str
    orders: queue.SimpleQueue[Order | None] = field(default_factory=queue.SimpleQueue)
    thread: threading.Thread | None = None
    order: Order | None = None
    ticket: Ticket | None = None
    ran: Done = field(default_factory=list)
    #: When to cancel its jobs next.
    cancel_s: float = 0.0


RunGroup = Callable[[JobRunner, Group, Ticket], tuple[list[int], Ran]]
#: Worker, its order, the jobs that ended well, why the rest did not, and the time it took.
OnEnd = Callable[[int, Order, Done, Exception | None, int], None]


class Workers:
    """``count`` threads with a ``JobRunner`` each. ``watch`` belongs to the loop's thread."""

    def __init__(
        self,
        count: int,
        new_runner: Callable[[str], JobRunner],
        run_group: RunGroup,
        on_end: OnEnd,
        job_timeout_s: float,
    ) -> None:
        """``new_runner`` is given the tag of the jobs; it is called on the worker's thread."""
        self._new_runner = new_runner
        self._run_group = run_group
        self._on_end = on_end
        self._timeout_s = job_timeout_s
        self._made = 0
        #: Workers that were given up and may still be at it.
        self._left: list[_Worker] = []
        self._workers = [self._hire(w) for w in range(count)]

    def __len__(self) -> int:
        return len(self._workers)

    def submit(self, worker: int, order: Order) -> None:
        self._workers[worker].orders.put(order)

    def underway(self) -> list[tuple[int, Group, float]]:
        """Workers at work, their present job and for how long (s) they are at it."""
        now, found = time.monotonic(), []
        for w, worker in enumerate(self._workers):
            order, ticket, done = worker.order, worker.ticket, len(worker.ran)
            if order is not None and ticket is not None and done < len(order.groups):
                found.append((w, order.groups[done], max(0.0, now - ticket.began_s)))
        return found

    def watch(self, cancel: Callable[[str], None]) -> None:
        """Cancels jobs past their time limit by their tag, and gives up on deaf ones."""
        now = time.monotonic()
        for w, worker in enumerate(self._workers):
            order, ticket = worker.order, worker.ticket
            if order is None or ticket is None:
                continue
            late_s = now - ticket.began_s - self._timeout_s
            if late_s <= 0:
                continue
            ticket.cancelled = True
            self._cancel(worker, cancel, now)
            if late_s > GRACE_S and ticket.give_up():
                self._left.append(worker)
                self._workers[w] = self._hire(w)
                taken_ns = round((late_s + self._timeout_s) * 1e9)
                self._on_end(w, order, list(worker.ran), self._timed_out(), taken_ns)

        self._left = [w for w in self._left if w.thread is not None and w.thread.is_alive()]
        for worker in self._left:
            self._cancel(worker, cancel, now)

    def _cancel(self, worker: _Worker, cancel: Callable[[str], None], now: float) -> None:
        """Again and again: only jobs that have begun are cancelled, and one may begin late."""
        if now >= worker.cancel_s:
            worker.cancel_s = now + CANCEL_EVERY_S
            cancel(worker.tag)

    def join(self) -> None:
        """Ends the threads; call it when no order is under way."""
        for worker in self._workers:
            worker.orders.put(None)
        for worker in self._workers:
            if worker.thread is not None:
                worker.thread.join()

    def _hire(self, number: int) -> _Worker:
        self._made += 1
        worker = _Worker(tag=f"daybreak-{id(self):x}-{self._made}")
        worker.thread = threading.Thread(
            target=self._work, args=(number, worker), name=f"worker-{number}", daemon=True
        )
        worker.thread.start()
        return worker

    def _work(self, number: int, worker: _Worker) -> None:
        runner: JobRunner | None = None
        try:
            runner = self._work_on(number, worker)
        finally:
            if runner is not None:
                runner.close()

    def _work_on(self, number: int, worker: _Worker) -> JobRunner | None:
        runner: JobRunner | None = None
        while (order := worker.orders.get()) is not None:
            began = time.perf_counter_ns()
            ticket = worker.ticket = Ticket()
            worker.order, worker.ran = order, []
            failure: Exception | None = None
            try:
                runner = runner or self._new_runner(worker.tag)
                self._run_groups(runner, order.groups, ticket, worker.ran)
            except Exception as error:
                failure = self._timed_out() if ticket.cancelled else error
            if not ticket.finish():
                return runner  # somebody else works here now
            worker.order = None
            self._on_end(number, order, worker.ran, failure, time.perf_counter_ns() - began)
        return runner

    def _run_groups(
        self, runner: JobRunner, groups: Sequence[Group], ticket: Ticket, ran: Done
    ) -> None:
        # Queries that a job of this order has left behind: their later ranges must wait.
        behind: set[int] = set()
        for group in groups:
            ticket.next_job()
            if group.boxes[0] in behind:
                ran.append(([], None))
                behind.update(group.boxes)
                continue
            boxes, done = self._run_group(runner, group.without(behind), ticket)
            behind.update(set(group.boxes) - set(boxes))
            ran.append((boxes, done))

    def _timed_out(self) -> JobTimeout:
        return JobTimeout(
            f"took longer than job_timeout = {self._timeout_s:g} s, and was cancelled"
        )
