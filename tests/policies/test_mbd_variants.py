"""AMBD looks ahead for a warm query; MBD with QoS orders a class's queries by slope and slack."""

from __future__ import annotations

from collections import Counter

from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.policies.ambd import AffinityBroadcastDisks
from daybreak.policies.base import Plan, Work
from daybreak.policies.mbd import MulticoreBroadcastDisks
from daybreak.policies.mbd_qos import QosBroadcastDisks
from daybreak.runtime.state import SystemState


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


def test_queries_change_places_within_their_class_where_that_saves_utility() -> None:
    built = network(slow=5.0, fast=0.0005, none=None)
    policy = QosBroadcastDisks()
    state = attach(policy, built)
    in_order = ["fast", "none", "slow"]  # of the names, each one slot beside the lower class's
    first = rounds(policy, 4)
    assert [n for n in first if n != "low"] == in_order, "how long slots take is not known yet"
    for name in ("slow", "fast", "none", "low"):
        state.pending[built.box_index[name]] = 1
    # Slots take 0.1 ms; all tuples came at 0. At 5.0 s the slow one begins to lose utility, the
    # fast one has none left to lose, and the third never had any.
    policy._round_ns = 5_000_000_000 - 400_000
    late = rounds(policy, 4, now_ns=5_000_000_000)
    assert [n for n in late if n != "low"] == ["slow", "none", "fast"]
    # At 0.49 ms the fast one is about to lose some: it is first in turn, and stays there.
    policy._round_ns = 90_000
    soon = rounds(policy, 4, now_ns=490_000)
    assert [n for n in soon if n != "low"] == in_order
    assert Counter(first) == Counter(late) == Counter(soon), "as often as in MBD"


def test_without_tuples_the_schedule_polls_as_mbd_does() -> None:
    built = network(a=0.001, b=0.002)
    policy, plain = QosBroadcastDisks(), MulticoreBroadcastDisks()
    attach(policy, built)
    attach(plain, built)
    slots = 3 * len(plain.schedule.units)
    assert Counter(rounds(policy, slots)) == Counter(rounds(plain, slots))
