"""Superbox traversals: the worked examples of aurora-thesis 3.3.1.2, exact."""

from fractions import Fraction

import pytest

from daybreak.engine.state import SystemState
from daybreak.policies.aaat import TRAVERSALS, ApplicationAtATime
from daybreak.policies.parts.superboxes.superboxes import applications, cut
from daybreak.policies.parts.superboxes.traversals import foresee, min_cost, min_latency, min_memory
from daybreak.policies.registry import make_policy_with
from daybreak.simulation.laws import busy_network
from daybreak_experiments.aurora.examples import (
    P_NS,
    crossover,
    figure_3_5,
    symbolic,
    table_3_1,
    table_3_2,
    table_3_3,
    traverse,
)
from daybreak_experiments.core import Context, Outcome

ONE_EACH = dict.fromkeys(range(6), 1.0)


def refuted(outcome: Outcome) -> list[str]:
    return [c.claim for c in outcome.claims if c.kind == "robust" and not c.holds]


def test_the_worked_examples_are_exact() -> None:
    context = Context(seeds=[1])
    assert refuted(table_3_1(context)) == []
    assert refuted(table_3_2(context)) == []
    assert refuted(table_3_3(context)) == []


def test_the_crossover_is_7_to_32() -> None:
    assert crossover() == Fraction(7, 32) == Fraction("0.21875")


def one_tuple_each(cost_ns: float) -> SystemState:
    state = SystemState(figure_3_5())
    state.pending = [1] * 6
    state.cost_ns = [cost_ns] * 6
    return state


def test_foresight_agrees_with_the_run() -> None:
    for traversal in (min_cost, min_latency, min_memory):
        state = one_tuple_each(P_NS)
        tree = applications(state.network)[0]
        order = traversal(state, tree)
        report = traverse(order, state.network)
        seen = foresee(state, tree, order, 1, ONE_EACH)
        assert seen.outputs == 6
        assert seen.length_ns == report.spent.wall_ns
        assert seen.latency_ns == pytest.approx(float(report.outputs.departure_ns.mean()))


def test_foresight_has_the_same_crossover() -> None:
    def gain_of_ml(p: int, o: int) -> float:
        state = one_tuple_each(p)
        tree = applications(state.network)[0]
        mc, ml = (
            foresee(state, tree, t(state, tree), o, ONE_EACH).latency_ns
            for t in (min_cost, min_latency)
        )
        return mc - ml

    assert gain_of_ml(7, 32) == pytest.approx(0)
    assert gain_of_ml(6, 32) < 0 < gain_of_ml(8, 32)


@pytest.mark.parametrize("name", TRAVERSALS)
@pytest.mark.parametrize("seed", range(5))
def test_every_traversal_consumes_every_tuple(name: str, seed: int) -> None:
    """Whatever is queued, whatever the selectivities: nothing stays behind in the superbox."""
    network = busy_network(seed)
    state = SystemState(network)
    for superbox in (*applications(network), *cut(network, set())):
        held = set(superbox.boxes)
        for box in TRAVERSALS[name](state, superbox):
            held.discard(box)
            held.update(set(network.downstream[box]) & set(superbox.boxes))
        assert not held


def test_min_cost_calls_every_box_once() -> None:
    for seed in range(5):
        state = SystemState(busy_network(seed))
        for superbox in applications(state.network):
            assert sorted(min_cost(state, superbox)) == sorted(superbox.boxes)


def test_symbolic_times_are_read_back() -> None:
    assert symbolic(15 * P_NS + 6) == "15p + 6o"


def test_auto_measures_what_a_call_costs() -> None:
    """Nobody tells it: a run of the tree took 15p + 6o."""
    from daybreak.model import Overheads
    from daybreak.simulation.arrivals import draw_schedule
    from daybreak.simulation.simulate import simulate

    network = figure_3_5()
    policy = make_policy_with("aaat")
    assert isinstance(policy, ApplicationAtATime)
    schedule = draw_schedule(network, 20.0, seed=1)
    simulate(network, policy, schedule, overheads=Overheads(box_call_ns=321_000))
    assert policy.call_ns == pytest.approx(321_000)


@pytest.mark.parametrize(("call_ns", "best"), [(0, "ml"), (2_000_000, "mc")])
def test_auto_finds_the_better_traversal_unaided(call_ns: int, best: str) -> None:
    """Free calls favour ML, calls far dearer than boxes favour MC."""
    from daybreak.model import Overheads
    from daybreak.simulation.simulate import simulate
    from daybreak_experiments.aurora.trees import application_trees, offered

    network = application_trees(1, 1, depth=3)
    schedule = offered(network, 0.5, 4_000, 1)
    latency = {}
    for kind in ("mc", "ml", "auto"):
        policy = make_policy_with("aaat", traversal=kind)
        report = simulate(network, policy, schedule, overheads=Overheads(box_call_ns=call_ns))
        latency[kind] = float(report.response_s.mean())
    assert latency[best] == min(latency["mc"], latency["ml"])
    assert latency["auto"] <= 1.05 * latency[best]


def test_foresight_counts_what_joins_the_run() -> None:
    """Two leaves and a root; a tuple waits at the first, the second gets one now and then."""
    from math import exp

    from daybreak.model import Box, Network, Query, Stream

    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), cost_ns=10) for n in ("a", "b")]
        + [Box(name="r", inputs=("a", "b"), cost_ns=10)],
        queries=[Query(name="q", output="r")],
    )
    (tree,) = applications(network)
    state = SystemState(network)
    held = {0: 1.0, 1: 0.0, 2: 0.0}
    seen = foresee(state, tree, (0, 1, 2), 2.0, held, {0: 0.01, 1: 0.01})
    # When b's turn comes, 12 ns have passed: 0.12 tuples, 6 ns old on average. The call's price
    # is paid if there is any; a's own arrivals come too late for this run.
    assert seen.joined == pytest.approx(0.12)
    length = 12 + (1 - exp(-0.12)) * 2 + 1.2 + 2 + 11.2
    assert seen.length_ns == pytest.approx(length)
    assert seen.outputs == pytest.approx(1.12)
    assert seen.latency_ns == pytest.approx((1.12 * (length - 0.6) - 0.12 * 6) / 1.12)
    assert foresee(state, tree, (0, 1, 2), 2.0, held).length_ns == 24
