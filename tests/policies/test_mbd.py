"""MBD's schedule by exact numbers, and its rules on a system that polls and one that does not."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import Box, ConfigError, Network, Query, QueryClass, Stream
from daybreak.policies.base import Change, Plan, Work
from daybreak.policies.mbd import MbdParams, MulticoreBroadcastDisks
from daybreak.policies.parts.mbd.mbd_schedule import mbd_schedule, query_priorities
from daybreak.policies.parts.mbd.merged_queries import MergedQueries, query_costs_ns


def network(*queries: tuple[str, str, int], shared: tuple[tuple[str, str], ...] = ()) -> Network:
    """Queries of one box: name, class, cost; ``shared`` reads another's box."""
    boxes = [Box(name=n, inputs=("s",), cost_ns=cost) for n, _, cost in queries]
    boxes += [Box(name=n, inputs=(over,), cost_ns=1) for n, over in shared]
    declared = [Query(name=n, output=n, cls=c) for n, c, _ in queries]
    declared += [Query(name=n, output=n, cls="low") for n, _ in shared]
    return Network(
        streams=[Stream(name="s")],
        boxes=boxes,
        queries=declared,
        classes=[QueryClass(name="high", priority=30), QueryClass(name="low", priority=10)],
    )


def attached(
    built: Network, *, polls: bool = True, workers: int = 1, **params: object
) -> tuple[MulticoreBroadcastDisks, SystemState]:
    state = SystemState(built, workers, polls=polls)
    policy = MulticoreBroadcastDisks(MbdParams(**params))  # type: ignore[arg-type]
    policy.attach(state, Work(), seed=1)
    return policy, state


def ran(policy: MulticoreBroadcastDisks, plan: Plan | None) -> str | None:
    return plan and policy.view.network.boxes[plan.steps[0].box].name


def test_priorities_follow_class_and_share_of_cost() -> None:
    """Class 30 with costs 2 and 1, class 10 with one query: raw 20, 10, 10."""
    assert query_priorities([2, 1, 5], [0, 0, 1], [30, 10]) == [2.0, 1.0, 1.0]
    # The multiplier is the largest cost_class / (Pr_class x cost): here (1 + 3) / (10 x 1).
    found = query_priorities([7, 1, 3], [0, 1, 1], [30, 10])
    assert found == pytest.approx([30 * 0.4, 1.0, 3.0])


def test_costs_not_known_yet_count_as_usual() -> None:
    assert query_priorities([0, 0], [0, 1], [30, 10]) == [3.0, 1.0]
    assert query_priorities([4, 0], [0, 0], [30]) == [1.0, 1.0]
    assert query_priorities([1, 1000], [0, 0], [30], 255) == [1.0, 255.0]


def test_ceilings_give_the_slots_and_fractions_the_chance_of_the_first() -> None:
    schedule = mbd_schedule([1.7, 1.3, 3.0, 1.0])
    assert Counter(schedule.units) == {0: 2, 1: 2, 2: 3, 3: 1}
    chances = {u: [] for u in range(4)}  # type: dict[int, list[float]]
    for unit, chance in zip(schedule.units, schedule.chances, strict=True):
        chances[unit].append(chance)
    assert chances[0] == [pytest.approx(0.7), 1.0]
    assert chances[1] == [pytest.approx(0.3), 1.0]
    assert chances[2] == [1.0] * 3, "a whole number is certain"
    assert chances[3] == [1.0], "by the literal rule the cheapest query would never run"


@given(st.lists(st.floats(1.0, 40.0), min_size=1, max_size=8))
def test_expected_runs_per_round_are_the_priorities(priorities: list[float]) -> None:
    schedule = mbd_schedule(priorities)
    expected = [0.0] * len(priorities)
    for unit, chance in zip(schedule.units, schedule.chances, strict=True):
        expected[unit] += chance
    assert expected == pytest.approx(priorities, abs=1e-6)


