"""Drives an engine on Spark: a thread that tells it what happened and does what it answers.

The loop's thread owns the engine: arrivals, ends of jobs and operators' commands reach it through
one queue and are worked off in order. Worker threads only run jobs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

from daybreak.engine.drive import EngineLoop
from daybreak.engine.engine import Engine
from daybreak.engine.events import (
    Delivered,
    Done,
    Event,
    Failure,
    SegmentArrived,
    Skipped,
    Started,
    Stop,
    WatermarkRaised,
    Woke,
)
from daybreak.engine.inbox import Arrival, Tick
from daybreak.engine.instructions import (
    AbandonJob,
    CancelJob,
    Finished,
    Group,
    Ingest,
    Instruction,
    Notice,
    Redeliver,
    Skip,
    StartJob,
)
from daybreak.model.errors import ConfigError
from daybreak.policies.base import ProcessorUse
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import LogUnavailable, one_line
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.jobs.workers import Ticket, Workers
from daybreak.spark.log.segments import Segment
from daybreak.spark.loop.driver_hooks import Hooks
from daybreak.spark.tasks.task import Runnable

#: The engine is woken this often; retries and time limits wait for it.
TICK_S = 0.1
#: A loop that does not come round for so long does not end by itself: decisions take milliseconds,
#: and what waits for a disk or a log's server gives up sooner once the run is stopping.
STUCK_S = 60.0
#: Who asks something of the engine waits for a decision to end, at most for so long.
LOOK_UP_S = 120.0
Found = TypeVar("Found")
#: Numbers of commands that are answered later.
_NUMBERS = count(1)


def new_command() -> int:
    """A number for a command whose answer comes later."""
    return next(_NUMBERS)


#: What an operator wants: does the I/O that goes before, and gives what the engine is told.
Make = Callable[[], Event | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """An operator's command, or only a question."""

    make: Make | None
    #: Whether nothing waited and nothing ran at that moment; or what was given up.
    answer: Future[int]
    #: The number of a command that may have to wait, and what to do once it is carried out.
    command: int = 0
    after: Callable[[], None] = field(default=lambda: None)


