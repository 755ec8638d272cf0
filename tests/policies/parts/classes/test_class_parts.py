"""The small parts of the class-based policies, on numbers one can follow by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, Query, QueryClass, Stream
from daybreak.policies.abd import corrected
from daybreak.policies.base import BasePolicy, Change, Plan, Step, Work
from daybreak.policies.parts.classes.class_turns import ClassBoxes, Credits, QuotaSlice, quotas
from daybreak.policies.parts.classes.priority_shares import box_shares, query_shares
from daybreak.policies.parts.queues.ready import ReadyUnblocked
from daybreak.policies.parts.rates.output_rates import OutputRates
from daybreak.policies.registry import make_policy_with

NAN = math.nan


def network(queries: str = "aabc", priorities: tuple[int, ...] = (60, 30, 10)) -> Network:
    """A query per letter, in the class of that letter: two boxes of 10 µs, the first passes half;
    the query's number adds to its cost."""
    boxes = []
    for i in range(len(queries)):
        cost = 10_000 * (i + 1)
        boxes += [
            Box(name=f"q{i}.1", inputs=(f"s{i}",), cost_ns=cost, selectivity=0.5),
            Box(name=f"q{i}.2", inputs=(f"q{i}.1",), cost_ns=cost),
        ]
    return Network(
        streams=[Stream(name=f"s{i}") for i in range(len(queries))],
        boxes=boxes,
        queries=[Query(name=f"q{i}", output=f"q{i}.2", cls=c) for i, c in enumerate(queries)],
        classes=[QueryClass(name=n, priority=p) for n, p in zip("abcde", priorities, strict=False)],
    )


def attached(policy: BasePolicy, state: SystemState) -> BasePolicy:
    policy.attach(state, Work(), seed=1)
    return policy


def picks(policy: BasePolicy, state: SystemState, count: int, worker: int = 0) -> list[str]:
    """The first boxes of successive plans, while nothing else happens and no time passes."""
    found = []
    for _ in range(count):
        plan = policy.decide(0, worker)
        assert isinstance(plan, Plan)
        found.append(state.network.boxes[plan.steps[0].box].name)
        policy.on_completion(plan, worker, 0, 0)
    return found


# CQC


def test_quotas_of_the_text() -> None:
    assert quotas([6, 3, 1], 20) == [12, 6, 2]


def test_credit_unused_is_dropped_overdrawn_is_owed() -> None:
    account = Credits([12, 6, 2])
    account.ended(0, 5)
    assert account.credit[0] == 12
    account.ended(1, 20)  # 14 over
    assert account.credit[1] == 6 - 14
    assert not account.begins(1)
    assert account.credit[1] == -2
    assert not account.begins(1)
    assert account.credit[1] == 4
    assert account.begins(1)


def test_a_debt_carried_over_is_not_forgotten() -> None:
    """T = 6 and c = 4 left from a debt: running for 9 overdraws by 5, not by 9 - 6."""
    account = Credits([6])
    account.credit[0] = 4
    account.ended(0, 9)
    assert account.credit[0] == 6 - (9 - 4)


def test_cqc_gives_each_class_its_quota_in_turn() -> None:
    """Plans of 10 µs, all classes always ready, k = 100 µs: 60, 30 and 10 µs in each round."""
    state = SystemState(network("abc"))
    state.pending[:] = [5] * 6
    policy = attached(make_policy_with("cqc", period_us=100), state)
    served, now = "", 0
    for _ in range(20):
        plan = policy.decide(now, 0)
        assert isinstance(plan, Plan)
        query = state.network.box_queries[plan.steps[0].box][0]
        served += state.network.queries[query].cls
        state.tuples_in[plan.steps[0].box] += 1
        now += 10_000
        policy.on_completion(plan, 0, 10_000, now)
    assert served == "aaaaaabbbc" * 2