def test_the_lot_decides_as_often_as_the_fraction_says() -> None:
    # Priorities 3.5 and 1: the first of a's four slots is drawn for.
    built = network(("a", "high", 1), ("b", "low", 1))
    policy, state = attached(built, up=True)
    state.class_priority[:] = [35.0, 10.0]
    policy.on_change(Change("class-priority", 0), 0)
    runs: Counter[str | None] = Counter()
    for _ in range(9_000):
        plan = policy.decide(0, 0)
        runs[ran(policy, plan)] += 1
        policy.on_completion(plan or Plan(()), 0, 0, 0)
    assert policy.schedule.priorities == (3.5, 1.0)
    assert runs["a"] / runs["b"] == pytest.approx(3.5, rel=0.05)


def test_a_running_query_is_skipped_and_runs_once_more() -> None:
    built = network(("a", "high", 1), ("b", "low", 1))  # 3 and 1: the round is a, ab, a
    policy, state = attached(built, workers=2)
    first = policy.decide(0, 0)
    assert ran(policy, first) == "a"
    state.running[built.box_index["a"]] = True
    assert ran(policy, policy.decide(0, 1)) == "b", "a runs elsewhere: skipped, and flagged"
    state.running[built.box_index["a"]] = False
    policy.on_completion(first or Plan(()), 0, 0, 5)
    again = policy.decide(5, 0)
    assert ran(policy, again) == "a", "once more, at once"
    policy.on_completion(again or Plan(()), 0, 0, 9)
    assert ran(policy, policy.decide(9, 0)) == "a", "and then the schedule goes on"


def test_sharing_queries_merge_and_their_priorities_add() -> None:
    built = network(("a", "high", 4), ("b", "low", 1), shared=(("over", "a"),))
    units = MergedQueries(built)
    a, over = built.query_index["a"], built.query_index["over"]
    assert units.of_query[a] == units.of_query[over] != units.of_query[built.query_index["b"]]
    policy, _ = attached(built)
    alone = query_priorities(query_costs_ns(policy.view), [0, 1, 1], [30, 10])
    merged = policy.schedule.priorities[units.of_query[a]]
    assert merged == pytest.approx(alone[a] + alone[over])
    plan = policy.decide(0, 0)
    assert plan is not None
    assert [built.boxes[s.box].name for s in plan.steps] == ["a", "over"]


def test_costs_count_selectivity_and_every_input() -> None:
    built = Network(
        streams=[Stream(name="s"), Stream(name="t")],
        boxes=[
            Box(name="f", inputs=("s",), cost_ns=10, selectivity=0.5),
            Box(name="j", inputs=("f", "t"), cost_ns=100),
        ],
        queries=[Query(name="q", output="j")],
    )
    assert query_costs_ns(SystemState(built)) == [10 + 0.5 * 100 + 100]


def test_without_polling_only_queries_that_hold_tuples_run() -> None:
    built = network(("a", "high", 1), ("b", "low", 1))
    policy, state = attached(built, polls=False)
    assert policy.decide(0, 0) is None
    b = built.box_index["b"]
    state.pending[b] = 3
    policy.on_arrival(b, 3, 1)
    plan = policy.decide(1, 0)
    assert ran(policy, plan) == "b"
    state.pending[b] = 0
    policy.on_completion(plan or Plan(()), 0, 5, 2)
    assert policy.decide(2, 0) is None


def test_riders_are_running_until_their_ride_ends() -> None:
    built = network(("a", "high", 1), ("b", "low", 1))
    policy, state = attached(built, polls=False, workers=2)
    state.pending[:] = [1, 1]
    for b in range(2):
        policy.on_arrival(b, 1, 0)
    plan = policy.decide(0, 0)
    rider = 1 - (plan or Plan(())).steps[0].box
    state.running[:] = [True, True]
    policy.on_withdrawn(rider, 0)
    assert policy.decide(0, 1) is None, "both are under way"
    state.pending[:] = [0, 0]
    state.running[:] = [False, False]
    policy.on_completion(plan or Plan(()), 0, 7, 7)
    policy.on_returned(rider, 3, 7)
    assert policy.decide(7, 1) is None
    state.pending[rider] = 2
    policy.on_arrival(rider, 2, 8)
    assert (policy.decide(8, 1) or Plan(())).steps[0].box == rider


def test_a_query_that_an_earlier_policy_runs_is_left_alone() -> None:
    """After a switch of policies, jobs under way end as they are (Loop.switch)."""
    built = network(("a", "high", 1), ("b", "low", 1))
    state = SystemState(built, 2)
    a = built.box_index["a"]
    state.pending[a], state.running[a] = 5, True
    policy = MulticoreBroadcastDisks()
    policy.attach(state, Work(), seed=1)
    assert policy.decide(0, 1) is None
    state.running[a] = False
    policy.on_arrival(a, 0, 3)
    assert ran(policy, policy.decide(3, 1)) == "a"


