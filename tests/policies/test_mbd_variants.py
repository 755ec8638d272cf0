"""AMBD looks ahead for a warm query; MBD with QoS serves the urgent of a class more often."""

from __future__ import annotations

import pytest

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.policies.ambd import AffinityBroadcastDisks
from daybreak.policies.base import Plan, Work
from daybreak.policies.mbd import MulticoreBroadcastDisks
from daybreak.policies.mbd_qos import QosBroadcastDisks, half_life_ns


def network(**deadlines_s: float | None) -> Network:
    """Queries of one class and equal cost, and one of a lower class."""
    queries = [
        Query(name=n, output=n, cls="high", qos=QoSGraph.deadline(d) if d else None)
        for n, d in deadlines_s.items()
    ]
    return Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), cost_ns=10) for n in (*deadlines_s, "low")],
        queries=[*queries, Query(name="low", output="low", cls="low")],
        classes=[QueryClass(name="high", priority=30), QueryClass(name="low", priority=10)],
    )


def attach(policy: MulticoreBroadcastDisks, built: Network, workers: int = 1) -> SystemState:
    state = SystemState(built, workers, polls=True)
    policy.attach(state, Work(), seed=1)
    return state


def rounds(
    policy: MulticoreBroadcastDisks, slots: int, now_ns: int = 0, worker: int = 0
) -> list[str]:
    found = []
    for _ in range(slots):
        plan = policy.decide(now_ns, worker) or Plan(())
        found.append(policy.view.network.boxes[plan.steps[0].box].name)
        policy.on_completion(plan, worker, 0, now_ns)
    return found


def test_ambd_prefers_what_the_core_ran_last_and_changes_no_numbers() -> None:
    built = network(a=None, b=None, c=None)  # one slot each in a round
    policy = AffinityBroadcastDisks()
    attach(policy, built, workers=2)
    plans = [policy.decide(0, 0), policy.decide(0, 1)]
    assert [built.boxes[p.steps[0].box].name for p in plans if p] == ["a", "b"]
    for worker, plan in enumerate(plans):
        policy.on_completion(plan or Plan(()), worker, 0, 1)
    assert rounds(policy, 2, worker=1) == ["c", "low"], "nothing warm ahead: in order"
    assert rounds(policy, 4, worker=1) == ["b", "c", "low", "a"], "a is warm on the other core"
    assert rounds(policy, 4, worker=1) == ["a", "b", "c", "low"], "now it is warm here too"


def test_urgent_queries_of_a_class_run_more_often_and_the_class_as_often() -> None:
    built = network(tight=0.003, loose=0.012)
    policy, plain = QosBroadcastDisks(), MulticoreBroadcastDisks()
    attach(policy, built)
    attach(plain, built)

    def share(made: MulticoreBroadcastDisks, *names: str) -> float:
        priorities = made.schedule.priorities
        chosen = [priorities[built.query_index[n]] for n in names]
        return sum(chosen) / sum(priorities)

    assert share(plain, "tight") == share(plain, "loose")
    assert share(policy, "tight") == pytest.approx(2 * share(policy, "loose")), "a root of 4"
    assert share(policy, "low") == pytest.approx(share(plain, "low")), "classes keep their shares"


def test_a_graph_s_half_life_is_its_slack_and_half_its_fall() -> None:
    assert half_life_ns(QoSGraph.deadline(0.002)) == pytest.approx(3_000_000, abs=2)
    steep = QoSGraph(((0.0, 1.0), (0.002, 1.0), (0.003, 0.5)))
    assert half_life_ns(steep) == pytest.approx(2_500_000, abs=2)
    assert half_life_ns(None) is None
    assert half_life_ns(QoSGraph(((0.0, 1.0),))) is None


def test_without_graphs_it_is_mbd() -> None:
    built = network(a=None, b=None)
    policy, plain = QosBroadcastDisks(), MulticoreBroadcastDisks()
    attach(policy, built)
    attach(plain, built)
    assert policy.schedule == plain.schedule
