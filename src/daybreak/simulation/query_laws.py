"""Laws about queries that come and go, and the driver they run on.

They hold for policies that take such queries (``BasePolicy.keeps_learning``); any other is
replaced by a fresh instance when a query comes, and passes unchecked. As on Spark, a query is one
box here and a plan becomes jobs. ``Jobs`` needs nothing but a policy and a network, so a test of a
policy can use it too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from itertools import count
from math import ceil
from random import Random
from typing import NamedTuple

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.policies.base import BasePolicy, Cell, Plan, Step, Wait, Work
from daybreak.simulation.loop import NEVER

Make = Callable[[], BasePolicy]

MS = 1_000_000
#: What starting a job takes.
JOB_NS = 1 * MS
#: Measured costs differ from those declared, so that there is something to learn.
DEARER = (0.5, 1.0, 3.0)
#: Share of jobs that take another query along, where queries may ride.
RIDES = 0.3
#: A policy that waits more often than this never runs what is pending.
MOST_WAITS = 10_000


class Decided(NamedTuple):
    """A plan that a worker was given."""

    at_ns: int
    worker: int
    plan: Plan


class _Windowed(SystemState):
    """Queries by themselves, some of which answer windows."""

    def __init__(
        self, network: Network, workers: int, *, rides: bool, slides_ns: Sequence[int]
    ) -> None:
        super().__init__(network, workers, rides=rides)
        self._slides_ns = slides_ns

    @property
    def cells(self) -> list[Cell]:
        cells = super().cells
        slides = zip(cells, self._slides_ns, strict=False)
        return [c._replace(slide_ns=s) for c, s in slides] + cells[len(self._slides_ns) :]


class Jobs:
    """Workers that run queries of one box each as jobs, in virtual time."""

    def __init__(
        self,
        policy: BasePolicy,
        network: Network,
        *,
        workers: int = 1,
        rides: bool = False,
        slides_ns: Sequence[int] = (),
    ) -> None:
        """``slides_ns``: of each query, how far apart the windows close that it answers."""
        self.state = _Windowed(network, workers, rides=rides, slides_ns=slides_ns)
        self.policy = policy
        self.now_ns = 0
        self.decided: list[Decided] = []
        self.gone: set[int] = set()
        #: Arrivals of the tuples that wait for each query.
        self._queues: list[list[int]] = [[] for _ in network.queries]
        self._idle = list(range(workers))
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        #: When to ask again if nothing happens before.
        self._wake_ns = NEVER
        self._waits = 0
        self._random = Random(17)
        policy.attach(self.state, Work(), 11)

    def at(self, at_ns: int, happens: Callable[[], None]) -> None:
        """Schedules an event; events of one instant happen in the order they were scheduled."""
        heappush(self._events, (at_ns, next(self._sequence), happens))

    def run(self) -> None:
        """Until nothing is left to happen; the policy is asked after every event."""
        while self._events or self._wake_ns < NEVER:
            if not self._events or self._wake_ns < self._events[0][0]:
                self.now_ns = self._wake_ns
            else:
                self.now_ns, _, happens = heappop(self._events)
                happens()
            self._wake_ns = NEVER
            self._dispatch()

    # Events

    def arrive(self, name: str, tuples: int) -> None:
        """Tuples arrive for a query; without effect if it is not there."""
        q = self.state.network.query_index.get(name)
        if q is None or q in self.gone:
            return
        self._queues[q] += [self.now_ns] * tuples
        self._show(q)
        self.policy.on_arrival(q, tuples, self.now_ns)

    def add(self, box: Box, query: Query) -> None:
        """A query comes, as one more or in the place of one of its name that was removed."""
        state = self.state
        state.adopt(state.network.with_query(box, query))
        q = state.network.query_index[query.name]
        state.query_class[q], state.query_weight[q] = state.network.class_of(q), query.weight
        if q == len(self._queues):
            self._queues.append([])
        self.gone.discard(q)
        self.policy.on_query_added(q, self.now_ns)

    def remove(self, name: str) -> None:
        """A query goes, if it is there, as soon as it does not run; what waits for it is lost."""
        q = self.state.network.query_index.get(name)
        if q is None or q in self.gone:
            return
        if self.state.running[q]:
            self.at(self.now_ns + MS, partial(self.remove, name))
            return
        self._queues[q].clear()
        self._show(q)
        self.gone.add(q)
        self.policy.on_query_removed(q, self.now_ns)

    # Decisions

    def _dispatch(self) -> None:
        while self._idle:
            decision = self.policy.decide(self.now_ns, self._idle[-1])
            if isinstance(decision, Wait) and any(self.state.pending):
                assert decision.until_ns > self.now_ns, "waits for an instant that has passed"
                self._waits += 1
                assert self._waits <= MOST_WAITS, "waits, and never runs what is pending"
                self._wake_ns = decision.until_ns
            if not isinstance(decision, Plan):
                return
            self._start(self._idle.pop(), decision)

    def _start(self, worker: int, plan: Plan) -> None:
        state, boxes = self.state, {step.box for step in plan.steps}
        for b in boxes:
            name = state.network.boxes[b].name
            assert b not in self.gone, f"planned {name}, which was removed"
            assert not state.running[b], f"planned {name}, which is running"
        assert any(state.pending[b] for b in boxes), "planned queries without tuples"
        self.decided.append(Decided(self.now_ns, worker, plan))
        taken = [(step.box, self._take(step)) for step in plan.steps if state.pending[step.box]]
        riders = list(self._riders(boxes))
        for b in [*boxes, *riders]:
            state.running[b] = True
        rides = [(b, self._take(Step(b))) for b in riders]
        cost_ns = JOB_NS + sum(self._cost_ns(b, len(tuples)) for b, tuples in [*taken, *rides])
        self.at(self.now_ns + cost_ns, partial(self._ended, worker, plan, taken, rides))
        for b in riders:
            self.policy.on_withdrawn(b, self.now_ns)

    def _riders(self, boxes: set[int]) -> Iterator[int]:
        if self.state.rides and self._random.random() < RIDES:
            for b, pending in enumerate(self.state.pending):
                if pending and not self.state.running[b] and b not in boxes:
                    yield b
                    return

    def _take(self, step: Step) -> list[int]:
        queue = self._queues[step.box]
        some = max(1, ceil(len(queue) * step.fraction))
        taken = queue[: some if step.limit is None else min(some, step.limit)]
        del queue[: len(taken)]
        self._show(step.box)
        return taken

    def _show(self, box: int) -> None:
        queue, state = self._queues[box], self.state
        state.pending[box], state.arrival_sum_ns[box] = len(queue), sum(queue)
        if queue:
            state.head_ns[box] = queue[0]

    def _cost_ns(self, box: int, tuples: int) -> int:
        declared_ns = self.state.network.boxes[box].cost_ns or MS // 10
        return int(tuples * declared_ns * DEARER[box % len(DEARER)])

    def _ended(
        self,
        worker: int,
        plan: Plan,
        taken: list[tuple[int, list[int]]],
        rides: list[tuple[int, list[int]]],
    ) -> None:
        state, policy, now_ns = self.state, self.policy, self.now_ns
        for b, arrivals in [*taken, *rides]:
            tuples, cost_ns = len(arrivals), self._cost_ns(b, len(arrivals))
            state.calls[b] += 1
            state.tuples_in[b] += tuples
            state.tuples_out[b] += tuples
            state.work_ns[b] += cost_ns
            state.refine(b, tuples, tuples, cost_ns)
            if policy.watches_results:
                policy.on_results(b, arrivals, [now_ns] * tuples, 1)
        for b in [*(step.box for step in plan.steps), *(b for b, _ in rides)]:
            state.running[b] = False
        self._idle.append(worker)
        cost_ns = JOB_NS + sum(self._cost_ns(b, len(arrivals)) for b, arrivals in taken)
        policy.on_completion(plan, worker, cost_ns, now_ns)
        for b, arrivals in rides:
            policy.on_returned(b, self._cost_ns(b, len(arrivals)), now_ns)


class Workload(NamedTuple):
    """Queries of one box each, others that may come, and what arrives for all of them."""

    network: Network
    others: list[tuple[Box, Query]]
    #: Instant, query, tuples.
    arrivals: list[tuple[int, str, int]]

    def run(self, jobs: Jobs) -> Jobs:
        jobs.at(0, _nothing)  # a policy is asked before anything has arrived
        for at_ns, name, tuples in self.arrivals:
            jobs.at(at_ns, partial(jobs.arrive, name, tuples))
        jobs.run()
        assert not any(jobs.state.pending), "tuples were left in queues"
        return jobs


def workload(
    seed: int, queries: int = 6, others: int = 4, *, costs: bool = True, span_ms: int = 1000
) -> Workload:
    """Three classes, some with deadlines, at about what two workers manage.

    Without ``costs``, none is declared, as on Spark.
    """
    random = Random(seed)

    def declared(name: str, deadlines_s: Sequence[float]) -> tuple[Box, Query]:
        cost_ns = random.randint(20, 200) * 1000 if costs else 0
        qos = QoSGraph.deadline(random.choice(deadlines_s)) if random.random() < 0.7 else None
        return (
            Box(name=name, inputs=("s",), cost_ns=cost_ns),
            Query(name=name, output=name, cls=random.choice("abc"), qos=qos,
                  weight=random.choice([0.2, 1.0])),
        )  # fmt: skip

    pairs = [declared(f"q{i}", (0.05, 0.2, 1.0)) for i in range(queries)]
    # More and less urgent than any that was declared.
    pairs += [declared(f"q{i}", (0.01, 3.0)) for i in range(queries, queries + others)]
    network = Network(
        streams=[Stream(name="s")],
        boxes=[box for box, _ in pairs[:queries]],
        queries=[query for _, query in pairs[:queries]],
        classes=[QueryClass(name=n, priority=p) for n, p in (("a", 5), ("b", 3), ("c", 1))],
    )
    arrivals = []
    for _, query in pairs:
        at_ns = 0
        while (at_ns := at_ns + round(random.expovariate(1 / (30 * MS)))) < span_ms * MS:
            arrivals.append((at_ns, query.name, random.randint(1, 20)))
    return Workload(network, pairs[queries:], sorted(arrivals))


#: Workers, and whether queries ride along with others' jobs.
SYSTEMS = ((1, False), (1, True), (3, True))


def _nothing() -> None:
    """An event at which the policy is asked."""


def treats_newcomers_as_declared(make: Make) -> None:
    """Before anything arrives, adding a query is the same as having declared it.

    This is exact: whatever a policy draws or ranks over all queries at ``attach``, it draws or
    ranks again when one is added before the first plan was made.
    """
    if not make().keeps_learning():
        return
    for workers, rides in SYSTEMS:
        network, others, arrivals = workload(workers, span_ms=500)
        box, query = others[0][0], replace(others[0][1], qos=QoSGraph.deadline(0.01 * workers))
        declared = Jobs(make(), network.with_query(box, query), workers=workers, rides=rides)
        added = Jobs(make(), network, workers=workers, rides=rides)
        for jobs, happens in ((declared, _nothing), (added, partial(added.add, box, query))):
            jobs.at(0, _nothing)
            jobs.at(0, happens)
            Workload(network, others, arrivals).run(jobs)
        assert added.decided == declared.decided, "a newcomer is not treated as a declared query"


def serves_queries_that_come_and_go(make: Make) -> None:
    """Queries come, go and come back changed at any moment: all tuples that wait are worked off,
    and nothing is planned for a query that has gone."""
    if not make().keeps_learning():
        return
    for seed, (workers, rides) in enumerate(SYSTEMS):
        load = workload(20 + seed, costs=bool(seed))
        random = Random(seed)
        jobs = Jobs(make(), load.network, workers=workers, rides=rides)
        present = {q.name for q in load.network.queries}
        declared = {q.name: (load.network.boxes[i], q) for i, q in enumerate(load.network.queries)}
        declared |= {query.name: (box, query) for box, query in load.others}
        at_ns = 0
        for _ in range(40):
            at_ns += random.randint(1, 50) * MS
            name = random.choice(sorted(declared))
            if name in present:
                present.discard(name)
                jobs.at(at_ns, partial(jobs.remove, name))
            else:
                present.add(name)
                box, query = declared[name]
                qos = QoSGraph.deadline(random.uniform(0.01, 2.0))
                query = replace(query, cls=random.choice("abc"), qos=qos)
                jobs.at(at_ns, partial(_come, jobs, box, query))
        load.run(jobs)


def _come(jobs: Jobs, box: Box, query: Query) -> None:
    at = jobs.state.network.query_index.get(query.name)
    if at is None or at in jobs.gone:
        jobs.add(box, query)
    else:  # one of its name still runs and goes when its job has ended
        jobs.at(jobs.now_ns + MS, partial(_come, jobs, box, query))


def keeps_what_it_learned(make: Make) -> None:
    """A query that comes, receives nothing and goes leaves all decisions as they are.

    Exempt are policies for which such a query counts by definition (``counts_idle_queries``),
    because queries divide a share or a goal is a mean over them; theirs are tests of their own.
    """
    if not make().keeps_learning() or make().counts_idle_queries:
        return
    for workers, rides in SYSTEMS:
        load = workload(40 + workers, span_ms=500)
        idle = Query(name="idle", output="idle", cls="b", qos=load.network.queries[0].qos)
        without, visited = (
            Jobs(make(), load.network, workers=workers, rides=rides) for _ in range(2)
        )
        for at_ns in range(100 * MS, 500 * MS, 30 * MS):
            visited.at(at_ns, partial(visited.add, Box(name="idle", inputs=("s",)), idle))
            visited.at(at_ns + 20 * MS, partial(visited.remove, "idle"))
            for asked_ns in (at_ns, at_ns + 20 * MS):  # what is decided may depend on when
                without.at(asked_ns, _nothing)
        for jobs in (without, visited):
            load.run(jobs)
        assert visited.decided == without.decided, "an idle newcomer changed the decisions"


QUERY_LAWS = (
    treats_newcomers_as_declared,
    serves_queries_that_come_and_go,
    keeps_what_it_learned,
)
