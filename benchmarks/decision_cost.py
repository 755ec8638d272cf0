"""What a scheduling decision costs as the network grows: bucketing beside what else one would do.

A saturated system: every box holds one tuple and is the whole of its query. A decision picks one
box; the box runs for 50 µs, and a new tuple arrives at it. Deadlines are uniform over 0.5 to 1.5
times what it takes to serve all boxes once, so that the picture is the same at every size: most
boxes are served in time, some are late. Lists of one: every decision is a run of the scheduler.

* bucketing: the policy, 50 x 50 buckets kept current by a timer queue;
* slope-slack: the policy, an exact choice among all that is ready;
* fixed: the fixed-priority policy;
* heapq: no policy, only a heap of the instants at which boxes become late; exact for graphs with
  one deadline, and late boxes are taken last;
* sorted scan: no policy, all p-tuples computed and sorted for every decision.

All boxes hold a tuple at every size, and every size first runs a whole round (each box served
about once), so that what is measured is the steady state. Then blocks of decisions are timed, the
sizes in turn; a figure is the median over the blocks of CPU time per decision, events included,
without garbage collection. What looks at every box is given as few decisions as it takes.

    python benchmarks/decision_cost.py [--json] [--boxes 1000,10000,100000] [--blocks 15]
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import sys
from collections.abc import Callable
from functools import cache
from random import Random
from statistics import median
from time import perf_counter_ns, process_time_ns
from typing import Any

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, QoSGraph, Query, Stream
from daybreak.policies.base import BasePolicy, Plan, Work
from daybreak.policies.registry import make_policy_with

COST_NS = 50_000
POLICIES: dict[str, tuple[str, dict[str, Any]]] = {
    "bucketing": ("bucketing-push", {"partitions": 50}),
    "slope-slack": ("slope-slack-push", {}),
    "fixed": ("fixed-priority-push", {}),
}
#: What looks at every box for each decision is given less to do.
LINEAR = ("slope-slack", "fixed", "sorted scan")
STEPS_OF_LINEAR = 100_000
#: Decisions in a block of the others, after some that fetch back what the last size has displaced.
BLOCK, BEFORE = 1_000, 100
#: One decision, with the events that go with it.
Decision = Callable[[], None]


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


def by_policy(label: str, boxes: int) -> Decision:
    name, params = POLICIES[label]
    policy: BasePolicy = make_policy_with(name, schedule_size=1, **params)
    state, work = saturated(boxes), Work()
    policy.attach(state, work, 1)
    now = boxes * COST_NS

    def step() -> None:
        nonlocal now
        plan = policy.decide(now, 0)
        assert isinstance(plan, Plan)
        now += COST_NS
        box = plan.steps[0].box
        served(state, box, now)
        policy.on_completion(plan, 0, COST_NS, now)
        policy.on_arrival(box, 1, now)

    return step


def by_heap(boxes: int) -> Decision:
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

    return step


def by_scan(boxes: int) -> Decision:
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

    return step


def prepared(label: str, boxes: int) -> Decision:
    """Ready to be timed: in the steady state, where it keeps one."""
    if label in POLICIES:
        step = by_policy(label, boxes)
    else:
        step = by_heap(boxes) if label == "heapq" else by_scan(boxes)
    for _ in range(1 if label in LINEAR else boxes + boxes // 5):
        step()
    return step


def block_ns(label: str, boxes: int, step: Decision) -> float:
    """CPU time per decision over one block."""
    linear = label in LINEAR
    decisions = max(1, STEPS_OF_LINEAR // boxes) if linear else BLOCK
    for _ in range(0 if linear else BEFORE):
        step()
    begin = process_time_ns()
    for _ in range(decisions):
        step()
    return (process_time_ns() - begin) / decisions


def measure(label: str, sizes: list[int], blocks: int) -> dict[int, float]:
    """By number of boxes: the median over the blocks."""
    steps = {n: prepared(label, n) for n in sizes}
    found: dict[int, list[float]] = {n: [] for n in sizes}
    gc.collect()
    gc.disable()
    for _ in range(min(blocks, 3) if label in LINEAR else blocks):
        for n, step in steps.items():
            found[n].append(block_ns(label, n, step))
    gc.enable()
    return {n: median(costs) for n, costs in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--boxes", default="1000,10000,100000")
    parser.add_argument("--blocks", type=int, default=15)
    args = parser.parse_args()
    sizes = [int(n) for n in args.boxes.split(",")]
    begin = perf_counter_ns()
    costs: dict[int, dict[str, float]] = {n: {} for n in sizes}
    for label in (*POLICIES, "heapq", "sorted scan"):
        for n, cost_ns in measure(label, sizes, args.blocks).items():
            costs[n][label] = cost_ns
        seconds = (perf_counter_ns() - begin) / 1e9
        print(f"{label}: done after {seconds:.0f} s", file=sys.stderr, flush=True)
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
