"""Drives an engine from the gates: backlogs and ends of micro-batches in, grants out.

One thread owns the engine. Offsets belong to Spark, so there are three differences to Daybreak's
own queries: how much waits is an estimate (``WholeBacklog``), what a grant read is known when it
has ended (``Done.read``), and a query whose backlog cannot be seen is granted a micro-batch now and
then to find out.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from py4j.protocol import Py4JError

from daybreak.engine.core import Settings
from daybreak.engine.drive import EngineLoop
from daybreak.engine.events import Event, Failure, Pause
from daybreak.engine.instructions import (
    AbandonJob,
    Account,
    AccountFailure,
    CancelJob,
    Instruction,
    Notice,
    StartJob,
)
from daybreak.model.limits import Limits
from daybreak.policies.base import BasePolicy
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit
from daybreak.spark.gates.bridge import (
    Bridge,
    Ended,
    GateEvent,
    Gone,
    Pending,
    QueryStarted,
    Ready,
    Seen,
    Trouble,
)
from daybreak.spark.governed.backlog import NS_PER_MS
from daybreak.spark.governed.class_book import ClassBook
from daybreak.spark.governed.governed_queries import FreeQuery, Governed, Restart
from daybreak.spark.governed.governed_record import GovernedRecord
from daybreak.spark.governed.granting import Granting, one_line_of
from daybreak.spark.governed.roster import Roster
from daybreak.spark.governed.source_arrivals import SourceArrivals

#: The engine is woken this often.
TICK_S = 0.25
#: A query whose backlog is known is still granted a micro-batch this often.
CAUTION_S = 60.0
#: A query that the session has not announced after so long belongs to another one: the whole
#: application may hear of a start before the session does.
ANNOUNCED_S = 1.0


class GovernedDriver:
    """The thread between the gates of one session and an engine."""

    def __init__(
        self,
        bridge: Bridge,
        policy: BasePolicy,
        book: ClassBook,
        emit: Emit,
        *,
        workers: int,
        seed: int,
        limits: Limits,
        idle_grant_s: float,
    ) -> None:
        settings = Settings(seed=seed, rider_bound_ns=0, limits=limits)
        self.roster = Roster(policy, book, workers, settings, emit)
        self.granting = Granting(self.roster, bridge, self.ask)
        self._bridge = bridge
        self._emit = emit
        self._idle_grant_s = idle_grant_s
        #: Queries that run as Spark runs them, by their run.
        self.free: dict[str, FreeQuery] = {}
        #: The same since the start, by name: why.
        self.ever_free: dict[str, str] = {}
        self.restarts: dict[str, Restart] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self._by_run: dict[str, Governed] = {}
        self._asked: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = (
            queue.SimpleQueue()
        )
        self._made: EngineLoop | None = None
        self._tick_s = 0.0
        #: What decisions took, without listening to the gates, and what ``tidy`` took.
        self._deciding_ns = 0
        self._tidying_ns = 0
        #: Set before the loop begins, where somebody wants a report.
        self.record: GovernedRecord | None = None
        self._arrivals = SourceArrivals()
        self._stopping = threading.Event()
        #: Why the loop has ended, if nobody stopped it.
        self.failure: BaseException | None = None

    # From any thread

    def ask(self, do: Callable[[], None]) -> Future[None]:
        """Does something between two decisions; the future is done when it holds."""
        answer: Future[None] = Future()
        self._asked.put((do, answer))
        if self._stopping.is_set():  # nobody else works it off
            self._work_off()
        else:
            self._bridge.nudge()
        return answer

    def stop(self) -> None:
        """Ends the loop; queries stay parked until the gates are opened."""
        self._stopping.set()
        self._bridge.nudge()

    @property
    def stopped(self) -> bool:
        return self._stopping.is_set()

    @property
    def decide_ns(self) -> int:
        """What a decision takes, in the mean."""
        accounts = self.roster.accounts
        return 0 if accounts is None else self._deciding_ns // max(1, accounts.monitor.decisions)

    # The loop's thread

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.advance()
        except (Py4JError, OSError):  # the JVM has ended, and all queries with it
            self._stopping.set()
        except BaseException as error:  # told to whoever asks; nothing may stay parked
            self.failure = error
            self._stopping.set()
            self._emit("governor-failed", one_line_of(error), level=40)
            self._bridge.close()
        self._work_off()

    def advance(self) -> None:
        """One round: what the gates report, what was asked, what the engine answers."""
        wait_s, loop = TICK_S, self._loop
        if loop is not None:
            wait_s = max(0.0, (loop.due_ns() - CLOCK.now_ns()) / 1e9)
        events = self._bridge.poll(max(1, round(wait_s * 1000)))
        began = time.thread_time_ns()
        for event in events:
            self._hear(event)
        self._work_off()
        self._tell()  # first: what is sampled knows the engine's queries alone
        self.roster.readmit()
        self._pass_time()
        if self.roster.accounts is not None:
            self.roster.accounts.monitor.scheduling_ns += time.thread_time_ns() - began

    def _work_off(self) -> None:
        while not self._asked.empty():
            do, answer = self._asked.get()
            try:
                self._tell()  # what came before
                do()
                self._tell()
                self.roster.readmit()
                self._tell()
                if self.roster.engine is not None:
                    self.roster.engine.look()  # who asked finds all of it in the view
                answer.set_result(None)
            except Exception as error:
                answer.set_exception(error)

    def feed(self, *events: Event) -> None:
        """For commands, on the loop's thread."""
        self.roster.came.extend(events)

    def _pass_time(self) -> None:
        """Ticks, also before there is an engine to be woken."""
        if self._loop is not None:
            self._timed(self._loop.tick)
        elif time.monotonic() >= self._tick_s:
            self._tick_s = time.monotonic() + TICK_S
            self.tidy()

    def tidy(self) -> None:
        began, now_s = time.perf_counter_ns(), time.monotonic()
        if self.record is not None:
            self.record.tick()
        for query in self._by_run.values():
            self._ask_unseen(query, now_s)
        for run, (name, at_s) in list(self._seen.items()):
            if now_s - at_s > ANNOUNCED_S:
                del self._seen[run]
                self.let_free(run, name, "belongs to another session")
        self._tidying_ns += time.perf_counter_ns() - began

    def _ask_unseen(self, query: Governed, now_s: float) -> None:
        """Asks for a grant if there may be something to do that no probe sees."""
        wait_s = 0.0 if query.owed else self._idle_grant_s if query.blind else CAUTION_S
        idle = query.parked and query.job is None and not query.waits
        if idle and now_s - query.idle_since_s >= wait_s and wall_ms() >= query.due_ms:
            self.roster.ask(query)

    # What the gates report

    def _hear(self, event: GateEvent) -> None:
        match event:
            case QueryStarted():
                self._started(event)
            case Ready():
                self._ready(event)
            case Pending(run, turn, groups, awaited):
                query = self._by_run.get(run)
                if query is None or not query.parked or query.turn != turn or query.job:
                    return
                self.roster.announce(query, groups)
                if awaited and not query.waits:
                    self.roster.ask(query)
            case Gone(run, error):
                self._gone(run, error)
            case Seen(run, name, ended):
                if ended:
                    self.free.pop(run, None)
                    self._seen.pop(run, None)
                elif run not in self._by_run and run not in self.free:
                    self._seen[run] = (name, time.monotonic())
            case Trouble(run, error):
                if (query := self._by_run.get(run)) is not None:
                    query.blind = True
                    self.roster.unseen.add(query.name)
                    self._emit("backlog-unknown", error, level=30, query=query.name)
            case Ended():
                self._stopping.set()

    def _started(self, event: QueryStarted) -> None:
        self._seen.pop(event.run, None)
        name = event.name or event.id
        if event.free is not None:
            self.let_free(event.run, name, event.free)
            return
        before = self.roster.queries.get(name)
        if before is not None and before.run is not None:
            self._gone(before.run, None)  # its end is reported after this start
            before = None
        if before is not None and before.job is not None:  # an order waits for it
            before.run, before.parked = event.run, False
            self._by_run[event.run] = before
            return
        if before is not None:
            self.roster.forget(before)
        restart = self.restarts.get(event.restart) if event.restart else None
        since_ms = CLOCK.now_ns() // NS_PER_MS
        query = Governed(name, event.run, event.cls, restart, since_ms)
        self.roster.queries[name] = self._by_run[event.run] = query

    def let_free(self, run: str, name: str, why: str) -> None:
        self.free[run] = FreeQuery(name, why)
        self.ever_free[name] = why
        self._emit("ungoverned", f"{name} runs free: {why}", level=30, query=name)

    def _ready(self, event: Ready) -> None:
        query = self._by_run.get(event.run)
        if query is None:
            return
        query.parked, query.turn, query.due_ms = True, event.turn, event.due_ms
        query.hangs = False
        query.idle_since_s = time.monotonic()
        self.roster.learn(event.sources)
        if event.sources:
            query.sources = tuple(source.name for source in event.sources)
        blind = not all(source.probed for source in event.sources)
        query.blind = query.blind or blind or event.timers
        if blind:
            self.roster.unseen.add(query.name)
        if event.due_ms > 0:
            self.roster.paced.add(query.name)
        job = query.job
        if job is None:
            if query.box < 0:
                self.roster.admit(query)
            self.roster.announce(query, event.left)
            if event.turn == 0:  # before its first trigger Spark knows no offsets
                self.roster.ask(query)
        elif event.turn == 0:  # it was started again for this order
            self.granting.grant(query)
        else:
            job.add(event)
            self.granting.used(query, job, event.left)
            # What the watermark may have closed is emitted by the next micro-batch.
            query.owed = event.ran and event.rows > 0 and event.watermark
            self._ask_unseen(query, time.monotonic())

    def _gone(self, run: str, error: str | None) -> None:
        self.free.pop(run, None)
        query = self._by_run.pop(run, None)
        if query is None:
            return
        query.run, query.parked, query.hangs = None, False, False
        if error is None:
            if query.job is not None:
                self.granting.stopped(query)
            self.roster.forget(query)
            return
        failure = Failure(one_line_of(RuntimeError(error)))
        self._emit("query-failed", failure.error, level=30, query=query.name)
        if query.box < 0:
            self.roster.admit(query)
        if query.job is not None:
            self.granting.failed(query, failure)
        elif query.restart is not None:
            self.roster.ask(query)
        if query.restart is None:
            query.failed = failure.error
            self.roster.came.append(Pause(query.box))

    # What the engine asks for

    @property
    def _loop(self) -> EngineLoop | None:
        """The engine's, once the first query has come."""
        roster = self.roster
        if self._made is None and roster.engine is not None and roster.accounts is not None:
            tick_ns = round(TICK_S * 1e9)
            self._made = EngineLoop(roster.engine, roster.accounts, self, tick_ns, roster.came)
        return self._made

    def _tell(self) -> None:
        if self._loop is not None:
            self._timed(self._loop.settle)

    def _timed(self, drive: Callable[[], None]) -> None:
        """Counts what it takes, if anything is decided."""
        accounts = self.roster.accounts
        assert accounts is not None
        before, tidied_ns = accounts.monitor.decisions, self._tidying_ns
        began = time.perf_counter_ns()
        drive()
        if accounts.monitor.decisions > before:
            tidied_ns = self._tidying_ns - tidied_ns
            self._deciding_ns += time.perf_counter_ns() - began - tidied_ns

    def now_ns(self) -> int:
        return CLOCK.now_ns()

    def processor(self) -> None:
        """Not read: micro-batches run where Spark runs them."""

    def carry_out(self, instruction: Instruction) -> None:
        accounts, granting = self.roster.accounts, self.granting
        assert accounts is not None
        match instruction:
            case StartJob():
                granting.start(instruction)
            case Account(boxes=boxes, taken=read):
                if (query := self.roster.by_box.get(boxes[0])) is not None:
                    for item in self._arrivals.new_in(query, read):
                        accounts.arrived(item.stream, item.arrival_ns, item.tuples)
            case AccountFailure(boxes=boxes):
                if (query := self.roster.by_box.get(boxes[0])) is not None:
                    self.roster.failed[query.name] += 1
            case CancelJob(order=number):
                if (query := granting.running(number)) is not None and query.run is not None:
                    self._bridge.cancel(query.run)
            case AbandonJob(order=number):
                if (query := granting.running(number)) is not None:
                    query.hangs = query.run is not None
                    late = Failure("did not end within its time limit", timeout=True)
                    granting.failed(query, late)
            case Notice(event, message, box, level, fields):
                about = None if box is None else self.roster.by_box.get(box)
                name = None if about is None else about.name
                self._emit(event, message, level=level, query=name, **fields)


def wall_ms() -> int:
    """By the clock of Spark's triggers."""
    return time.time_ns() // NS_PER_MS
