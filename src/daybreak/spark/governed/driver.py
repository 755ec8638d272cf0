"""Drives an engine from the gates: backlogs and ends of micro-batches in, grants out.

One thread owns the engine. Offsets belong to Spark, so there are three differences to Daybreak's
own queries: a grant takes whatever its source gives (``WholeBacklog``), what it read is known when
it has ended (``Done.read``), and a query whose backlog cannot be seen is granted a micro-batch now
and then to find out.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace

from py4j.protocol import Py4JError

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import (
    AddQuery,
    Done,
    Drop,
    Event,
    Failure,
    JobBegan,
    JobEnded,
    Pause,
    RangeArrived,
    SwitchPolicy,
    Woke,
)
from daybreak.engine.events import Started as EngineStarted
from daybreak.engine.inbox import Waiting
from daybreak.engine.instructions import (
    AbandonJob,
    Account,
    AccountFailure,
    CancelJob,
    Instruction,
    Notice,
    StartJob,
    WakeAt,
)
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.base import BasePolicy
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.eventlog import Say
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.spark.failures import one_line
from daybreak.spark.governed.backlog import UnitRows, WholeBacklog, as_waiting
from daybreak.spark.governed.bridge import (
    Bridge,
    Ended,
    GateEvent,
    Gone,
    Group,
    Pending,
    Ready,
    Seen,
    Started,
    Trouble,
)
from daybreak.spark.governed.classes import ClassBook
from daybreak.spark.governed.queries import (
    NOTHING,
    FreeQuery,
    Governed,
    Job,
    Order,
    Restart,
)

#: The engine is woken this often.
TICK_S = 0.25
#: A query whose backlog is known is still granted a micro-batch this often.
CAUTION_S = 60.0
#: A query that the session has not announced after so long belongs to another one: the whole
#: application may hear of a start before the session does.
ANNOUNCED_S = 1.0


class GovernedDriver:
    """One engine, the gates of one session and the thread between them."""

    def __init__(
        self,
        bridge: Bridge,
        policy: BasePolicy,
        book: ClassBook,
        say: Say,
        *,
        workers: int,
        seed: int,
        limits: Limits,
        idle_grant_s: float,
    ) -> None:
        self.book = book
        self._bridge = bridge
        self._policy = policy
        self._say = say
        self._idle_grant_s = idle_grant_s
        self._settings = Settings(seed=seed, rider_bound_ns=0, limits=limits)
        self._workers = workers
        self.start_ns = time.time_ns()
        #: Before the first query there is nothing to decide.
        self.engine: Engine | None = None
        self.accounts: Accounts | None = None
        self.queries: dict[str, Governed] = {}
        self.free: dict[str, FreeQuery] = {}
        self._seen: dict[str, tuple[str, float]] = {}
        self.restarts: dict[str, Restart] = {}
        #: Since the start: names of governed queries, and why others ran free.
        self.ever_governed: set[str] = set()
        self.ever_free: dict[str, str] = {}
        #: What could not be seen lately, by query.
        self.troubles: dict[str, str] = {}
        self.orders: dict[int, Order] = {}
        self._by_run: dict[str, Governed] = {}
        self._by_box: dict[int, Governed] = {}
        self._rows = UnitRows()
        #: The engine's, with queries that it is about to hear of.
        self._network = Network(streams=[], boxes=[], queries=[])
        self._came: list[Event] = []
        self._asked: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = (
            queue.SimpleQueue()
        )
        self._wake_ns = 0
        self._tick_s = 0.0
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
            self._say("governor-failed", one_line_of(error), level=40)
            self._bridge.close()
        self._work_off()

    def advance(self) -> None:
        """One round: what the gates report, what was asked, what the engine answers."""
        wait_s = TICK_S
        if self._wake_ns:
            wait_s = min(wait_s, max(0.0, (self._wake_ns - time.time_ns()) / 1e9))
        events = self._bridge.poll(max(1, round(wait_s * 1000)))
        began = time.perf_counter_ns()
        for event in events:
            self._hear(event)
        self._work_off()
        self._tell()  # first: what is sampled knows the engine's queries alone
        self._note_time()
        self._tell()
        if self.accounts is not None:
            self.accounts.monitor.scheduling_ns += time.perf_counter_ns() - began

    def _work_off(self) -> None:
        while not self._asked.empty():
            do, answer = self._asked.get()
            try:
                do()
                self._tell()
                answer.set_result(None)
            except Exception as error:
                answer.set_exception(error)

    def feed(self, *events: Event) -> None:
        """For commands, on the loop's thread."""
        self._came.extend(events)

    def _note_time(self) -> None:
        now_s = time.monotonic()
        due = now_s >= self._tick_s
        if self._wake_ns and time.time_ns() >= self._wake_ns:
            self._wake_ns, due = 0, True
        if not due:
            return
        self._tick_s = now_s + TICK_S
        if self.accounts is not None:
            self.accounts.tick(time.time_ns())
        self._grant_blindly(now_s)
        for run, (name, at_s) in list(self._seen.items()):
            if now_s - at_s > ANNOUNCED_S:
                del self._seen[run]
                self.let_free(run, name, "belongs to another session")
        self._came.append(Woke(time.monotonic_ns()))

    def _grant_blindly(self, now_s: float) -> None:
        """Queries that may have something to do without anybody knowing ask for a grant."""
        for query in self._by_run.values():
            wait_s = self._idle_grant_s if query.blind else CAUTION_S
            idle = query.parked and query.job is None and not query.waits
            if idle and now_s - query.idle_since_s >= wait_s and now_ms() >= query.due_ms:
                self._ask(query)

    # What the gates report

    def _hear(self, event: GateEvent) -> None:
        match event:
            case Started():
                self._started(event)
            case Ready():
                self._ready(event)
            case Pending(run, turn, groups, awaited):
                query = self._by_run.get(run)
                if query is None or not query.parked or query.turn != turn or query.job:
                    return
                self._announce(query, groups)
                if awaited and not query.waits:
                    self._ask(query)
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
                    self._say("backlog-unknown", error, level=30, query=query.name)
            case Ended():
                self._stopping.set()

    def _started(self, event: Started) -> None:
        self._seen.pop(event.run, None)
        name = event.name or event.id
        if event.free is not None:
            self.let_free(event.run, name, event.free)
            return
        before = self.queries.get(name)
        if before is not None and before.run is not None:
            self._gone(before.run, None)  # its end is reported after this start
            before = None
        if before is not None and before.job is not None:  # an order waits for it
            before.run, before.parked = event.run, False
            self._by_run[event.run] = before
            return
        if before is not None:
            self._forget(before)
        restart = self.restarts.get(event.restart) if event.restart else None
        query = Governed(name, event.run, event.cls, restart, now_ms())
        self.queries[name] = self._by_run[event.run] = query

    def let_free(self, run: str, name: str, why: str) -> None:
        self.free[run] = FreeQuery(name, why)
        self.ever_free[name] = why
        self._say("ungoverned", f"{name} runs free: {why}", level=30, query=name)

    def _ready(self, event: Ready) -> None:
        query = self._by_run.get(event.run)
        if query is None:
            return
        query.parked, query.turn, query.due_ms = True, event.turn, event.due_ms
        query.idle_since_s = time.monotonic()
        self._rows.learn(event.sources)
        if event.sources:
            query.sources = tuple(source.name for source in event.sources)
        blind = not all(source.probed for source in event.sources)
        query.blind = query.blind or blind or event.timers
        job = query.job
        if job is None:
            if query.box < 0:
                self._admit(query)
            self._announce(query, event.left)
            if event.turn == 0:  # before its first trigger Spark knows no offsets
                self._ask(query)
        elif event.turn == 0:  # it was started again for this order
            self._grant(query)
        else:
            job.add(event)
            follows = event.ran and event.rows > 0 and event.watermark
            if follows and not job.followed:
                job.followed = True
                self._grant(query)
                return
            self._used(query, job, event.left)
            if follows:
                self._ask(query)

    def _used(self, query: Governed, job: Job, groups: tuple[Group, ...]) -> None:
        """A query has used its grant."""
        left = tuple(self._waiting(query, group) for group in sorted(groups))
        query.left(groups)
        self._next(query, job.done(query.box, left, time.time_ns()), job.cost_ns)

    def _next(
        self, query: Governed, done: Done, cost_ns: int, failure: Failure | None = None
    ) -> None:
        """The order goes on with its next query, or ends."""
        assert query.job is not None
        order, query.job = query.job.order, None
        order.cost_ns += cost_ns
        if failure is None:
            order.done.append(done)
            self._begin(order)
        else:
            self._end(order, failure)

    def _end(self, order: Order, failure: Failure | None = None) -> None:
        number = order.started.order
        del self.orders[number]
        self._came.append(JobEnded(number, tuple(order.done), failure, order.cost_ns))

    def _gone(self, run: str, error: str | None) -> None:
        self.free.pop(run, None)
        query = self._by_run.pop(run, None)
        if query is None:
            return
        query.run, query.parked = None, False
        if error is None:
            if query.job is not None:
                self._next(query, NOTHING, 0)
            self._forget(query)
            return
        failure = Failure(one_line_of(RuntimeError(error)))
        self._say("query-failed", failure.error, level=30, query=query.name)
        if query.box < 0:
            self._admit(query)
        if query.job is not None:
            self._next(query, NOTHING, _since(query.job.began_ns), failure)
        elif query.restart is not None:
            self._ask(query)
        if query.restart is None:
            query.failed = failure.error
            self._came.append(Pause(query.box))

    # Queries come and go

    def _admit(self, query: Governed) -> None:
        """Makes a query one of the engine's, at the index of an earlier one of its name."""
        assigned = self.book.of(query.name, query.started_in)
        sources = query.sources or ("unknown source",)
        box = Box(name=query.name, inputs=sources)
        made = Query(name=query.name, output=query.name, cls=assigned.cls, qos=assigned.qos)
        streams = [Stream(name=name) for name in dict.fromkeys(sources)]
        facts = QueryFacts(query.name, tuple(dict.fromkeys(sources)), kind="job")
        if self.engine is None:
            self._make_engine(box, made, streams, facts)
            query.box = 0
        else:
            assert self.accounts is not None
            # Those that come in this round are not told yet: the last event knows the network.
            network = self._network.with_query(box, made, streams)
            query.box = network.query_index[query.name]
            self._network = network
            self.accounts.monitor.adopt(network)
            self._came.append(AddQuery(query.box, facts, network, WholeBacklog()))
        self._by_box[query.box] = query
        self.ever_governed.add(query.name)
        self._say("governed", f"class {assigned.cls}", query=query.name)

    def _make_engine(
        self, box: Box, query: Query, streams: list[Stream], facts: QueryFacts
    ) -> None:
        self._network = Network(
            streams=streams, boxes=[box], queries=[query], classes=self.book.declared.values()
        )
        state = JobState(self._network, self._workers)
        monitor, history = Monitor(self._network), History(state, self.start_ns)
        engine = Engine(state, [facts], [WholeBacklog()], self._policy, self._settings)
        self.accounts = Accounts(
            state, engine.queries, monitor, history=history, start_ns=self.start_ns
        )
        self.engine = engine
        self._came += [Woke(time.monotonic_ns()), EngineStarted()]

    def _forget(self, query: Governed) -> None:
        """A query is stopped for good, or another of its name comes."""
        if self.queries.get(query.name) is query:
            del self.queries[query.name]
        if query.box >= 0:
            self._came.append(Drop(query.box))
            del self._by_box[query.box]
        self.troubles.pop(query.name, None)

    def readmit(self, query: Governed) -> None:
        """A query whose QoS graph changed: what is known of its backlog stays."""
        if query.box < 0 or query.job is not None:
            return  # when it is admitted, or when it is free
        self._came.append(Drop(query.box))
        self._admit(query)
        known = tuple(Group(at, source, n) for (at, source), n in query.told.items())
        asked, query.told, query.asked = query.asked, {}, False
        self._announce(query, known)
        if asked:
            self._ask(query)

    # What waits

    def _announce(self, query: Governed, groups: Iterable[Group]) -> None:
        for group in sorted(groups):
            key = group.arrival_ms, group.source
            more = group.units - query.told.get(key, 0)
            if more > 0:
                query.told[key] = group.units
                item = self._waiting(query, group._replace(units=more))
                self._came.append(RangeArrived((query.box,), item))

    def _waiting(self, query: Governed, group: Group) -> Waiting:
        return as_waiting(group, query.sources, self._rows, query.since_ms)

    def _ask(self, query: Governed) -> None:
        """Asks for a grant although nothing is known to wait: a tuple that may be none."""
        if not query.asked:
            query.asked = True
            source = query.sources[0] if query.sources else "unknown source"
            item = Waiting(time.time_ns(), source, 1, 0)
            self._came.append(RangeArrived((query.box,), item))

    # What the engine asks for

    def _tell(self) -> None:
        while self._came and self.engine is not None:
            events, self._came = self._came, []
            for instruction in self.engine.handle(time.time_ns(), *events):
                self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        assert self.accounts is not None
        match instruction:
            case StartJob():
                self.accounts.started(instruction)
                order = Order(instruction, time.time_ns())
                self.orders[instruction.order] = order
                self._begin(order)
            case Account():
                self.accounts.ran(instruction)
            case AccountFailure():
                self.accounts.failed(instruction, time.time_ns())
            case WakeAt(at_ns):
                self._wake_ns = min(self._wake_ns or at_ns, at_ns)
            case CancelJob(order=number):
                if (query := self._running(number)) is not None and query.run is not None:
                    self._bridge.cancel(query.run)
            case AbandonJob(order=number):
                if (query := self._running(number)) is not None:
                    late = Failure("did not end within its time limit", timeout=True)
                    assert query.job is not None
                    self._next(query, NOTHING, _since(query.job.began_ns), late)
            case Notice(event, message, box, level, fields):
                name = None if box is None else self._by_box[box].name
                self._say(event, message, level=level, query=name, **fields)

    def _running(self, number: int) -> Governed | None:
        """The query that has the order now."""
        for query in self._by_box.values():
            if query.job is not None and query.job.order.started.order == number:
                return query
        return None

    def _begin(self, order: Order) -> None:
        """Grants the next query of an order, or ends it."""
        while (group := order.group) is not None:
            query = self._by_box.get(group.boxes[0])
            if query is not None and (query.run is not None or query.restart is not None):
                break
            order.done.append(NOTHING)  # it was stopped, or has failed for good
        else:
            self._end(order)
            return
        if order.done:
            self._came.append(JobBegan(order.started.order, len(order.done)))
        query.job = Job(order, group.taken, time.time_ns())
        query.told, query.asked = {}, False
        if query.run is not None:
            self._grant(query)
        else:
            threading.Thread(
                target=self._restart, args=(query,), name="daybreak-restart", daemon=True
            ).start()

    def _grant(self, query: Governed) -> None:
        """Of a query that is gone by now, the end is reported soon."""
        assert query.run is not None
        query.parked = False
        self._bridge.grant(query.run)

    def _restart(self, query: Governed) -> None:
        """On a thread of its own: Spark answers when the query has started."""
        assert query.restart is not None
        try:
            query.restart()
        except Exception as error:
            failure = Failure(one_line_of(error))

            def tell() -> None:
                if query.job is not None:
                    self._next(query, NOTHING, _since(query.job.began_ns), failure)

            self.ask(tell)

    # For commands, on the loop's thread

    @property
    def policy(self) -> BasePolicy:
        return self._policy if self.engine is None else self.engine.policy

    def switch(self, command: SwitchPolicy) -> None:
        if self.engine is None:
            self._policy = command.policy
        else:
            self._came.append(command)

    def class_of(self, box: int) -> str:
        """The present class of a query."""
        assert self.engine is not None
        state = self.engine.state
        return state.network.classes[state.query_class[box]].name

    def reclassify(self, cls: str, priority: float) -> None:
        """The declaration, for queries that come later."""
        self.book.declared[cls] = replace(self.book.declared[cls], priority=priority)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _since(began_ns: int) -> int:
    return max(0, time.time_ns() - began_ns)


def one_line_of(error: BaseException) -> str:
    """In one line, without the class of an error that only carries a text."""
    return one_line(error).removeprefix("RuntimeError: ")