def polled(policy: MulticoreBroadcastDisks, now_ns: int) -> None:
    """One whole round."""
    for _ in range(len(policy.schedule.units) + 1):
        policy.on_completion(policy.decide(now_ns, 0) or Plan(()), 0, 0, now_ns)


@pytest.mark.parametrize(
    ("module", "after"), [("dvp", (30, 9)), ("dsp", (30, 9)), ("ivp", (31, 10)), ("isp", (31, 10))]
)
def test_inversion_changes_frequencies_at_the_end_of_a_round(
    module: str, after: tuple[float, ...]
) -> None:
    built = network(("a", "high", 1), ("b", "low", 1))
    policy, _ = attached(built, module=module, warm_up_s=0.001)
    polled(policy, 0)
    policy.on_results(0, [0], [500], 1)
    policy.on_results(1, [0], [200], 1)
    polled(policy, 999_999)
    assert policy.schedule_updates_ns == [], "still warming up"
    polled(policy, 1_000_001)
    assert policy.frequencies == after
    assert policy.schedule_updates_ns == [1_000_001]
    policy.on_results(1, [0], [20_000], 1)
    polled(policy, 2_000_000)
    assert policy.frequencies == after, "no inversion any more"


def test_a_percentile_may_invert_where_the_mean_does_not() -> None:
    built = network(("a", "high", 1), ("b", "low", 1))
    for percentile, updates in ((0, 0), (75, 1)):
        policy, _ = attached(built, module="dsp", warm_up_s=0.0, percentile=percentile)
        polled(policy, 0)
        policy.on_results(0, [0] * 4, [300] * 4, 1)
        policy.on_results(1, [0] * 4, [100, 100, 100, 5_000], 1)
        polled(policy, 10)
        assert len(policy.schedule_updates_ns) == updates


def test_up_follows_priorities_and_classes_only_where_asked() -> None:
    built = network(("a", "high", 1), ("b", "low", 1))
    for up in (True, False):
        policy, state = attached(built, up=up)
        state.class_priority[1] = 60.0
        policy.on_change(Change("class-priority", 1), 5)
        assert policy.schedule.priorities == (3.0, 1.0), "not before the round ends"
        polled(policy, 6)
        assert policy.schedule.priorities == ((1.0, 2.0) if up else (3.0, 1.0))
        state.query_class[1] = 0
        policy.on_change(Change("query-class", 1), 7)
        polled(policy, 8)
        assert policy.schedule.priorities == ((1.0, 1.0) if up else (3.0, 1.0))


def test_s_follows_selectivities_beyond_the_threshold_and_sa_with_the_frequencies() -> None:
    built = Network(
        streams=[Stream(name="s")],
        boxes=[
            Box(name="f", inputs=("s",), cost_ns=1, selectivity=0.5),
            Box(name="g", inputs=("f",), cost_ns=8),
            Box(name="h", inputs=("s",), cost_ns=5),
        ],
        queries=[Query(name="a", output="g", cls="high"), Query(name="b", output="h", cls="high")],
        classes=[QueryClass(name="high", priority=30)],
    )
    policy, state = attached(built, selectivity="s")
    assert policy.schedule.priorities == (1.0, 1.0)
    state.selectivity[0] = 0.54
    polled(policy, 1)
    assert policy.schedule.priorities == (1.0, 1.0)
    state.selectivity[0] = 1.0
    polled(policy, 2)
    assert policy.schedule.priorities == pytest.approx((9 / 5, 1.0))
    plain, state = attached(built)
    state.selectivity[0] = 1.0
    polled(plain, 2)
    assert plain.schedule.priorities == (1.0, 1.0)


@pytest.mark.parametrize(
    "params",
    [{"train": -1}, {"percentile": 100}, {"warm_up_s": -1.0}, {"threshold": 0.0},
     {"selectivity": "sa"}],
)  # fmt: skip
def test_mistaken_parameters_are_named(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        MbdParams(**params)  # type: ignore[arg-type]
