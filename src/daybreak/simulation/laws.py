"""Laws every policy must obey, as checks that run in virtual time.

They run against every registered policy in our own tests; an author of a policy runs them too:

    from daybreak.simulation.laws import LAWS
    for law in LAWS:
        law(lambda: MyPolicy())

Each check raises AssertionError (or EngineBug) with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from random import Random

import numpy as np

from daybreak.engine.state import SystemState
from daybreak.model import Arrivals, Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.model.overheads import OVERHEADS
from daybreak.policies.base import BasePolicy, Change, Decision, Plan, View, Work
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule, load_scale
from daybreak.simulation.clock_laws import CLOCK_LAWS
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.limit_laws import LIMIT_LAWS
from daybreak.simulation.loop import SimulationLoop
from daybreak.simulation.query_laws import QUERY_LAWS, Make
from daybreak.simulation.simulate import simulate


def busy_network(seed: int = 7, queries: int = 8, order: int = 0) -> Network:
    """A random network with shared boxes, three classes, QoS graphs and filters.

    ``order`` shuffles the order in which everything is listed, nothing else.
    """
    random = Random(seed)
    classes = [QueryClass(name=n, priority=p) for n, p in (("a", 5), ("b", 3), ("c", 1))]
    streams = [
        Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=random.uniform(50, 150), burst=2))
        for i in range(3)
    ]
    boxes: list[Box] = []
    declared: list[Query] = []
    for q in range(queries):
        source = f"s{q % 3}"
        for depth in range(random.randint(1, 4)):
            boxes.append(
                Box(
                    name=f"q{q}b{depth}",
                    inputs=(source,),
                    kind="filter",
                    cost_ns=random.randint(50_000, 400_000),
                    selectivity=random.choice([0.3, 0.8, 1.0, 1.5]),
                )
            )
            source = f"q{q}b{depth}"
        qos = QoSGraph.deadline(random.uniform(0.01, 0.5)) if q % 3 else None
        declared.append(Query(name=f"q{q}", output=source, cls="abc"[q % 3], qos=qos))
    # One query reads another's output: its boxes are shared.
    boxes.append(Box(name="shared", inputs=(declared[0].output,), cost_ns=100_000))
    declared.append(Query(name="over", output="shared", cls="b"))
    shuffle = Random(order)
    for items in (classes, streams, boxes, declared):
        if order:
            shuffle.shuffle(items)
    return Network(streams=streams, boxes=boxes, queries=declared, classes=classes)


#: A day of 2026 in ns since 1970: floats skip instants there.
LATE_NS = 1_790_000_000_123_456_789


def _run(make: Make, network: Network, workers: int = 1, duration_s: float = 1.0) -> RunReport:
    schedule = draw_schedule(network, duration_s, seed=3)
    return simulate(
        network, make(), schedule, overheads=OVERHEADS["light"], workers=workers, seed=11
    )


def works_off_everything(make: Make) -> None:
    """It plans only free boxes that hold tuples, and leaves nothing behind when input ends."""
    for workers in (1, 3):
        report = _run(make, busy_network(), workers)  # the loop refuses what cannot run
        assert sum(report.boxes["pending"]) == 0, "tuples were left in queues"
        assert report.manifest["arrivals"] > 0


def keeps_to_limits(make: Make) -> None:
    """A step never names more than there is to take, nor a box twice at once."""

    class Checked(_Forwarding):
        def decide(self, now_ns: int, worker: int) -> Decision:
            plan = self.inner.decide(now_ns, worker)
            for step in plan.steps if isinstance(plan, Plan) else ():
                assert step.limit is None or step.limit >= 1, f"limit {step.limit}"
                assert 0 < step.fraction <= 1, f"fraction {step.fraction}"
            return plan

    _run(lambda: Checked(make()), busy_network(), workers=2)


def is_repeatable(make: Make) -> None:
    """The same seed gives the same run, to the tuple."""
    assert_same(_run(make, busy_network()), _run(make, busy_network()))


def ignores_listing_order(make: Make) -> None:
    """Ties break on names, never on the order in which things were declared."""
    assert_same(_run(make, busy_network()), _run(make, busy_network(order=5)))


def leaves_the_view_alone(make: Make) -> None:
    """What a policy is shown, it does not change."""

    class Watched(_Forwarding):
        def decide(self, now_ns: int, worker: int) -> Decision:
            before = _snapshot(self.view)
            plan = self.inner.decide(now_ns, worker)
            assert _snapshot(self.view) == before, "decide() changed what it was shown"
            return plan

    _run(lambda: Watched(make()), busy_network(queries=4), duration_s=0.3)


def bears_any_clock(make: Make) -> None:
    """It does not matter when the clock began: on Spark, instants count from 1970."""
    network = busy_network()
    schedule = draw_schedule(network, 1.0, seed=3)
    late = replace(schedule, at_ns=schedule.at_ns + LATE_NS)
    means = []
    for arrivals in (schedule, late):
        report = simulate(network, make(), arrivals, overheads=OVERHEADS["light"], seed=11)
        assert sum(report.boxes["pending"]) == 0, "tuples were left in queues"
        means.append(report.overall().mean_s)
    # Ties may break otherwise where instants are rounded.
    assert 0.8 < means[1] / means[0] < 1.25, f"mean response {means[0]} s, late {means[1]} s"


def survives_changes(make: Make) -> None:
    """Priorities, classes and weights may change at any moment."""
    network = busy_network()
    schedule = draw_schedule(network, 1.0, seed=3)
    state = SystemState(network)
    monitor = Monitor(network)
    policy = make()
    monitor.tell_of_results(policy)
    executor = VirtualExecutor(state, schedule, monitor, OVERHEADS["light"])
    loop = SimulationLoop(state, policy, executor, seed=1)
    random = Random(4)
    while True:
        loop.dispatch()
        if not executor.advance(loop):
            break
        if random.random() < 0.05:
            loop.changed(_random_change(state, random), executor.now_ns)
    assert sum(state.pending) == 0


def starves_nothing_if_it_says_so(make: Make) -> None:
    """Under lasting overload, every query still gets results, early and late.

    Trains are kept short, so that this is about who is chosen: with whole queues, rounds grow
    with the backlog, and any policy serves everybody ever more rarely.
    """
    if not make().starves_nothing:
        return
    network = busy_network()
    scale = load_scale(network, load=1.5, workers=1)
    schedule = draw_schedule(network, 2.0, seed=3, scale=scale)
    report = simulate(network, _ShortTrains(make()), schedule, seed=2)
    last_arrival = int(schedule.at_ns[-1])
    for q, name in enumerate(report.queries):
        left = report.outputs.departure_ns[report.outputs.query == q]
        assert (left < last_arrival / 2).any(), f"{name} had no result early in the overload"
        late = (left >= last_arrival / 2) & (left < last_arrival)
        assert late.any(), f"{name} had no result late in the overload"


LAWS: Sequence[Callable[[Make], None]] = (
    works_off_everything,
    keeps_to_limits,
    is_repeatable,
    ignores_listing_order,
    leaves_the_view_alone,
    bears_any_clock,
    survives_changes,
    starves_nothing_if_it_says_so,
    *QUERY_LAWS,
    *LIMIT_LAWS,
    *CLOCK_LAWS,
)


def assert_same(one: RunReport, other: RunReport) -> None:
    """Two runs agree on every result and on where time went."""
    assert one.queries == other.queries
    assert np.array_equal(one.outputs.query, other.outputs.query), "other results"
    assert np.array_equal(one.outputs.departure_ns, other.outputs.departure_ns), "other times"
    assert one.spent == other.spent


class _Forwarding(BasePolicy):
    """Passes everything on to a policy under test."""

    name = "forwarding"
    watches_results = True

    def __init__(self, inner: BasePolicy) -> None:
        super().__init__()
        self.inner = inner

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.inner.attach(view, work, seed)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.inner.on_arrival(box, count, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.inner.on_completion(plan, worker, cost_ns, now_ns)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.inner.on_withdrawn(box, now_ns)

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        self.inner.on_returned(box, cost_ns, now_ns)

    def on_change(self, change: Change, now_ns: int) -> None:
        self.inner.on_change(change, now_ns)

    def on_results(
        self, query: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int
    ) -> None:
        self.inner.on_results(query, arrivals_ns, departures_ns, tuples)


class _ShortTrains(_Forwarding):
    """Lets every box take five tuples at most."""

    _given: Decision = None

    def decide(self, now_ns: int, worker: int) -> Decision:
        plan = self._given = self.inner.decide(now_ns, worker)
        if not isinstance(plan, Plan):
            return plan
        return plan._replace(
            steps=tuple(s._replace(limit=min(s.limit or 5, 5)) for s in plan.steps)
        )

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        given = self._given if isinstance(self._given, Plan) else plan
        self.inner.on_completion(given, worker, cost_ns, now_ns)


def _snapshot(view: View) -> list[list[float]]:
    shown = (
        view.pending, view.head_ns, view.arrival_sum_ns, view.running, view.cost_ns,
        view.selectivity, view.class_priority, view.query_class, view.query_weight,
    )  # fmt: skip
    return deepcopy([list(values) for values in shown])


def _random_change(state: SystemState, random: Random) -> Change:
    classes, queries = len(state.class_priority), len(state.query_class)
    what = random.choice(["class-priority", "query-class", "weight"])
    if what == "class-priority":
        subject = random.randrange(classes)
        state.class_priority[subject] = float(random.randint(1, 60))
        return Change("class-priority", subject)
    subject = random.randrange(queries)
    if what == "query-class":
        state.query_class[subject] = random.randrange(classes)
        return Change("query-class", subject)
    state.query_weight[subject] = random.uniform(0.1, 1.0)
    return Change("weight", subject)
