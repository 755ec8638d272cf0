"""FAS-MCQ and RB-MCQ: the formulas of the paper, and whom they choose."""

from collections.abc import Sequence
from math import exp, log
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.state import SystemState
from daybreak.model import ConfigError, Network, Query, Stream, chain
from daybreak.policies.base import Change, Plan, Work
from daybreak.policies.fas_mcq import FreshnessAware
from daybreak.policies.fas_mcq_auto import AutoBeta
from daybreak.policies.parts.priorities.knee import Knee, drained
from daybreak.policies.parts.priorities.prioritised import PrioritisedQueries
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule, draw_schedule
from daybreak.simulation.laws import assert_same, busy_network
from daybreak.simulation.simulate import simulate
from daybreak_experiments.fas import testbed


def queries(
    *chains: tuple[Sequence[int], Sequence[float]], weights: Sequence[float] = ()
) -> Network:
    return Network(
        streams=[Stream(name="s")],
        boxes=[
            b
            for q, (costs, passes) in enumerate(chains)
            for b in chain(f"q{q}", "s", costs, passes)
        ],
        queries=[
            Query(name=f"q{q}", output=f"q{q}.{len(costs)}", weight=weights[q] if weights else 1.0)
            for q, (costs, _) in enumerate(chains)
        ],
    )


def attached(policy: PrioritisedQueries, network: Network, pending: Sequence[int]) -> SystemState:
    """The policy sees so many updates pending at each query's first box."""
    state = SystemState(network)
    for q, boxes in enumerate(network.query_boxes):
        state.pending[boxes[0]] = pending[q]
    policy.attach(state, Work(), 1)
    return state


def first(policy: PrioritisedQueries) -> str:
    plan = policy.decide(0, 0)
    assert plan is not None
    return policy.view.network.boxes[plan.steps[0].box].name.split(".")[0]


def fas(**params: object) -> FreshnessAware:
    policy = make_policy_with("fas-mcq", **params)
    assert isinstance(policy, FreshnessAware)
    return policy


def rb() -> PrioritisedQueries:
    policy = make_policy_with("rb-mcq")
    assert isinstance(policy, PrioritisedQueries)
    return policy


@settings(max_examples=60)
@given(
    costs=st.lists(st.integers(1, 10**6), min_size=3, max_size=3),
    passes=st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3),
    pending=st.integers(1, 5000),
    beta=st.floats(0, 1),
    weight=st.floats(0.01, 1),
)
def test_the_priority_is_that_of_equations_11_to_15(
    costs: list[int], passes: list[float], pending: int, beta: float, weight: float
) -> None:
    (c1, c2, c3), (s1, s2, s3) = costs, passes
    selectivity, average = s1 * s2 * s3, c1 + c2 * s1 + c3 * s1 * s2
    policy = fas(beta=beta)
    attached(policy, queries((costs, passes), weights=[weight]), [pending])
    power = pending**beta
    fresh = exp(power * log(1 - selectivity)) if selectivity < 1 else 0.0
    expected = weight * (1 - fresh) / (power * average)
    assert policy.priority(0) == pytest.approx(expected, rel=1e-9)
    rates = rb()
    attached(rates, queries((costs, passes)), [pending])
    assert rates.priority(0) == pytest.approx(selectivity / average)


SAME = ([10, 10], [0.5, 0.5])


@pytest.mark.parametrize(
    ("network", "pending", "chosen"),
    [
        (queries(([10, 20], [0.5, 0.5]), SAME), [3, 3], "q1"),  # 1. the lowest cost
        (queries(SAME, SAME), [4, 2], "q1"),  # 2. the fewest pending updates
        (queries(SAME, ([10, 10], [0.5, 0.9])), [3, 3], "q1"),  # 3. the likeliest to be stale
        (queries(SAME, SAME), [3, 3], "q0"),  # a tie goes by name
        (queries(SAME, SAME, weights=[0.2, 0.9]), [3, 3], "q1"),  # the heaviest (eq. 12)
    ],
)
def test_whom_fas_chooses(network: Network, pending: list[int], chosen: str) -> None:
    """The three cases of section 4.3, and weights."""
    policy = fas()
    attached(policy, network, pending)
    assert first(policy) == chosen


def test_a_weight_may_change_at_run_time() -> None:
    policy = fas()
    state = attached(policy, queries(SAME, SAME), [3, 3])
    state.query_weight[0] = 0.1
    policy.on_change(Change("weight", 0), 0)
    assert first(policy) == "q1"


def test_an_update_waiting_further_down_has_less_ahead_of_it() -> None:
    policy = fas()
    network = queries(([10, 30], [0.5, 0.8]))
    state = attached(policy, network, [2])
    state.pending[network.box_index["q0.2"]] = 1
    chance = 1 - (1 - 0.4) ** 2 * (1 - 0.8)
    assert policy.priority(0) == pytest.approx(chance / (2 * (10 + 0.5 * 30) + 30))


def test_only_a_point_with_news_is_a_run_of_the_scheduler() -> None:
    policy = fas(drain="one")
    network = queries(SAME, SAME)
    state = attached(policy, network, [2, 2])
    plan = policy.decide(0, 0)
    assert policy.work.invocations == 1
    assert policy.work.buckets == 2
    assert plan is not None
    state.pending[plan.steps[0].box] -= 1
    policy.on_completion(plan, 0, 10, 10)
    assert first(policy) == "q0"  # one left: shorter now
    assert policy.work.invocations == 1


