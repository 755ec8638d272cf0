"""Stride: what changes when an operator changes a priority."""

from __future__ import annotations

from daybreak.model import Box, Network, Query, QueryClass, Stream
from daybreak.policies.base import Change, Work
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.state import SystemState

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
            assert plan is not None
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
