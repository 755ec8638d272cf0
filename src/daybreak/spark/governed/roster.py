"""The engine of a governor and the queries it knows: who comes, who goes, what waits."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import (
    AddQuery,
    AssignClass,
    Drop,
    Event,
    Pause,
    RangeArrived,
    Started,
    SwitchPolicy,
    Woke,
)
from daybreak.engine.inbox import Waiting
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.engine.view import PolicyView
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.base import BasePolicy
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.spark.gates.bridge import SourceRead, UnitGroup
from daybreak.spark.governed.backlog import NS_PER_MS, UnitRows, WholeBacklog, as_waiting, asked
from daybreak.spark.governed.class_book import Assignment, ClassBook
from daybreak.spark.governed.governed_queries import Governed
from daybreak.spark.governed.governor_log import ChangeNote

HANGS = (
    "its micro-batch did not end within job_timeout_s and still runs; it gets no grant before it "
    "ends: stop the query in your program, or wait"
)
#: Where Spark has not said what a query reads.
UNKNOWN = "unknown source"


class Roster:
    """What the engine is about to be told gathers in ``came``. One thread uses it."""

    def __init__(
        self, policy: BasePolicy, book: ClassBook, workers: int, settings: Settings, emit: Emit
    ) -> None:
        self.book = book
        self._policy = policy
        self._workers = workers
        self._settings = settings
        self._emit = emit
        self.start_ns = CLOCK.now_ns()
        #: Before the first query there is nothing to decide.
        self.engine: Engine | None = None
        self.accounts: Accounts | None = None
        self.came: deque[Event] = deque()
        self.queries: dict[str, Governed] = {}
        self.by_box: dict[int, Governed] = {}
        #: Names of all that were governed since the start.
        self.ever: set[str] = set()
        self.unit_rows = UnitRows()
        #: What a record holds beside the figures; None: there is no record.
        self.recorder: Recorder | None = None
        #: Micro-batches that failed, by query.
        self.failed: Counter[str] = Counter()
        #: Names of queries with a source that no probe sees.
        self.unseen: set[str] = set()
        #: Names of queries whose trigger has an interval.
        self.paced: set[str] = set()
        #: The engine's, with queries that it is about to hear of.
        self._network = Network(streams=[], boxes=[], queries=[])

    # Queries come and go

    def admit(self, query: Governed, waiting: Iterable[Waiting] = ()) -> None:
        """Makes a query one of the engine's, at the index of an earlier one of its name."""
        assigned = self.book.of(query.name, query.started_in)
        sources = tuple(dict.fromkeys(query.sources)) or (UNKNOWN,)
        box = Box(name=query.name, inputs=sources)
        made = Query(name=query.name, output=query.name, cls=assigned.cls, qos=assigned.qos)
        streams = [Stream(name=name) for name in sources]
        facts = QueryFacts(query.name, sources, kind="job")
        if self.accounts is None:
            self._make_engine(box, made, streams, facts)
            query.box = 0
        else:
            self._network = network = self._network.with_query(box, made, streams)
            query.box = network.query_index[query.name]
            self.accounts.monitor.adopt(network)
            self.came.append(AddQuery(query.box, facts, network, WholeBacklog.of(waiting)))
        self.by_box[query.box] = query
        self.ever.add(query.name)
        self._emit("governed", f"class {assigned.cls}", query=query.name)

    def _make_engine(
        self, box: Box, query: Query, streams: list[Stream], facts: QueryFacts
    ) -> None:
        self._network = Network(
            streams=streams, boxes=[box], queries=[query], classes=self.book.declared.values()
        )
        state = JobState(self._network, self._workers)
        engine = Engine(state, [facts], [WholeBacklog()], self._policy, self._settings)
        monitor, history = Monitor(self._network), History(lambda: engine.view, self.start_ns)
        self.engine = engine
        self.accounts = Accounts(engine, monitor, self.recorder, history, self.start_ns)
        self.came += [Woke(), Started()]

    def forget(self, query: Governed) -> None:
        """A query is stopped for good, or another of its name comes."""
        if self.queries.get(query.name) is query:
            del self.queries[query.name]
        if query.box >= 0:
            self.came.append(Drop(query.box))
            del self.by_box[query.box]

    def readmit(self) -> None:
        """Queries whose QoS graphs have changed; call it when the engine has been told all."""
        for query in self.queries.values():
            if not query.renew or query.job is not None or query.box < 0 or self.engine is None:
                continue
            state = self.engine.look().states[query.box]
            if state not in ("running", "paused"):
                continue  # what holds it would be forgotten
            query.renew = False
            waiting = self.engine.waiting(query.box)
            self.came.append(Drop(query.box))
            self.admit(query, waiting)
            if state == "paused":
                self.came.append(Pause(query.box))

    # What waits

    def learn(self, read: Iterable[SourceRead]) -> None:
        """A micro-batch has shown how many rows the units of its sources hold."""
        self.unit_rows.learn(read)

    def announce(self, query: Governed, groups: Iterable[UnitGroup]) -> None:
        """So much waits; the engine hears of what it does not know, which is the newest."""
        known = query.told.copy()
        for group in sorted(groups):
            old = min(group.units, known[group.source])
            known[group.source] -= old
            if group.units > old:
                query.told[group.source] += group.units - old
                item = self.waiting(query, group._replace(units=group.units - old))
                self.came.append(RangeArrived((query.box,), item))

    def waiting(self, query: Governed, group: UnitGroup) -> Waiting:
        arrival_ms = CLOCK.of_wall(group.arrival_ms * NS_PER_MS) // NS_PER_MS
        seen = group._replace(arrival_ms=arrival_ms)
        return as_waiting(seen, query.sources, self.unit_rows, query.since_ms)

    def units(self, query: Governed, tuples: int | None) -> tuple[int, ...]:
        """So many tuples in units of each of its sources; empty: as many as there are."""
        if tuples is None or not query.sources:
            return ()
        each = tuples // len(query.sources)
        return tuple(self.unit_rows.units(source, each) for source in query.sources)

    def ask(self, query: Governed) -> None:
        """Asks for a grant although nothing is known to wait."""
        if not query.asked:
            query.asked = True
            source = query.sources[0] if query.sources else UNKNOWN
            self.came.append(RangeArrived((query.box,), asked(source, CLOCK.now_ns())))

    def failures(self) -> dict[str, str]:
        """Queries that get no grants because they failed or hang, with why."""
        found = {}
        for name, query in list(self.queries.items()):
            if query.failed is not None:
                found[name] = query.failed
            elif query.hangs:
                found[name] = HANGS
            elif self.engine is not None and query.box >= 0:
                view = self.engine.view
                if query.box < len(view.states) and view.states[query.box] == "parked":
                    found[name] = view.errors[query.box] or ""
        return found

    # What operators change

    @property
    def policy(self) -> PolicyView:
        return PolicyView.of(self._policy) if self.engine is None else self.engine.view.policy

    def switch(self, command: SwitchPolicy) -> None:
        if self.engine is None:
            self._policy = command.policy
        else:
            self.came.append(command)

    def class_of(self, query: Governed) -> str | None:
        """The present class of a query; None before it is admitted."""
        if self.engine is None or query.box < 0:
            return None
        view = self.engine.look()
        return view.network.classes[view.query_class[query.box]].name

    def assign(self, given: Assignment) -> Iterator[ChangeNote]:
        """Queries of this name belong to this class now; gives what changes for those that run."""
        self.book.assign(given)
        graph = given.qos or self.book.declared[given.cls].qos
        for query in list(self.queries.values()):
            if self.book.of(query.name) is not given or query.box < 0:
                continue
            yield ChangeNote("query-class", query.name, self.class_of(query), given.cls)
            if query.renew or self._network.queries[query.box].qos != graph:
                query.renew = True
                yield ChangeNote("qos", query.name, None, None if graph is None else graph.points)
            else:
                self.came.append(AssignClass(query.box, self.class_index(given.cls)))

    def class_index(self, cls: str) -> int:
        """The index of a class in the engine."""
        assert self.engine is not None
        return self.engine.view.network.class_index[cls]

    def reclassify(self, cls: str, priority: float) -> None:
        """The declaration, for an engine that is made later."""
        self.book.declared[cls] = replace(self.book.declared[cls], priority=priority)
