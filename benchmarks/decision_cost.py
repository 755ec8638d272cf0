"""What a scheduling decision costs as the network grows: bucketing beside what else one would do.

A saturated system: every box holds one tuple and is the whole of its query. A decision picks one
box; the box runs for 50 µs, and a new tuple arrives at it. Deadlines are uniform over 0.5 to 1.5
times what it takes to serve all boxes once, so that the picture is the same at every size: most
boxes are served in time, some are late. Lists of one: every decision is a run of the scheduler.

* bucketing: the policy, 50 x 50 buckets kept current by the agenda;
* slope-slack: the policy, an exact choice among all that is ready;
* fixed: the fixed-priority policy;
* heapq: no policy, only a heap of the instants at which boxes become late; exact for graphs with
  one deadline, and late boxes are taken last;
* sorted scan: no policy, all p-tuples computed and sorted for every decision.

    python benchmarks/decision_cost.py [--json] [--boxes 1000,10000,100000] [--decisions 5000]
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
from collections.abc import Callable
from functools import cache
from random import Random
from time import perf_counter_ns, process_time_ns
from typing import Any

from daybreak.model import Box, Network, QoSGraph, Query, Stream
from daybreak.policies.base import BasePolicy, Work
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.state import SystemState

COST_NS = 50_000
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bucketing": ("bucketing-push", {"partitions": 50}),
    "slope-slack": ("slope-slack-push", {}),
    "fixed": ("fixed-priority-push", {}),
}
#: What looks at every box for each decision is given less to do.
LINEAR = ("slope-slack", "fixed", "sorted scan")
STEPS_OF_LINEAR = 1_000_000
WARM = 1_000


@cache
def applications(boxes: int) -> Network:
    random = Random("decision-cost")
    round_s = boxes * COST_NS / 1e9
    # A few hundred kinds of graphs, as applications would have.
    graphs = [QoSGraph.deadline(d := round_s * random.uniform(0.5, 1.5), d * 1.01)
              for _ in range(200)]  # fmt: skip
    return Network(
        streams=[Stream(name=f"s{i}") for i in range(boxes)],
        boxes=[Box(name=f"b{i}", inputs=(f"s{i}",), cost_ns=COST_NS) for i in range(boxes)],
        queries=[Query(name=f"q{i}", output=f"b{i}", qos=random.choice(graphs))
                 for i in range(boxes)],
    )  # fmt: skip


def saturated(boxes: int) -> SystemState:
    """Every box holds a tuple; they arrived over the last round, in random order."""
    state = SystemState(applications(boxes))
    order = list(range(boxes))
    Random("arrivals").shuffle(order)
    for at, box in enumerate(order):
        state.pending[box] = 1
        state.arrival_sum_ns[box] = state.head_ns[box] = at * COST_NS
    return state


def served(state: SystemState, box: int, now_ns: int) -> None:
    """The box's tuple is gone, and the next one arrives."""
    state.arrival_sum_ns[box] = state.head_ns[box] = now_ns


def by_policy(label: str, boxes: int, decisions: int) -> float:
    """Nanoseconds per decision, with the events that go with it."""
    name, params = POLICIES[label]
    policy: BasePolicy = make_policy_with(name, schedule_size=1, **params)
    state, work = saturated(boxes), Work()
    policy.attach(state, work, 1)
    now = boxes * COST_NS

    def step() -> None:
        nonlocal now
        plan = policy.decide(now, 0)
        assert plan is not None
        now += COST_NS
        box = plan.steps[0].box
        served(state, box, now)
        policy.on_completion(plan, 0, COST_NS, now)
        policy.on_arrival(box, 1, now)

    return timed(step, decisions, warm=1 if label in LINEAR else WARM)


def by_heap(boxes: int, decisions: int) -> float:
    state = saturated(boxes)
    queries = state.network.queries
    now = boxes * COST_NS

    def late_from(box: int) -> int:
        qos = queries[box].qos
        assert qos is not None
        return state.head_ns[box] + (qos.deadline_ns or 0) - COST_NS

    heap = [(late_from(b), b) for b in range(boxes)]
    heapq.heapify(heap)
    late: list[int] = []

    def step() -> None:
        nonlocal now
        while heap and heap[0][0] <= now:
            late.append(heapq.heappop(heap)[1])
        box = heapq.heappop(heap)[1] if heap else late.pop()
        now += COST_NS
        served(state, box, now)
        heapq.heappush(heap, (late_from(box), box))

    return timed(step, decisions, warm=WARM)


def by_scan(boxes: int, decisions: int) -> float:
    state = saturated(boxes)
    graphs = [q.qos for q in state.network.queries]
    now = boxes * COST_NS

    def step() -> None:
        nonlocal now
        ranked = []
        for box, qos in enumerate(graphs):
            assert qos is not None
            slope, slack = qos.slope_slack(now - state.head_ns[box] + COST_NS)
            ranked.append((-slope, slack, box))
        ranked.sort()
        box = ranked[0][2]
        now += COST_NS
        served(state, box, now)

    return timed(step, decisions, warm=1)


def timed(step: Callable[[], None], decisions: int, warm: int) -> float:
    """Mean CPU time of a step, after so many that are not counted."""
    for _ in range(warm):
        step()
    gc.collect()
    gc.disable()
    begin = process_time_ns()
    for _ in range(decisions):
        step()
    spent = process_time_ns() - begin
    gc.enable()
    return spent / decisions


def measure(boxes: int, decisions: int) -> dict[str, float]:
    few = max(5, min(decisions, STEPS_OF_LINEAR // boxes))
    found = {label: by_policy(label, boxes, few if label in LINEAR else decisions)
             for label in POLICIES}  # fmt: skip
    found["heapq"] = by_heap(boxes, decisions)
    found["sorted scan"] = by_scan(boxes, few)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--boxes", default="1000,10000,100000")
    parser.add_argument("--decisions", type=int, default=5_000)
    args = parser.parse_args()
    sizes = [int(n) for n in args.boxes.split(",")]
    begin = perf_counter_ns()
    costs = {n: measure(n, args.decisions) for n in sizes}
    growth = {label: costs[sizes[-1]][label] / costs[sizes[0]][label] for label in costs[sizes[0]]}
    if args.json:
        result = {
            "ns_per_decision": {str(n): costs[n] for n in sizes},
            "growth": growth,
            "bucketing_flat": growth["bucketing"] <= 2.0,
            "wall_s": (perf_counter_ns() - begin) / 1e9,
        }
        print(json.dumps(result, indent=2))
        return
    print(f"{'µs per decision':18}" + "".join(f"{n:>12,}" for n in sizes) + f"{'growth':>10}")
    for label, factor in growth.items():
        row = "".join(f"{costs[n][label] / 1e3:12.2f}" for n in sizes)
        print(f"{label:18}{row}{factor:9.2f}x")


if __name__ == "__main__":
    main()
