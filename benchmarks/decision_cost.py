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

Last, what the engine's journal costs, per decision (an arrival, the end of a job and the start of
the next) and as a share of a loop that takes 10 000 decisions a second: keeping an entry in memory;
that and what the garbage collector does for what is kept, from whole loops with and without it; and
encoding an entry for the record, on the thread that writes.

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

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Done, JobEnded, Ran, SegmentArrived
from daybreak.engine.inbox import Inbox
from daybreak.engine.instructions import StartJob
from daybreak.engine.journal import ENTRY_WEIGHT, MOST_WEIGHT, Journal
from daybreak.engine.journal_format import Segment, entry_line
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState, SystemState
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


def looped(decisions: int, most_weight: int) -> tuple[float, Journal]:
    """CPU time per decision of an engine whose journal keeps so much, with garbage collection."""
    network = applications(100)
    facts = [QueryFacts(box.name, box.inputs) for box in network.boxes]
    policy = make_policy_with("fcfs")
    engine = Engine(JobState(network), facts, [Inbox() for _ in facts], policy, Settings())
    engine.journal = Journal(engine.journal.origin, most_weight)
    arrivals = [SegmentArrived(Segment(0, f.reads[0], 0, 1, (), None)) for f in facts]
    (job, *_) = (i for i in engine.handle(0, *arrivals) if isinstance(i, StartJob))
    begin, full = 0, MOST_WEIGHT // ENTRY_WEIGHT  # what is kept is full when the clock starts
    for n in range(1, full + decisions + 1):
        if n == full:
            gc.collect()
            begin = process_time_ns()
        now = n * COST_NS
        (group,) = job.groups
        ran = Ran((1,), COST_NS, 0, now, now - COST_NS, {}, (None,))
        stream = facts[group.boxes[0]].reads[0]
        came = SegmentArrived(Segment(now, stream, n, 1, (), None))
        ended = JobEnded(job.order, (Done(group.boxes, ran),), None, COST_NS)
        job = next(i for i in engine.handle(now, came, ended) if isinstance(i, StartJob))
    return (process_time_ns() - begin) / decisions, engine.journal


def journal_costs(blocks: int, decisions: int = 10_000) -> dict[str, float]:
    """CPU time (ns) per decision."""
    found: dict[str, list[float]] = {}
    for _ in range(blocks):
        without_ns, _ = looped(decisions, 0)
        with_ns, journal = looped(decisions, MOST_WEIGHT)
        kept, entries = Journal(journal.origin), journal.entries()
        gc.disable()
        begin = process_time_ns()
        for entry in entries:
            kept.add(entry.now_ns, entry.events, entry.answer)
        added = process_time_ns()
        gc.enable()
        for entry in entries:
            entry_line(entry.number, entry)
        costs = {
            "loop": without_ns,
            "journal, kept": (added - begin) / len(entries),
            "journal, kept and collected": with_ns - without_ns,
            "journal, encoded": (process_time_ns() - added) / len(entries),
        }
        for label, cost_ns in costs.items():
            found.setdefault(label, []).append(cost_ns)
    return {label: median(costs) for label, costs in found.items()}


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
    journal = journal_costs(args.blocks)
    if args.json:
        result = {
            "journal_ns_per_decision": journal,
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
    print(f"\n{'µs per decision':30}{'share of 10 000 a second':>28}")
    for label, cost_ns in journal.items():
        print(f"{label:30}{cost_ns / 1e3:10.2f}{cost_ns / 1e5 * 1e2:17.1f} %")


if __name__ == "__main__":
    main()
