"""Worker threads: each runs one order at a time, tagged, so that a job past its time is ended.

The engine says when a job has outlived its time limit; it is cancelled on Spark by its tag. What
cannot be cancelled there (a function that hangs in the driver) is left behind: its thread is
replaced, and if it ever comes back it is not allowed to commit.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from daybreak.engine.events import Done, JobBegan, JobEnded
from daybreak.engine.instructions import Group, StartJob
from daybreak.spark.failures import JobTimeout, failure_of
from daybreak.spark.jobs.runner import JobRunner

#: How often jobs of abandoned workers are cancelled.
CANCEL_EVERY_S = 1.0
#: How long threads are waited for where nobody is left who would end their jobs.
LEAVE_S = 5.0


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
    orders: queue.SimpleQueue[StartJob | None] = field(default_factory=queue.SimpleQueue)
    thread: threading.Thread | None = None
    order: StartJob | None = None
    ticket: Ticket | None = None
    done: list[Done] = field(default_factory=list)


RunGroup = Callable[[JobRunner, Group, Ticket], Done]
Tell = Callable[[JobBegan | JobEnded], None]


class Workers:
    """``count`` threads with a ``JobRunner`` each. One other thread gives them orders."""

    def __init__(
        self,
        count: int,
        new_runner: Callable[[str], JobRunner],
        run_group: RunGroup,
        tell: Tell,
        cancel: Callable[[str], None],
        job_timeout_s: float,
    ) -> None:
        """``new_runner`` is given the tag of the jobs; it is called on the worker's thread.

        ``cancel`` ends the jobs of a tag on Spark.
        """
        self._new_runner = new_runner
        self._run_group = run_group
        self._tell = tell
        self._cancel = cancel
        self._timeout_s = job_timeout_s
        self._made = 0
        #: Workers that were given up and may still be at it.
        self._left: list[_Worker] = []
        #: When their jobs are to be cancelled next.
        self._cancel_s = 0.0
        self._workers = [self._hire(w) for w in range(count)]

    def __len__(self) -> int:
        return len(self._workers)

    def submit(self, order: StartJob) -> None:
        self._workers[order.worker].orders.put(order)

    def underway(self) -> list[tuple[int, Group, float]]:
        """Workers at work, their present job and for how long (s) they are at it."""
        now, found = time.monotonic(), []
        for w, worker in enumerate(self._workers):
            order, ticket, done = worker.order, worker.ticket, len(worker.done)
            if order is not None and ticket is not None and done < len(order.groups):
                found.append((w, order.groups[done], max(0.0, now - ticket.began_s)))
        return found

    def cancel(self, number: int, order: int, group: int) -> None:
        """Ends a job on Spark, if it is still the present one of its worker."""
        worker = self._workers[number]
        if (ticket := self._ticket(worker, order, group)) is not None:
            ticket.cancelled = True
            self._cancel(worker.tag)

    def cancel_left(self) -> None:
        """Ends again what abandoned workers have on Spark, now and then.

        Only what has begun is ended, and a stage may begin late.
        """
        self._left = [w for w in self._left if w.thread is not None and w.thread.is_alive()]
        if self._left and time.monotonic() >= self._cancel_s:
            self._cancel_s = time.monotonic() + CANCEL_EVERY_S
            for left in self._left:
                self._cancel(left.tag)

    def abandon(self, number: int, order: int, group: int) -> None:
        """Replaces a worker that does not come back from a job, and reports its order's end."""
        worker = self._workers[number]
        ticket = self._ticket(worker, order, group)
        if ticket is None or not ticket.give_up():
            return  # it has ended by now, or is committing
        self._left.append(worker)
        self._workers[number] = self._hire(number)
        took_ns = round((time.monotonic() - ticket.began_s) * 1e9)
        failure = failure_of(self._timed_out())
        self._tell(JobEnded(order, tuple(worker.done), failure, took_ns))

    @staticmethod
    def _ticket(worker: _Worker, order: int, group: int) -> Ticket | None:
        """Of this job, where the worker is still at it."""
        given = worker.order
        if given is None or given.order != order or len(worker.done) != group:
            return None
        return worker.ticket

    def join(self) -> None:
        """Ends the threads; call it when no order is under way."""
        for worker in self._workers:
            worker.orders.put(None)
        for worker in self._workers:
            if worker.thread is not None:
                worker.thread.join()

    def leave(self) -> None:
        """Ends the threads as far as that is quick, and what they have on Spark."""
        for worker in self._workers:
            worker.orders.put(None)
            self._cancel(worker.tag)
        until_s = time.monotonic() + LEAVE_S
        for worker in self._workers:
            if worker.ticket is not None:
                worker.ticket.give_up()
            if worker.thread is not None:
                worker.thread.join(max(0.0, until_s - time.monotonic()))

    def _hire(self, number: int) -> _Worker:
        self._made += 1
        worker = _Worker(tag=f"daybreak-{id(self):x}-{self._made}")
        worker.thread = threading.Thread(
            target=self._work, args=(worker,), name=f"worker-{number}", daemon=True
        )
        worker.thread.start()
        return worker

    def _work(self, worker: _Worker) -> None:
        runner: JobRunner | None = None
        try:
            runner = self._work_on(worker)
        finally:
            if runner is not None:
                runner.close()

    def _work_on(self, worker: _Worker) -> JobRunner | None:
        runner: JobRunner | None = None
        while (order := worker.orders.get()) is not None:
            began = time.perf_counter_ns()
            ticket = worker.ticket = Ticket()
            worker.order, worker.done = order, []
            failure: Exception | None = None
            try:
                runner = runner or self._new_runner(worker.tag)
                self._run_groups(runner, order, ticket, worker.done)
            except Exception as error:
                failure = self._timed_out() if ticket.cancelled else error
            if not ticket.finish():
                return runner  # somebody else works here now
            worker.order = None
            told = None if failure is None else failure_of(failure)
            took_ns = time.perf_counter_ns() - began
            self._tell(JobEnded(order.order, tuple(worker.done), told, took_ns))
        return runner

    def _run_groups(
        self, runner: JobRunner, order: StartJob, ticket: Ticket, done: list[Done]
    ) -> None:
        # Queries that a job of this order has left behind: their later ranges must wait. So must
        # those whose result was not delivered: a sink gets the results of a query in order.
        behind: set[int] = set()
        for number, group in enumerate(order.groups):
            ticket.next_job()
            if number:
                self._tell(JobBegan(order.order, number))
            if group.boxes[0] in behind:
                done.append(Done((), None))
                behind.update(group.boxes)
                continue
            ran = self._run_group(runner, _without(group, behind), ticket)
            behind.update(set(group.boxes) - set(ran.boxes), ran.behind)
            done.append(ran)

    def _timed_out(self) -> JobTimeout:
        return JobTimeout(
            f"took longer than job_timeout = {self._timeout_s:g} s, and was cancelled"
        )


def _without(group: Group, boxes: set[int]) -> Group:
    return group._replace(boxes=tuple(b for b in group.boxes if b not in boxes))