def test_cqc_bounds_a_box_by_what_is_left_of_its_quota() -> None:
    """Of k = 1000 µs the one class has all: 100 of 200 tuples of 10 µs."""
    state = SystemState(network("a", (1,)))
    state.pending[:] = [200, 0]
    policy = attached(make_policy_with("cqc", period_us=1000), state)
    assert policy.decide(0, 0) == Plan((Step(0, 100),))
    policy.on_completion(Plan((Step(0, 100),)), 0, 10_000, 10_000)
    state.tuples_in[0] += 1
    state.pending[1] = 3
    policy.on_arrival(1, 3, 10_000)
    assert policy.decide(10_000, 0) == Plan((Step(1),)), "three fit"
    state.pending[:] = [200, 0]
    whole = attached(make_policy_with("cqc", period_us=1000, whole_queues=True), state)
    assert whole.decide(0, 0) == Plan((Step(0),))


def test_cqc_lets_one_worker_hold_a_class() -> None:
    state = SystemState(network("ab"), workers=3)
    state.pending[:] = [5] * 4
    policy = attached(make_policy_with("cqc"), state)
    plans = [policy.decide(0, worker) for worker in range(3)]
    assert [plan is None for plan in plans] == [False, False, True], "two classes, two workers"


# HR


def test_output_rates_by_hand() -> None:
    """q0: at the first box half a result for 10 + 5 µs; the output takes over its input's rate."""
    rates = OutputRates(SystemState(network("ab"))).rates
    assert rates == pytest.approx([0.5 / 15_000, 0.5 / 15_000, 0.5 / 30_000, 0.5 / 30_000])
    weighted = OutputRates(SystemState(network("ab")), by_priority=True).rates
    assert weighted == pytest.approx([60 * rates[0], 60 * rates[1], 30 * rates[2], 30 * rates[3]])


def test_hr_takes_the_cheaper_query_and_leaves_sources_for_last() -> None:
    state = SystemState(network("ba", (90, 30)))  # q0 is the cheaper, q1 the more important
    state.pending[:] = [1, 1, 1, 1]
    assert picks(attached(make_policy_with("hr"), state), state, 1) == ["q0.2"]
    assert picks(attached(make_policy_with("weighted-hr"), state), state, 1) == ["q1.2"]
    state.pending[:] = [1, 0, 1, 1]
    policy = attached(make_policy_with("hr", own_sources=True), state)
    assert picks(policy, state, 1) == ["q1.2"]
    state.pending[:] = [1, 0, 1, 0]
    policy = attached(make_policy_with("hr", own_sources=True), state)
    plan = policy.decide(0, 0)
    assert plan == Plan((Step(0), Step(2)))


def test_a_box_that_takes_nothing_is_left_alone_until_something_arrives() -> None:
    state = SystemState(network("ab"))
    state.pending[:] = [1, 0, 1, 0]
    ready = ReadyUnblocked(state)
    for box in (0, 2):
        plan = Plan((Step(box),))
        ready.taken(plan)
        state.tuples_in[2] += 1  # box 2 takes a tuple, box 0 none
        ready.released(plan)
    assert ready.ready == {2}
    ready.arrived(0, 1, 0)
    assert ready.ready == {0, 2}
    plan = Plan((Step(0), Step(2)))
    ready.taken(plan)
    ready.released(plan)
    assert ready.ready == set()
    ready.retry()
    assert ready.ready == {0, 2}


# ABD


def test_the_slice_grows_by_overrun_and_need_and_shrinks_by_the_last_growth() -> None:
    quota = QuotaSlice(50)
    quota.round_ended()
    assert quota.slice_ns == 50
    quota.fell_short(5, 20)
    quota.fell_short(0, 10)
    assert quota.slice_ns == 85
    quota.round_ended()  # it grew in this round
    assert quota.slice_ns == 85
    quota.round_ended()
    quota.round_ended()
    assert quota.slice_ns == 65
    for _ in range(20):
        quota.round_ended()
    assert quota.slice_ns == 5, "never below its last step"


@pytest.mark.parametrize(
    ("before", "response", "after"),
    [
        ((5, 4, 3), (1.0, 2.0, 3.0), (5, 4, 3)),
        ((5, 4, 3), (2.0, 1.0, 3.0), (5, 3, 3)),
        ((5, 4, 1), (1.0, 3.0, 2.0), (5, 5, 1)),
        # Both are slower than the next: no guard on the order.
        ((5, 4, 1), (3.0, 2.0, 1.0), (5, 4, 1)),
        ((5, 4, 3), (NAN, 1.0, NAN), (5, 4, 3)),
        ((5, 4, 3), (2.0, 2.0, 2.0), (5, 4, 3)),
    ],
)
def test_algorithm_3(
    before: tuple[int, ...], response: tuple[float, ...], after: tuple[int, ...]
) -> None:
    assert tuple(corrected(before, (50, 40, 30), response)) == after


