"""Stride: what changes when an operator changes a priority, and patience."""

from __future__ import annotations

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.policies.base import Change, Plan, Work
from daybreak.policies.registry import make_policy_with

JOB_NS = 10_000_000


def test_a_raised_class_need_not_wait_for_what_it_owed_at_its_old_priority() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), cost_ns=100_000) for n in ("a", "b")],
        queries=[Query(name="a", output="a", cls="high"), Query(name="b", output="b", cls="low")],
        classes=[QueryClass(name="high", priority=600), QueryClass(name="low", priority=10)],
    )
    state = SystemState(network)
    policy = make_policy_with("stride", train=50)
    policy.attach(state, Work(), 1)
    for box in (0, 1):
        state.pending[box] = 6000
        policy.on_arrival(box, 6000, 0)

    def jobs(count: int) -> list[int]:
        ran = []
        for _ in range(count):
            plan = policy.decide(0, 0)
            assert isinstance(plan, Plan)
            ran.append(plan.steps[0].box)
            policy.on_completion(plan, 0, JOB_NS, 0)
        return ran

    before = jobs(30)
    assert sum(box == 0 for box in before) >= 28
    state.class_priority[1] = 36_000.0
    policy.on_change(Change("class-priority", 1), 0)
    after = jobs(61)
    assert after[0] == 1 or after[1] == 1, "from the next schedule on"
    assert sum(box == 1 for box in after) >= 59


def test_a_patient_class_lets_others_go_first_while_its_answers_lose_nothing() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), cost_ns=100_000) for n in ("a", "b")],
        queries=[
            Query(name="a", output="a", cls="high", qos=QoSGraph.deadline(1.0)),
            Query(name="b", output="b", cls="low"),
        ],
        classes=[QueryClass(name="high", priority=600), QueryClass(name="low", priority=10)],
    )
    state = SystemState(network)
    policy = make_policy_with("stride", patience=0.25)
    policy.attach(state, Work(), 1)
    state.pending[0] = state.pending[1] = 5  # both since 0
    for box in (0, 1):
        policy.on_arrival(box, 5, 0)

    def ran(now_s: float) -> int:
        plan = policy.decide(round(now_s * 1e9), 0)
        assert isinstance(plan, Plan)
        policy.on_completion(plan, 0, JOB_NS, round(now_s * 1e9))
        return plan.steps[0].box

    assert [ran(0.0), ran(0.1), ran(0.24)] == [1, 1, 1], "a can wait"
    assert [ran(0.25), ran(0.26), ran(0.3)] == [0, 0, 0], "a quarter of its second is over"
    state.head_ns[0] = 300_000_000  # what is left of a came then
    assert ran(0.31) == 1
    policy.on_withdrawn(1, 310_000_000)  # b rides along with another's job
    assert ran(0.32) == 0, "nobody else has work"