class Driver:
    """One engine, its worker threads and its queue of events."""

    def __init__(
        self, engine: Engine, accounts: Accounts, queries: Sequence[Runnable], hooks: Hooks,
        job_timeout_s: float,
    ) -> None:  # fmt: skip
        """``queries`` in the order of the engine's, and as they are at any time."""
        self.engine = engine
        self.accounts = accounts
        self._queries = queries
        self._hooks = hooks
        self._events: queue.SimpleQueue[Event | Asked] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None
        #: Why the loop ended by itself.
        self.failure: BaseException | None = None
        self._commands: dict[int, Asked] = {}
        self._skip_failure: Exception | None = None
        self._loop = EngineLoop(engine, accounts, self, round(TICK_S * 1e9))
        #: When the loop last came round.
        self._round_s = time.monotonic()
        #: The loop's thread did not end, and may change nothing any more.
        self._left = False
        #: Lets sources read, as the engine grants it.
        self.gate = IngestGate(self._events.put)
        #: Queries whose committed results are to be brought to their sinks.
        self.redeliveries: queue.SimpleQueue[Redeliver] = queue.SimpleQueue()
        self._threads = Workers(
            engine.view.threads, hooks.new_runner, self._run_group, self._events.put,
            hooks.cancel, job_timeout_s,
        )  # fmt: skip

    # Called from other threads

    def on_segment(self, segment: Segment) -> None:
        """A segment is listed: its tuples are pending from now on."""
        self._events.put(SegmentArrived(segment))

    def on_tick(self, tick: Tick) -> None:
        """A stream's watermark was raised without a row."""
        self._events.put(WatermarkRaised(tick))

    def on_delivered(self, asked: Redeliver, failure: Failure | None, skipped: int = 0) -> None:
        """A delivery was tried again; so many rows of results were given up."""
        self._events.put(Delivered(asked.box, failure, asked.delivery, skipped))

    def ask(self, make: Make | None = None) -> Future[int]:
        """Changes something between two decisions; the future is done when it holds.

        It tells whether the system was quiet then: all that arrived before is answered.
        """
        asked = Asked(make, Future())
        self._events.put(asked)
        return asked.answer

    def command(
        self, number: int, make: Make, after: Callable[[], None] = lambda: None
    ) -> Future[int]:
        """As ``ask``, of a command that the engine may carry out later.

        ``after`` is called then, on the loop's thread; the future tells how many tuples were
        given up.
        """
        asked = Asked(make, Future(), number, after)
        self._events.put(asked)
        return asked.answer

    def start(self, *first: Event) -> None:
        """Runs the loop on a thread of its own; ``first``: how queries stand then."""
        self._thread = threading.Thread(
            target=self._run_loop, args=first, name="daybreak-loop", daemon=True
        )
        self._thread.start()

    def halt(self, failure: BaseException) -> None:
        """Starts no further jobs, since the run cannot continue; does not wait for anything."""
        self.failure = failure
        self._stopping.set()

    def stop(self) -> None:
        """Starts no further jobs; returns when those under way and the loop have ended.

        A loop that is stuck, in a policy's decision for instance, is left behind.
        """
        self._stopping.set()
        self.ask()  # the loop need not wait for its next tick
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(TICK_S)
            if self.busy_s() > STUCK_S and self._thread.is_alive():
                self._left, policy = True, self.engine.view.policy.name
                finding = f"policy {policy!r} has come to no decision for {STUCK_S:g} s"
                self.failure = self.failure or ConfigError("scheduler", finding, "use another one")
                break

    def busy_s(self) -> float:
        """For how long the loop has been at what it is doing; a fraction of a second is usual."""
        return time.monotonic() - self._round_s

    def underway(self) -> list[tuple[int, Group, float]]:
        """Workers at work, their present job and for how long (s) they are at it."""
        return self._threads.underway()

    def look_up(self, look: Callable[[], Found]) -> Found:
        """Asks the engine something between two decisions, on its own thread."""
        found: list[Found] = []
        self.ask(lambda: found.append(look())).result(timeout=LOOK_UP_S)
        return found[0]

    @property
    def failures(self) -> dict[str, str]:
        """Parked queries and why."""
        return self.engine.view.parked

    def join(self) -> None:
        """Ends the worker threads; call it after the loop has ended."""
        if self._left:
            self._threads.leave()
        else:
            self._threads.join()

    # The loop's thread

    def run(self, *first: Event) -> None:
        """Until it is stopped and every job has ended; ``first``: how queries stand then."""
        self.feed(Woke(), *first, Started())
        while self._advance():
            pass

    def feed(self, *events: Event) -> None:
        """Tells the engine, and does what it answers; raises if rows could not be given up.

        What came before has been handled; what is still queued came later.
        """
        self._loop.settle(*events)
        failure, self._skip_failure = self._skip_failure, None
        if failure is not None:
            raise failure

    def _run_loop(self, *first: Event) -> None:
        try:
            self.run(*first)
        except BaseException as error:  # raised by ``healthy`` and at the end of the run
            self.failure = self.failure or error
        finally:
            self.engine.look()  # for the report

    def _advance(self) -> bool:
        self._round_s, loop = time.monotonic(), self._loop
        wait_s = max(0.0, (loop.due_ns() - CLOCK.now_ns()) / 1e9)
        try:
            event: Event | Asked | None = self._events.get(timeout=wait_s)
        except queue.Empty:
            event = None
        began = time.thread_time_ns()  # not what it waits for processors that others use
        counted: dict[str, int] = {}
        while event is not None:
            if isinstance(event, Asked):
                loop.settle()
                self._answer(event)
            else:
                if isinstance(event, SegmentArrived):
                    self._count(event.segment, counted)
                loop.put(event)
            event = None if self._events.empty() else self._events.get()
        loop.tick()
        self._note_trouble("shedding")
        self.accounts.monitor.scheduling_ns += time.thread_time_ns() - began
        if not self._stopping.is_set():
            return True
        if not self._stopped:
            self._stopped = True
            loop.settle(Stop())
        return self.engine.busy

    def _count(self, segment: Arrival, counted: dict[str, int]) -> None:
        """Accounts for a segment, unless it has come before; ``counted``: those not told yet."""
        if self.engine.is_new(segment) and segment.seq >= counted.get(segment.stream, 0):
            counted[segment.stream] = segment.seq + 1
            self.accounts.listed(segment, CLOCK.now_ns())

    def now_ns(self) -> int:
        return CLOCK.now_ns()

    def processor(self) -> ProcessorUse | None:
        return self._hooks.processor()

    def tidy(self) -> None:
        self._hooks.tidy(self)
        self._threads.cancel_left()

    def _note_trouble(self, what: str) -> None:
        """A disk that takes nothing now is no reason for the loop to end: there is a next time."""
        failure, self._skip_failure = self._skip_failure, None
        if failure is not None and not isinstance(failure, LogUnavailable | OSError):
            raise failure
        self._hooks.trouble(what, None if failure is None else one_line(failure))

    def _answer(self, asked: Asked) -> None:
        if asked.command:
            self._commands[asked.command] = asked
        try:
            event = None if asked.make is None else asked.make()
            if event is not None:
                self.feed(event)
            if not asked.command:
                self.engine.look()  # who asked finds all of it in the view
                asked.answer.set_result(self.engine.quiet)
        except Exception as error:
            self._commands.pop(asked.command, None)
            if not asked.answer.done():
                asked.answer.set_exception(error)

    def carry_out(self, instruction: Instruction) -> None:
        if self._left:
            raise RuntimeError("the run has ended meanwhile")
        match instruction:
            case StartJob():
                self._threads.submit(instruction)
            case Ingest():
                self.gate.open(instruction)
            case Notice(event, message, box, level, fields):
                name = None if box is None else self.engine.view.facts[box].name
                self._hooks.emit(event, message, level=level, query=name, **fields)
            case Skip():
                self._give_up(instruction)
            case Redeliver():
                self.redeliveries.put(instruction)
            case CancelJob(worker, order, group):
                self._threads.cancel(worker, order, group)
            case AbandonJob(worker, order, group):
                self._threads.abandon(worker, order, group)
            case Finished():
                self._finished(instruction)

    def _give_up(self, skip: Skip) -> None:
        given = [(self._queries[box], items) for box, items in skip.given]
        try:
            self._hooks.give_up(given, skip.why)
        except Exception as error:
            self._skip_failure = error
            self._loop.put(Skipped(skip.skip, recorded=False))
        else:
            self._loop.put(Skipped(skip.skip))

    def _finished(self, finished: Finished) -> None:
        asked = self._commands.pop(finished.command)
        failure, self._skip_failure = self._skip_failure, None
        try:
            if finished.refused:
                gone = ConfigError("resume", "the query has been dropped", "register it again")
                raise failure or gone
            asked.after()
            asked.answer.set_result(finished.skipped)
        except Exception as error:
            asked.answer.set_exception(error)

    # The workers' side

    def _run_group(self, runner: JobRunner, group: Group, ticket: Ticket) -> Done:
        """One job; of a group that fails together, the query that was asked by itself."""
        named = self._queries
        cell = [named[b] for b in group.cell]
        ran = runner.run([named[b] for b in group.boxes], group.taken, cell, ticket)
        boxes = group.boxes[: len(ran.rows)]
        behind = tuple(b for b in boxes if named[b].name in ran.undelivered)
        return Done(boxes, ran, ran.read, ran.left, behind)