@pytest.mark.parametrize(
    ("response", "after"),
    [
        ((1.0, 2.0, 3.0), (50, 40, 30)),
        ((2.0, 1.5, 3.0), (50, 30, 30)),  # a quarter too fast
        ((2.0, 1.99, 3.0), (50, 39, 30)),  # never less than a slot
        ((9e9, 1.0, 3.0), (50, 1, 30)),  # and never its last
        ((2.0, 1.0, 0.5), (50, 20, 15)),
    ],
)
def test_corrections_by_share(response: tuple[float, ...], after: tuple[int, ...]) -> None:
    assert tuple(corrected((50, 40, 30), (50, 40, 30), response, by_share=True)) == after


def test_abd_follows_the_ruler_one_pass_per_slot() -> None:
    """Priorities 3, 2, 1: AB|AC|AB without borders, each class one box ready."""
    state = SystemState(network("abc", (3, 2, 1)))
    state.pending[:] = [1, 0] * 3
    policy = attached(make_policy_with("abd", slice_us=1e6), state)
    assert picks(policy, state, 6) == ["q0.1", "q1.1", "q0.1", "q2.1", "q0.1", "q1.1"]


def test_abd_takes_what_fits_into_its_slice_and_goes_on_with_the_next_box() -> None:
    """100 tuples of 10 µs do not fit into 250 µs: 25 do; then the slice has grown by the rest."""
    state = SystemState(network("a", (1,)))
    state.pending[:] = [100, 3]
    policy = attached(make_policy_with("abd", slice_us=250), state)
    plan = policy.decide(0, 0)
    assert plan == Plan((Step(0, limit=25),))
    policy.on_completion(plan, 0, 250_000, 250_000)
    assert policy.quota.slice_ns == 250_000 + 75 * 10_000  # type: ignore[attr-defined]
    assert policy.decide(250_000, 0) == Plan((Step(1),))


def test_abd_corrects_its_slots_after_a_round_and_says_so() -> None:
    state = SystemState(network("ab", (3, 2)))
    state.pending[:] = [1, 0, 1, 0]
    policy = attached(make_policy_with("abd", slice_us=1e6), state)
    policy.on_results(0, [0], [9], 1)
    policy.on_results(1, [0], [5], 1)
    assert picks(policy, state, 5) == ["q0.1", "q1.1", "q0.1", "q0.1", "q1.1"]
    assert policy.schedule_updates_ns == []
    assert picks(policy, state, 4) == ["q0.1", "q0.1", "q1.1", "q0.1"], "3 to 1 from now on"
    assert policy.schedule_updates_ns == [0]


def test_abd_follows_a_changed_priority_at_the_end_of_the_round() -> None:
    state = SystemState(network("ab", (3, 2)))
    state.pending[:] = [1, 0, 1, 0]
    policy = attached(make_policy_with("abd", slice_us=1e6), state)
    picks(policy, state, 1)
    state.class_priority[1] = 6.0
    policy.on_change(Change("class-priority", 1), 0)
    picks(policy, state, 4)
    assert picks(policy, state, 9).count("q1.1") == 6


# Baselines


def test_mrr_and_morr_go_round() -> None:
    state = SystemState(network("ab"))
    state.pending[:] = [1, 1, 1, 1]
    assert picks(attached(make_policy_with("mrr"), state), state, 3) == ["q0.1", "q1.1", "q0.1"]
    policy = attached(make_policy_with("morr"), state)
    assert picks(policy, state, 5) == ["q0.1", "q0.2", "q1.1", "q1.2", "q0.1"]


def test_where_boxes_are_polled_empty_ones_take_their_turn_too() -> None:
    state = SystemState(network("ab"), polls=True)
    assert picks(attached(make_policy_with("mrr"), state), state, 2) == ["q0.1", "q1.1"]
    assert attached(make_policy_with("hr"), state).decide(0, 0) is None


