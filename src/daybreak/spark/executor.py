"""An executor on Spark: worker threads submit jobs, events come back to the loop's thread.

The loop's thread owns the state: arrivals, completions and operators' changes reach it through
one queue and are worked off in order. Workers only run jobs.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from math import ceil

from daybreak.engine.compositing import Compositor
from daybreak.engine.inbox import Inbox, Waiting, same_range
from daybreak.engine.state import SystemState
from daybreak.model.limits import Limits
from daybreak.policies.base import Plan, Step, Work
from daybreak.runtime.loop import Loop
from daybreak.spark.books import Books
from daybreak.spark.events import Arrived, Asked, Ended, Event, Hooks, Make
from daybreak.spark.jobs import JobRunner, Ran, Runnable
from daybreak.spark.segments import Segment
from daybreak.spark.sinks import SinkUnavailable
from daybreak.spark.standing import Standing, said
from daybreak.spark.windows.inbox import Tick, WindowInbox
from daybreak.spark.workers import Done, Group, JobTimeout, Order, Ticket, Workers

#: How long the loop sleeps when nothing happens; stopping, tidying and retries wait for it.
TICK_S = 0.1


class SparkExecutor:
    """Runs plans as Spark jobs on worker threads."""

    def __init__(
        self,
        state: SystemState,
        books: Books,
        queries: Sequence[Runnable],
        inboxes: Mapping[str, Inbox],
        next_seq: dict[str, int],
        hooks: Hooks,
        limits: Limits,
        rider_bound_s: float,
    ) -> None:
        """``queries`` in the order of the network's boxes; ``inboxes`` hold what waits already.

        ``next_seq`` is the first segment not in the inboxes, by stream.
        """
        self.workers = state.threads
        #: The first segment that has not been handed to the queries, by stream.
        self.next_seq = next_seq
        self.books = books
        self._state = state
        self._hooks = hooks
        self._limits = limits
        self._busy = 0
        self.queries: list[Runnable] = list(queries)
        self.standings = [Standing() for _ in queries]
        self._inboxes = [Inbox() for _ in queries]
        #: Tuples that came to each query so far.
        self.arrived = [0] * len(queries)
        #: Boxes that policies must leave alone though no plan of theirs runs them: riders, and
        #: queries that are held (paused, parked, waiting for a retry).
        self.riding: set[int] = set()
        self._held: set[int] = set()
        self._in_job: set[int] = set()
        self._after_job: dict[int, list[Asked]] = {}
        self.compositor = Compositor(
            state,
            lambda b: self.queries[b].checked.kin,
            lambda b: self.queries[b].checked.windowing is not None,
            bound_ns=round(rider_bound_s * 1e9),
        )
        self._readers: dict[str, list[int]] = {}
        for b, query in enumerate(queries):
            self._subscribe(b, query, inboxes[query.name])
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopping = threading.Event()
        #: When the loop was last told of events, on the clock of ``perf_counter_ns``.
        self._told_ns = 0
        self._threads = Workers(
            self.workers, hooks.new_runner, self._run_group, self._tell_end, limits.job_timeout_s
        )

    # Called from other threads

    def on_segment(self, segment: Segment) -> None:
        """A segment is listed: its tuples are pending from now on."""
        self._events.put(Arrived(segment))

    def on_tick(self, tick: Tick) -> None:
        """A stream's watermark was raised without a row."""
        self._events.put(tick)

    def ask(self, make: Make | None = None) -> Future[bool]:
        """Changes something between two decisions; the future is done when it holds.

        It tells whether the system was quiet then: all that arrived before is answered.
        """
        asked = Asked(make, Future())
        self._events.put(asked)
        return asked.done

    def stop(self) -> None:
        """Lets jobs under way end, starts no further ones."""
        self._stopping.set()

    def waiting(self, box: int) -> tuple[int, int]:
        """Tuples that wait for a query, held or not, and when the oldest arrived."""
        return self._inboxes[box].tuples, self._inboxes[box].head_ns

    def waiting_by_stream(self, box: int) -> dict[str, int]:
        """Tuples that wait for a query, by the stream they came from."""
        found = dict.fromkeys(self.queries[box].checked.reads, 0)
        if len(found) == 1:  # nearly all: no need to look at what waits
            return dict.fromkeys(found, self._inboxes[box].tuples)
        for item in list(self._inboxes[box].waiting):
            found[item.stream] = found.get(item.stream, 0) + item.tuples
        return found

    def underway(self) -> list[tuple[int, Group, float]]:
        """Workers at work, their present job and for how long (s) they are at it."""
        return self._threads.underway()

    def inbox(self, box: int) -> Inbox:
        """What waits for a query; to be read on the loop's thread."""
        return self._inboxes[box]

    @property
    def failures(self) -> dict[str, str]:
        """Parked queries and why."""
        standings = zip(self.queries, self.standings, strict=False)
        return {q.name: s.error or "" for q, s in standings if s.state == "parked"}

    def delivered(self, box: int, failure: Exception | None) -> Future[bool]:
        """What a query had committed has reached its sink, or not even now."""

        def make(loop: Loop) -> None:
            standing = self.standings[box]
            if failure is not None:
                self._failed(box, failure, 0)
                return
            standing.behind = False
            self._succeeded(box)
            if standing.state == "retrying":
                standing.state = "running"
                self.release(box, loop)

        return self.ask(make)

    # Called on the loop's thread, within a change that was asked for

    def hold(self, box: int, loop: Loop) -> None:
        """Takes a query whose standing says so from the policy's sight, now or after its job."""
        self._show(box)
        if box not in self._in_job and box not in self._held:
            self._held.add(box)
            self.riding.add(box)
            self._state.running[box] = True
            loop.policy.on_boarding(box, self.now_ns)

    def release(self, box: int, loop: Loop) -> None:
        """Gives a query that is running again back to the policy."""
        self._show(box)
        if box in self._held:
            self._held.discard(box)
            self.riding.discard(box)
            self._state.running[box] = False
            loop.rode(box, 0, self.now_ns)

    def resume(self, box: int, loop: Loop) -> None:
        """Whatever holds a query, it may run again."""
        self.standings[box].resume(self.now_ns)
        if not self.standings[box].held:
            self.release(box, loop)

    def skip_oldest(self, counts: Mapping[int, int], why: str, loop: Loop) -> dict[int, int]:
        """Gives up so many of the oldest tuples of each query, all in one transaction.

        Not while a job of one of them is under way. Of a query over windows, whole windows are
        given up, at least as many as hold so many tuples. Returns how many were given up.
        """
        taken = {b: items for b, n in counts.items() if (items := self._inboxes[b].take(n))}
        if not taken:
            return {}
        try:
            self._hooks.give_up([(self.queries[b], items) for b, items in taken.items()], why)
        except Exception:
            for box, items in taken.items():
                self._inboxes[box].put_back(items)
            raise
        for box in taken:
            self._show(box)
            if not self._state.running[box]:
                # As if it had been taken along for nothing: what the policy knew has changed.
                loop.policy.on_boarding(box, self.now_ns)
                loop.policy.on_ride(box, 0, self.now_ns)
        return {box: sum(w.tuples for w in items) for box, items in taken.items()}

    def in_job(self, box: int) -> bool:
        return box in self._in_job

    def adopt(self, box: int, query: Runnable, inbox: Inbox) -> None:
        """A query has come to this box; the state knows the box already."""
        if box == len(self.queries):
            self.queries.append(query)
            self.standings.append(Standing())
            self._inboxes.append(Inbox())
            self.arrived.append(0)
        else:
            self.forget(box)
            self.queries[box] = query
            self.standings[box] = Standing()
        self.compositor.adopt(box)
        self._subscribe(box, query, inbox)

    def forget(self, box: int) -> None:
        """Nothing waits for this query any more, and nothing will."""
        for readers in self._readers.values():
            if box in readers:
                readers.remove(box)
        self.compositor.forget(box)
        self._inboxes[box] = Inbox()
        self._show(box)

    def _subscribe(self, box: int, query: Runnable, inbox: Inbox) -> None:
        for stream in query.checked.reads:
            self._readers.setdefault(stream, []).append(box)
        self._inboxes[box] = inbox
        self._show(box)

    def between_jobs(self, box: int, make: Make) -> Future[bool]:
        """As ``ask``, but waits until no job of this query is under way."""
        answer: Future[bool] = Future()

        def when_free(loop: Loop) -> None:
            asked = Asked(make, answer)
            if box in self._in_job:
                self._after_job.setdefault(box, []).append(asked)
            else:
                self._answer(asked, loop)

        self.ask(when_free)
        return answer

    # The loop's side

    @property
    def now_ns(self) -> int:
        return time.time_ns()

    def start(self, worker: int, plan: Plan, work: Work) -> list[int]:
        groups = [self._group(step) for step in plan.steps if self._state.pending[step.box]]
        self._busy += 1
        self.books.monitor.decisions += 1
        self.books.monitor.invoked(0, work)
        for group in groups:
            self._in_job.update(group.boxes)
        self._threads.submit(worker, Order(plan, groups))
        return [rider for group in groups for rider in group.boxes[1:]]

    def _group(self, step: Step) -> Group:
        """Takes what the step says for its query, and the same for those that ride along."""
        some = ceil(self._inboxes[step.box].tuples * step.fraction)
        limits = (some, step.limit, self.standings[step.box].limit)
        limit = min(n for n in limits if n is not None)
        boxes, cell, tuples = self.compositor.group(step.box, max(1, limit))
        taken = self._inboxes[step.box].take(tuples)
        riders = [b for b in boxes[1:] if self._rides(b, taken, tuples)]
        for b in (step.box, *riders):
            self._show(b)
        for rider in riders:
            self.riding.add(rider)
            self._state.running[rider] = True
        return Group([step.box, *riders], taken, cell)

    def _rides(self, box: int, taken: list[Waiting], tuples: int) -> bool:
        """Takes the same for a rider; False, and nothing is taken, if it is at another place.

        The compositor compares how much waits, which is nearly always the same place.
        """
        mine = self._inboxes[box].take(tuples)
        if same_range(mine, taken):
            return True
        self._inboxes[box].put_back(mine)
        return False

    def advance(self, loop: Loop) -> bool:
        """Waits for events and tells them; False once stopped and every job has ended."""
        if self._told_ns:  # since then the policy has decided, and workers were given work
            self.books.monitor.scheduling_ns += time.perf_counter_ns() - self._told_ns
        try:
            event: Event | None = self._events.get(timeout=TICK_S)
        except queue.Empty:
            event = None
        began = time.perf_counter_ns()
        while event is not None:
            self._handle(event, loop)
            event = None if self._events.empty() else self._events.get()
        self._sample(loop)
        self._told_ns = time.perf_counter_ns()
        self.books.monitor.scheduling_ns += self._told_ns - began
        if self._stopping.is_set():
            loop.retire()  # nobody asks for work any more
            return self._busy > 0
        return True

    def _handle(self, event: Event, loop: Loop) -> None:
        if isinstance(event, Arrived):
            self._arrived(event.segment, loop)
        elif isinstance(event, Ended):
            self._ended(event, loop)
        elif isinstance(event, Tick):
            self._ticked(event, loop)
        else:
            self._answer(event, loop)

    def _answer(self, asked: Asked, loop: Loop) -> None:
        try:
            change = None if asked.make is None else asked.make(loop)
            if change is not None:
                loop.changed(change, self.now_ns)
            quiet = not self._busy and not any(self._state.pending)
            retrying = any(s.state == "retrying" for s in self.standings)
            asked.done.set_result(quiet and not retrying)
        except Exception as error:
            asked.done.set_exception(error)

    def _arrived(self, segment: Segment, loop: Loop) -> None:
        if segment.seq < self.next_seq.get(segment.stream, 0):
            return  # a batch that came again after a crash: its tuples are counted already
        self.next_seq[segment.stream] = segment.seq + 1
        self.books.arrived(segment)
        for b in self._readers.get(segment.stream, ()):
            self.arrived[b] += segment.rows
            self._pending(b, self._inboxes[b].arrive(segment), loop)

    def _pending(self, box: int, came: int, loop: Loop) -> None:
        """So many tuples are pending that were not before."""
        if came and not self.standings[box].held:
            self._show(box)
            loop.arrived(box, came, self.now_ns)

    def _ticked(self, tick: Tick, loop: Loop) -> None:
        for b in self._readers.get(tick.stream, ()):
            inbox = self._inboxes[b]
            if isinstance(inbox, WindowInbox):
                self._pending(b, inbox.tick(tick), loop)

    def _ended(self, event: Ended, loop: Loop) -> None:
        self._busy -= 1
        rides: list[tuple[int, int]] = []
        asked_ns = event.cost_ns
        # The last job first: what it took goes back behind what jobs before it took.
        never: Done = [([], None)] * len(event.order.groups)
        jobs = list(zip(event.order.groups, [*event.ran, *never], strict=False))
        for group, (ran_boxes, _) in reversed(jobs):
            for box in group.without(ran_boxes).boxes:
                self._inboxes[box].put_back(group.taken)
        for i, (group, (ran_boxes, ran)) in enumerate(jobs):
            if ran is not None:
                shares = self._account(ran_boxes, group, ran, event.worker)
                rides.extend(zip(ran_boxes[1:], shares[1:], strict=True))
            left = group.without(ran_boxes).boxes
            rides.extend((box, 0) for box in left if box in self.riding)
            if i <= len(event.ran):
                self.compositor.alone.update(_suspects(left, event.failure, bool(ran_boxes)))
        if event.failure is not None:
            failed = event.order.groups[len(event.ran)]
            self._failed(failed.boxes[0], event.failure, sum(w.tuples for w in failed.taken))
            self.books.failed(event.worker, failed, event.cost_ns, self.now_ns)
        boxes = [box for group in event.order.groups for box in group.boxes]
        self._in_job.difference_update(boxes)
        for box in boxes:
            self._show(box)
        for box, cost_ns in rides:
            self.riding.discard(box)
            self._state.running[box] = False
            asked_ns -= cost_ns
        loop.completed(event.order.plan, event.worker, max(0, asked_ns), self.now_ns)
        for box, cost_ns in rides:
            loop.rode(box, cost_ns, self.now_ns)
        for box in boxes:
            self._settle(box, loop)
        self._hooks.ended(boxes, loop)

    def _settle(self, box: int, loop: Loop) -> None:
        """A job of this query has ended: what waited for that happens now."""
        if self.standings[box].held:
            self.hold(box, loop)
        for asked in self._after_job.pop(box, ()):
            self._answer(asked, loop)

    def _account(self, boxes: list[int], group: Group, ran: Ran, worker: int) -> list[int]:
        """Books a job on its queries; returns what each of them cost."""
        names = [self.queries[b].name for b in boxes]
        shares = self.books.job(names, boxes, group, ran, self.compositor, worker)
        cost_ns, tuples = ran.work_ns + ran.commit_ns, sum(w.tuples for w in group.taken)
        self._hooks.say(
            "job", "ended", level=logging.DEBUG, query=names[0], along=len(names) - 1,
            tuples=tuples, rows=sum(ran.rows), seconds=cost_ns / 1e9,
        )  # fmt: skip
        for box, name in zip(boxes, names, strict=True):
            if name in ran.undelivered:
                self.standings[box].behind = True
                self._failed(box, ran.undelivered[name], 0)
            else:
                self._succeeded(box, tuples)
        # The bad record may be in the rest of the range: there it would fail all others again.
        if len(boxes) == 1 and not self.standings[boxes[0]].doubtful:
            self.compositor.alone.discard(boxes[0])
        return shares

    def _succeeded(self, box: int, tuples: int = 0) -> None:
        if self.standings[box].failures:
            self._hooks.say("well-again", "works again", query=self.queries[box].name)
        self.standings[box].succeeded(tuples)

    def _failed(self, box: int, failure: Exception, taken: int) -> None:
        """A query that fails is tried again, then parked; what waits for it stays in the log."""
        # Where our own log would not take it, or its sink is down, it is no fault of the query's.
        ours = isinstance(failure, sqlite3.Error | SinkUnavailable)
        standing, name = self.standings[box], self.queries[box].name
        standing.failed(said(failure), taken, self._limits, self.now_ns, ours=ours)
        event = "job-failed" if taken else "delivery-failed"
        self._hooks.say(
            event, said(failure), level=logging.WARNING, query=name, failures=standing.failures,
            tuples=taken or None, next=standing.state,
        )  # fmt: skip
        if standing.state == "parked":
            message = f"failed {standing.failures} times; mend it, then resume it"
            self._hooks.say("parked", message, level=logging.ERROR, query=name, error=said(failure))

    def _show(self, box: int) -> None:
        """Lets policies see what waits; a query that is held shows nothing."""
        state, inbox = self._state, self._inboxes[box]
        held = self.standings[box].held
        state.pending[box] = 0 if held else inbox.tuples
        state.head_ns[box] = inbox.head_ns
        state.arrival_sum_ns[box] = 0 if held else inbox.arrival_sum_ns

    def _sample(self, loop: Loop) -> None:
        monitor, now = self.books.monitor, self.now_ns - self.books.start_ns
        if now < monitor.next_sample_ns:
            return
        monitor.sample(now, self._state)
        self.books.tick(self.now_ns, self.arrived)
        self._hooks.tidy(loop)
        self._threads.watch(self._hooks.cancel)
        for box, standing in enumerate(self.standings):
            due = standing.state == "retrying" and self.now_ns >= standing.retry_ns
            if due and not standing.behind:
                standing.state = "running"
                self.release(box, loop)

    # The workers' side

    def _tell_end(
        self, worker: int, order: Order, ran: Done, failure: Exception | None, cost_ns: int
    ) -> None:
        self._events.put(Ended(worker, order, ran, failure, cost_ns))

    def _run_group(self, runner: JobRunner, group: Group, ticket: Ticket) -> tuple[list[int], Ran]:
        """The whole group as one job; if that fails, the query that was asked by itself."""
        try:
            return group.boxes, self._run(runner, group.boxes, group, ticket)
        except JobTimeout:
            raise
        except Exception:
            if len(group.boxes) == 1 or ticket.cancelled:
                raise
            asked = group.boxes[:1]
            return asked, self._run(runner, asked, group._replace(cell=asked), ticket)

    def _run(self, runner: JobRunner, boxes: list[int], group: Group, ticket: Ticket) -> Ran:
        cell = [self.queries[b] for b in group.cell]
        return runner.run([self.queries[b] for b in boxes], group.taken, cell, ticket.commit)

    def join(self) -> None:
        """Ends the worker threads; call it after the loop has ended."""
        self._threads.join()


def _suspects(left: list[int], failure: Exception | None, asked_ran: bool) -> list[int]:
    """Of the queries whose job did not end well, those that must run by themselves next.

    What is compiled holds the whole group, so one bad query in it fails all others.
    """
    if asked_ran:  # by itself, and well: one of the others failed the group
        return left
    if failure is None or isinstance(failure, sqlite3.Error):
        return []  # nothing failed, or our own log did
    # A job that timed out was not repeated query by query; any of them may be the slow one.
    return left if isinstance(failure, JobTimeout) else left[:1]
