"""Short cuts for the lone worker, whose run is known in advance while its plan lasts.

* One tuple goes through a whole chain of boxes at once (``whole``). Policies that choose queries
  and run one update at a time make millions of plans of a few boxes and one tuple.
* A list of boxes is gone through without an event for each of them (``go_on``): whole queues of
  boxes that pass everything at constant cost to one other box are most of what large networks do.

The results are those of taking every step by itself (tests/simulation/test_short_cuts.py).
"""

from __future__ import annotations

from collections.abc import Callable

from daybreak.engine.state import SystemState
from daybreak.model.overheads import Overheads
from daybreak.policies.base import Plan, Step
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.loop import SimulationLoop
from daybreak.simulation.plan_run import PlanRun


class ShortCuts:
    """Knows which plans can be run faster than step by step, and runs those."""

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
        #: By first box: the steps of a plan that ``whole`` can run, or none.
        self._steps = [self._plain_from(b) for b in range(len(network.boxes))]
        self._cost = [b.cost_ns for b in network.boxes]
        #: The one box that a box feeds, where ``go_on`` can run it; else -1.
        self._next = [self._next_box(b) for b in range(len(network.boxes))]
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

    def _next_box(self, box: int) -> int:
        network = self._state.network
        declared, down = network.boxes[box], network.downstream[box]
        plain = declared.service == "constant" and not declared.call_ns and not self._lucky[box]
        return down[0] if plain and len(down) == 1 and not network.queries_at[box] else -1

    def whole(self, plan: Plan, now: int) -> int:
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
        """The plan that ``whole`` ran has ended: its tuple leaves if it passed every box."""
        if self._result >= 0:
            for query in self._state.network.queries_at[plan.steps[-1][0]]:
                self._monitor.left(query, (self._result,), (now,))

    def go_on(
        self,
        run: PlanRun,
        now: int,
        arrival: int,
        deliver: Callable[[int, SimulationLoop], int],
        loop: SimulationLoop,
    ) -> int:
        """Goes through the steps of a list while they are plain; returns the time.

        ``arrival``: when the next tuple arrives; ``deliver`` queues what has arrived up to an
        instant, and returns when the next one does.
        """
        state, below, costs = self._state, self._next, self._cost
        pending, total, queues = state.pending, state.arrival_sum_ns, self._arrivals
        head, calls, inputs, outputs = state.head_ns, state.calls, state.tuples_in, state.tuples_out
        o, monitor = self._overheads, self._monitor
        call_ns = o.box_call_ns + o.storage_ns
        works, arrived = state.work_ns, loop.arrived
        steps, quota = run.plan.steps, run.plan.quota_ns
        began, made, work = now, 0, 0
        index = run.step + 1
        while index < len(steps) and quota is None:
            box, limit, fraction = steps[index]
            taken, down = pending[box], below[box]
            if down < 0 or limit is not None or fraction != 1.0:
                break
            index += 1
            if not taken:
                continue
            train, queues[box] = queues[box], []
            summed = total[box]
            pending[box] = total[box] = 0
            spent = taken * costs[box]
            now += call_ns + spent
            made += 1
            work += spent
            works[box] += spent
            calls[box] += 1
            inputs[box] += taken
            outputs[box] += taken
            if arrival <= now:
                arrival = deliver(now, loop)
            held = pending[down]
            if held:
                queues[down].extend(train)
            else:
                queues[down] = train
                head[down] = train[0]
            pending[down] = held + taken
            total[down] += summed
            arrived(down, taken, now)
        run.step = index - 1
        run.spent_ns += now - began
        monitor.call_ns += made * o.box_call_ns
        monitor.storage_ns += made * o.storage_ns
        monitor.work_ns += work
        return now