def test_mprr_takes_a_share_of_the_input_queue() -> None:
    state = SystemState(network("ab", (60, 30)))
    state.pending[:] = [1, 1, 1, 1]
    policy = attached(make_policy_with("mprr"), state)
    assert policy.decide(0, 0) == Plan((Step(0, None, 60 / 90), Step(1)), superbox=True)
    assert policy.decide(0, 0) == Plan((Step(2, None, 30 / 90), Step(3)), superbox=True)


def test_tickets_by_priority_and_cost() -> None:
    """Class a holds q0 and q1, whose costs are 1 : 2; a box's part is its part of the cost."""
    state = SystemState(network("aab", (60, 30)))
    assert query_shares(state) == pytest.approx([20, 40, 30])
    # Half of what enters reaches the second box: 2 : 1.
    assert box_shares(state) == pytest.approx(
        [20 * 2 / 3, 20 / 3, 40 * 2 / 3, 40 / 3, 30 * 2 / 3, 30 / 3]
    )


def test_lotteries_follow_their_tickets() -> None:
    state = SystemState(network("ab", (60, 20)))
    state.pending[:] = [1, 1, 1, 1]
    drawn = picks(attached(make_policy_with("ml"), state), state, 2000)
    assert drawn.count("q0.1") == pytest.approx(1500, abs=4 * math.sqrt(2000 * 0.25 * 0.75))
    drawn = picks(attached(make_policy_with("mol"), state), state, 2000)
    assert drawn.count("q0.1") == pytest.approx(1000, abs=4 * math.sqrt(500))


def _first_boxes(policy: BasePolicy, state: SystemState, workers: int) -> list[str | None]:
    found: list[str | None] = []
    for worker in range(workers):
        plan = policy.decide(0, worker)
        if not isinstance(plan, Plan):
            found.append(None)
            continue
        found.append(state.network.boxes[plan.steps[0].box].name)
        for step in plan.steps:
            state.running[step.box] = True
    return found


def test_pct_has_a_thread_per_class_and_leaves_cores_idle() -> None:
    state = SystemState(network("aabb", (2, 1)), workers=4, polls=True)
    policy = attached(make_policy_with("pct"), state)
    assert _first_boxes(policy, state, 4) == ["q0.1", "q2.1", None, None]


def test_pct_s_splits_the_most_important_classes_first() -> None:
    state = SystemState(network("aabb", (2, 1)), workers=3, polls=True)
    policy = attached(make_policy_with("pct-s"), state)
    assert _first_boxes(policy, state, 3) == ["q0.1", "q1.1", "q2.1"]


def test_more_threads_than_cores_take_turns() -> None:
    state = SystemState(network("abc"), polls=True)
    policy = attached(make_policy_with("pct"), state)
    assert picks(policy, state, 5) == ["q0.1", "q1.1", "q2.1", "q0.1", "q1.1"]


def test_a_shared_box_counts_in_the_highest_class_it_serves() -> None:
    boxes = [Box(name="x", inputs=("s",)), Box(name="y", inputs=("x",))]
    shared = Network(
        streams=[Stream(name="s")],
        boxes=boxes,
        queries=[Query(name="low", output="x", cls="b"), Query(name="high", output="y", cls="a")],
        classes=[QueryClass(name="a", priority=2), QueryClass(name="b", priority=1)],
    )
    state = SystemState(shared)
    found = ClassBoxes(state)
    assert found.boxes == [[0, 1], []]
    state.class_priority[:] = [1.0, 2.0]
    found.refresh()
    assert found.boxes == [[1], [0]]


@given(st.integers(1, 20), st.integers(0, 300), st.integers(0, 3000))
def test_many_idle_turns_at_once_are_as_many_one_by_one(quota: int, turns: int, owed: int) -> None:
    once, each = Credits([quota]), Credits([quota])
    once.credit[0] = each.credit[0] = quota - owed
    begun = 0
    for _ in range(turns):
        if each.begins(0):
            each.ended(0, 0)
            begun += 1
    assert once.idle(0, turns) == begun
    assert (once.credit, once.debt(0)) == (each.credit, each.debt(0))
