"""A short cut for the lone worker: one tuple goes through a whole chain of boxes at once.

Policies that choose queries and run one update at a time make millions of plans of a few boxes
and one tuple. Where the boxes are plain (constant cost, at most one output per input, one way
from input to output), the end of such a plan is known when it begins. The results are those of
taking every step by itself (tests/simulation/test_executor.py).
"""

from __future__ import annotations

from daybreak.engine.state import SystemState
from daybreak.model.overheads import Overheads
from daybreak.policies.base import Plan, Step
from daybreak.runtime.monitor import Monitor


class Pipes:
    """Knows which plans are one tuple through plain boxes, and runs those."""

    def __init__(
        self,
        state: SystemState,
        monitor: Monitor,
        overheads: Overheads,
        arrivals: list[list[int]],
        lucks: list[list[float]],
        lucky: list[bool],
    ) -> None:
        self._state, self._monitor, self._overheads = state, monitor, overheads
        self._arrivals, self._lucks, self._lucky = arrivals, lucks, lucky
        network = state.network
        self._stages = [(b.cost_ns, b.selectivity) for b in network.boxes]
        #: By first box: the steps of a plan that can be run here, or none.
        self._steps = [self._plain_from(b) for b in range(len(network.boxes))]
        #: Arrival of the tuple that reaches the output of the plan under way; -1 if none does.
        self._result = -1

    def _plain_from(self, box: int) -> tuple[Step, ...]:
        network, steps = self._state.network, []
        while True:
            declared, down = network.boxes[box], network.downstream[box]
            plain = declared.service == "constant" and not declared.call_ns
            ends = bool(network.queries_at[box])
            if not plain or declared.selectivity > 1 or len(down) != (0 if ends else 1):
                return ()
            steps.append(Step(box, 1))
            if ends:
                return tuple(steps)
            box = down[0]

    def run(self, plan: Plan, now: int) -> int:
        """When the plan ends that begins now; -1 if it must be run step by step."""
        steps = plan.steps
        first = steps[0][0]
        state = self._state
        pending = state.pending
        if steps != self._steps[first] or plan.quota_ns is not None or not pending[first]:
            return -1
        for box, _, _ in steps[1:]:
            if pending[box]:
                return -1
        queue = self._arrivals[first]
        arrival = queue.pop(0)
        luck = self._lucks[first].pop(0) if self._lucky[first] else 0.0
        pending[first] -= 1
        state.arrival_sum_ns[first] -= arrival
        if queue:
            state.head_ns[first] = queue[0]
        self._result = arrival
        calls, inputs, outputs, works = (
            state.calls, state.tuples_in, state.tuples_out, state.work_ns,
        )  # fmt: skip
        made = work = 0
        for box, _, _ in steps:
            cost, passes = self._stages[box]
            made += 1
            work += cost
            works[box] += cost
            calls[box] += 1
            inputs[box] += 1
            if passes == 1.0:
                outputs[box] += 1
                continue
            passed = luck < passes
            state.refine(box, 1, passed, cost)
            if not passed:
                self._result = -1
                break
            outputs[box] += 1
            luck /= passes
        o, monitor = self._overheads, self._monitor
        monitor.call_ns += made * o.box_call_ns
        monitor.storage_ns += made * o.storage_ns
        monitor.work_ns += work
        return now + work + made * (o.box_call_ns + o.storage_ns)

    def leave(self, plan: Plan, now: int) -> None:
        """The plan ended: its tuple leaves if it passed every box."""
        if self._result >= 0:
            for query in self._state.network.queries_at[plan.steps[-1][0]]:
                self._monitor.left(query, (self._result,), (now,))