def test_drain_says_how_many_updates_a_plan_takes() -> None:
    for drain, train, limit in (("one", 0, 1), ("all", 0, None), ("all", 7, 7)):
        policy = fas(drain=drain, train=train)
        attached(policy, queries(SAME), [5])
        plan = policy.decide(0, 0)
        assert plan is not None
        assert plan.superbox
        assert [step.limit for step in plan.steps] == [limit, limit]


@pytest.mark.parametrize(
    "params", [{"beta": -0.1}, {"beta": 1.5}, {"drain": "some"}, {"train": -1}]
)
def test_bad_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        fas(**params)


class Scanning(FreshnessAware):
    """The oracle: every priority anew at every decision, no calendar."""

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        # Counts as the original does, so that runs with overheads agree.
        if super().decide(now_ns, worker) is None:
            return None
        view = self.view
        del self._out[worker]
        ready = [
            q
            for q, boxes in enumerate(view.network.query_boxes)
            if any(view.pending[b] for b in boxes) and not any(view.running[b] for b in boxes)
        ]
        best = min(ready, key=lambda q: (-self.priority(q), q))
        self._out[worker] = best
        self._ran.update(ready)
        return self._plans[best]


@pytest.mark.parametrize("drain", ["one", "all"])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_calendar_decides_as_a_scan_of_all_queries(drain: str, workers: int) -> None:
    def run(kind: type[FreshnessAware]) -> RunReport:
        policy = kind(FreshnessAware.Params(drain=drain, beta=0.5))
        return simulate(network, policy, schedule, workers=workers, seed=3)

    network = busy_network(queries=12)
    schedule = draw_schedule(network, 2.0, seed=5)
    assert_same(run(FreshnessAware), run(Scanning))


def test_beta_zero_is_rb() -> None:
    """Without overheads FAS-MCQ(0) and RB-MCQ make the same run (section 5.2)."""
    chains = [([10_000 * k] * 2, [1 / (k + 1), 1.0]) for k in range(1, 6)]
    network = queries(*chains)
    at = np.sort(np.random.default_rng(1).integers(0, 10**8, 300))
    schedule = ArrivalSchedule(at, np.zeros(300, np.int32))
    one = simulate(network, fas(beta=0.0, drain="one"), schedule)
    other = simulate(network, make_policy_with("rb-mcq", drain="one"), schedule)
    assert_same(one, other)


@pytest.mark.parametrize(
    ("goal", "target", "beta"),
    [
        ("staleness", 1e-9, 1.0),  # never fresh enough: all for freshness
        ("staleness", 1e9, 0.0),
        ("response", 1e-9, 0.0),  # never fast enough: all for response time
        ("response", 1e9, 1.0),
    ],
)
def test_beta_goes_where_the_goal_pulls_it(goal: str, target: float, beta: float) -> None:
    policy = make_policy_with("fas-mcq-auto", goal=goal, target=target, window_s=0.05)
    assert isinstance(policy, AutoBeta)
    network = busy_network()
    simulate(network, policy, draw_schedule(network, 2.0, seed=3))
    assert policy.beta == beta


@pytest.mark.parametrize("params", [{"goal": "knees"}, {"target": 0.0}, {"window_s": -1.0}])
def test_bad_goals_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        make_policy_with("fas-mcq-auto", **params)


@pytest.mark.parametrize("begin", [0.0, 1.0])
@pytest.mark.parametrize("load", [0.5, 0.95])
def test_the_knee_is_found_from_either_end_at_any_load(begin: float, load: float) -> None:
    setting = testbed.Setting(queries=60, streams=6, bursty=3, tuples=150, utilisation=load)
    policy = make_policy_with("fas-mcq-auto", drain="one", goal="knee", window_s=0.003)
    assert isinstance(policy, AutoBeta)
    policy.beta = begin
    network = testbed.testbed(setting)
    simulate(network, policy, testbed.arrivals(setting, network))
    assert 0.1 <= policy.beta <= 0.7


def test_a_drained_backlog_costs_what_its_order_says() -> None:
    """Against the paper's priorities and sums, one update after the other."""
    random = Random(5)
    rows = [
        (random.uniform(0.1, 1), random.randint(1, 6), random.uniform(0.1, 0.9), random.random())
        for _ in range(8)
    ]
    backlog = [(w, n, n * log(1 - s), n * s, n * c) for w, n, s, c in rows]
    betas = np.array([0.0, 0.3, 1.0])
    stale, slow = drained(np.array(backlog), betas)
    for i, beta in enumerate(betas):

        def priority(row: tuple[float, int, float, float], beta: float = beta) -> float:
            weight, updates, passes, cost = row
            power = updates**beta
            return float(weight * (1 - (1 - passes) ** power) / (power * cost))

        now, total, waits = 0.0, 0.0, 0.0
        for weight, updates, passes, cost in sorted(rows, key=priority, reverse=True):
            # A result leaves anywhere in the block, in the middle of it on average.
            waits += updates * passes * (now + updates * cost / 2)
            now += updates * cost
            total += weight * (1 - (1 - passes) ** updates) * now
        assert stale[i] == pytest.approx(total)
        assert slow[i] == pytest.approx(waits)


def test_without_backlogs_there_is_no_knee() -> None:
    knee = Knee()
    assert knee.beta() is None
    knee.see([(1.0, 3, log(0.5), 1.5, 30.0)])  # one query has one order
    assert knee.beta() is None
    knee.see([(1.0, 9, 9 * log(0.5), 4.5, 90.0), (1.0, 1, log(0.5), 0.5, 10.0)])
    assert knee.beta() is not None
