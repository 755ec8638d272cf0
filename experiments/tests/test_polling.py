"""The polling system, by exact instants; noise is off where instants are compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from daybreak.model import Arrivals, Box, ConfigError, Network, Overheads, Query, Stream
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule
from daybreak_experiments.polling.deliveries import Deliveries, through_sources
from daybreak_experiments.polling.simulator import Event, System, simulate_polling

EXACT = System(noise=0.0)


class Cycle(BasePolicy):
    """Calls every query in turn, whether or not it holds anything."""

    name = "cycle"

    def __init__(self, *, superbox: bool = True, quota_ns: int | None = None) -> None:
        super().__init__()
        self.superbox, self.quota_ns = superbox, quota_ns
        self.changes: list[Change] = []

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._turn = 0

    def on_change(self, change: Change, now_ns: int) -> None:
        self.changes.append(change)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        self.work.invocations += 1
        trees = self.view.network.query_boxes
        for _ in trees:
            boxes = trees[self._turn]
            self._turn = (self._turn + 1) % len(trees)
            if not any(self.view.running[b] for b in boxes):
                return Plan(tuple(Step(b) for b in boxes), self.superbox, self.quota_ns)
        return None


def box(name: str, *inputs: str, cost: int = 10, passes: float = 1.0) -> Box:
    return Box(name=name, inputs=inputs, cost_ns=cost, call_ns=100, selectivity=passes)


def network(*boxes: Box, queries: tuple[str, ...], streams: tuple[str, ...] = ("s",)) -> Network:
    return Network(
        streams=[Stream(name=s, arrivals=Arrivals(rate_per_s=1.0)) for s in streams],
        boxes=boxes,
        queries=[Query(name=q, output=q) for q in queries],
    )


def arriving(*per_stream: list[int]) -> Deliveries:
    schedule = ArrivalSchedule.merge([np.array(a, dtype=np.int64) for a in per_stream])
    return Deliveries.at_once(schedule)


def left(report: RunReport, query: str) -> list[tuple[int, int]]:
    mine = report.outputs.query == report.queries.index(query)
    return list(
        zip(
            report.outputs.arrival_ns[mine].tolist(),
            report.outputs.departure_ns[mine].tolist(),
            strict=True,
        )
    )


def test_a_call_pays_its_set_up_with_or_without_tuples() -> None:
    chained = network(box("a", "s"), box("b", "a"), queries=("b",))
    report = simulate_polling(chained, Cycle(), arriving([1, 350]), EXACT)
    # A round finds nothing and ends at 200. The next takes 100 + 10 at either box; what arrives
    # meanwhile waits for the pick at 420.
    assert left(report, "b") == [(1, 420), (350, 640)]
    late = simulate_polling(chained, Cycle(), arriving([1, 700]), EXACT)
    assert left(late, "b") == [(1, 420), (700, 420 + 2 * 200 + 220)]
    assert late.spent.call_ns == 10 * 100
    assert late.spent.idle_ns == 0


def test_decisions_are_charged_one_after_the_other() -> None:
    two = network(box("a", "s"), box("b", "t"), queries=("a", "b"), streams=("s", "t"))
    system = replace(EXACT, overheads=Overheads(fixed_ns=7))
    report = simulate_polling(two, Cycle(), arriving([1], [1]), system, workers=2)
    # Empty calls end at 107 and 114; each is followed by a decision of 7.
    assert left(report, "a") == [(1, 107 + 7 + 110)]
    assert left(report, "b") == [(1, 114 + 7 + 110)]


def test_a_list_of_boxes_runs_step_by_step_and_stops_at_its_quota() -> None:
    chained = network(box("a", "s"), box("b", "a"), queries=("b",))
    by_steps = Cycle(superbox=False)
    # What arrives before the second step begins is seen by it, unlike in a superbox.
    two_inputs = network(box("a", "s"), box("b", "s", "a"), queries=("b",))
    seen = left(simulate_polling(two_inputs, by_steps, arriving([50]), EXACT), "b")
    assert seen == [(50, 100 + 110), (50, 210 + 110 + 110)]
    assert left(simulate_polling(chained, by_steps, arriving([1]), EXACT), "b") == [(1, 420)]
    # The first plan finds nothing and ends at 200; the second ends with its first box, since
    # 110 is over the quota; the third calls a in vain, and then b.
    held_up = Cycle(superbox=False, quota_ns=105)
    report = simulate_polling(chained, held_up, arriving([1]), EXACT)
    assert left(report, "b") == [(1, 310 + 100 + 110)]


def test_a_join_waits_until_the_other_input_has_reached_the_tuple() -> None:
    joined = network(
        box("l", "s"), box("r", "t"), box("j", "l", "r"), queries=("j",), streams=("s", "t")
    )
    waits = replace(EXACT, waits={joined.box_index["j"]})
    arrivals = arriving([1, 5, 2_000], [1_000, 3_000])
    free = dict(left(simulate_polling(joined, Cycle(), arrivals, EXACT), "j"))
    held = dict(left(simulate_polling(joined, Cycle(), arrivals, waits), "j"))
    assert max(free[1], free[5]) < 1_000, "without the rule nobody waits"
    assert min(held[1], held[5]) > 1_000, "the other input had reached 1000 only then"
    assert held[1_000] > 2_000
    assert held[2_000] > 3_000
    assert set(held) == set(free), "nothing is lost: the end of the input releases the rest"


def test_an_aggregate_may_hold_its_newest_tuple() -> None:
    plain = network(box("a", "s"), queries=("a",))
    arrivals = arriving([0, 1_000, 1_001])
    holding = simulate_polling(plain, Cycle(), arrivals, replace(EXACT, holds={0}))
    departures = dict(left(holding, "a"))
    assert departures[0] >= 1_000, "held until the next one came"
    assert len(departures) == 3, "and let go when the input ended"


def test_a_call_on_another_core_costs_more() -> None:
    """Three queries in turn on two cores: each is on the other core every time."""
    three = network(*(box(n, "s") for n in "abc"), queries=("a", "b", "c"))
    arrivals = arriving([1, 50_000])
    warm = simulate_polling(three, Cycle(), arrivals, EXACT, workers=2)
    cold = simulate_polling(three, Cycle(), arrivals, replace(EXACT, cold_ns=900), workers=2)
    assert warm.spent.call_ns == sum(warm.boxes["calls"]) * 100
    calls = sum(cold.boxes["calls"])
    moves, rest = divmod(cold.spent.call_ns - calls * 100, 900)
    assert not rest
    assert 0.9 * calls < moves <= calls - 3, "all but the first calls, where turns may coincide"
    alone = simulate_polling(three, Cycle(), arrivals, replace(EXACT, cold_ns=900))
    assert alone.spent.call_ns == sum(alone.boxes["calls"]) * 100, "one core is always warm"


def test_the_workload_changes_during_the_run() -> None:
    plain = network(box("a", "s", passes=0.5), queries=("a",))
    events = [Event(10_000, "class-priority", 0, 7.0), Event(20_000, "selectivity", 0, 0.0)]
    policy = Cycle()
    arrivals = arriving(list(range(0, 40_000, 50)))
    report = simulate_polling(plain, policy, arrivals, EXACT, events=events)
    assert report.priorities == (7.0,)
    assert policy.changes == [Change("class-priority", 0)]
    arrived = [a for a, _ in left(report, "a")]
    assert 0.3 < sum(a < 20_000 for a in arrived) / 400 < 0.7
    assert max(arrived) < 20_000


def test_every_tuple_is_answered_once_and_a_seed_gives_one_run() -> None:
    shared = network(
        box("a", "s"), box("b", "a"), box("c", "a"), box("d", "t"),
        queries=("b", "c", "d"), streams=("s", "t"),
    )  # fmt: skip
    arrivals = Deliveries.at_once(draw_schedule(shared, 400.0, seed=3))

    class OneByOne(Cycle):
        """Boxes by themselves, so that two workers pass tuples to each other."""

        def decide(self, now_ns: int, worker: int) -> Plan | None:
            self.work.invocations += 1
            boxes = len(self.view.network.boxes)
            for _ in range(boxes):
                self._turn = (self._turn + 1) % boxes
                if not self.view.running[self._turn]:
                    return Plan((Step(self._turn),))
            return None

    fast = replace(arrivals, at_ns=arrivals.at_ns // 10**7, arrival_ns=arrivals.arrival_ns // 10**7)
    runs = [
        simulate_polling(shared, OneByOne(), fast, System(), workers=2, seed=5) for _ in range(2)
    ]
    counts = np.bincount(fast.stream)
    assert [s.count for s in runs[0].by_query().values()] == [counts[0], counts[0], counts[1]]
    assert np.array_equal(runs[0].outputs.departure_ns, runs[1].outputs.departure_ns)
    assert (runs[0].response_s > 0).all(), "nothing is worked on before it was produced"


def test_sources_hand_over_when_their_turn_comes() -> None:
    schedule = ArrivalSchedule.merge([np.array([0, 1_000_001]), np.array([1_000_001])])
    handed = through_sources(schedule, [0, 1], poll_ns=100, tuple_ns=500)
    assert handed.arrival_ns.tolist() == [0, 1_000_001, 1_000_001]
    delay = handed.at_ns - handed.arrival_ns
    assert (delay >= 500).all()
    assert (delay <= 500 + 2 * 101).all()
    twice = through_sources(schedule, [0, 1], cores=2, poll_ns=100, tuple_ns=500)
    assert twice.at_ns.max() <= handed.at_ns.max()
    busy = ArrivalSchedule.merge([np.arange(0, 100_000, 400)])
    with pytest.raises(ConfigError, match="source cores"):
        through_sources(busy, [0])
