"""The worked examples of chapters 3 and 4: Tables 3.1 to 3.3 and 4.1, exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from daybreak.engine.state import SystemState
from daybreak.model import Arrivals, Box, Network, Overheads, QoSGraph, Query, Stream
from daybreak.policies.base import BasePolicy, Plan, Step, View, Work
from daybreak.policies.fixed_priority import slack_ns
from daybreak.policies.parts.superboxes.superboxes import applications
from daybreak.policies.parts.superboxes.traversals import (
    memory_rate,
    min_cost,
    min_latency,
    min_memory,
)
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Stand-ins for the symbols p and o of the text: any p and o with p/o > 0.22 would do. They are
#: chosen so that a sum i*p + j*o can be read back: j is the sum modulo P.
P_NS = 1_000_000
O_NS = 1


class Scripted(BasePolicy):
    """Runs one given traversal, once."""

    name = "scripted"

    def __init__(self, boxes: Sequence[int]) -> None:
        super().__init__()
        self._plan: Plan | None = Plan(tuple(Step(b) for b in boxes))

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        if not any(self.view.pending):
            return None
        plan, self._plan = self._plan, None
        return plan


def figure_3_5() -> Network:
    """The query tree of Figure 3.5: six boxes, each with an input of its own."""
    feeds = {"b1": ("b2", "b6"), "b2": ("b4", "b3"), "b3": ("b5",), "b4": (), "b5": (), "b6": ()}
    return Network(
        streams=[Stream(name=f"in{b[1]}", arrivals=Arrivals(rate_per_s=1)) for b in feeds],
        boxes=[
            Box(name=b, inputs=(*up, f"in{b[1]}"), cost_ns=P_NS, kind="union" if up else "map")
            for b, up in feeds.items()
        ],
        queries=[Query(name="application", output="b1")],
    )


def traverse(traversal: Sequence[int], network: Network) -> RunReport:
    """One tuple waits at every box; the traversal pushes them all to the output."""
    streams = len(network.streams)
    schedule = ArrivalSchedule(np.zeros(streams, np.int64), np.arange(streams, dtype=np.int32))
    return simulate(network, Scripted(traversal), schedule, overheads=Overheads(box_call_ns=O_NS))


def symbolic(time_ns: float, parts: int = 1) -> str:
    """``15p + 6o`` for a time that was made of those, or of the mean of several."""
    p, o = divmod(round(time_ns * parts), P_NS)
    return f"{p / parts:.3g}p + {o / parts:.3g}o"


def crossover() -> Fraction:
    """The p/o at which MC and ML have the same mean output latency on Figure 3.5's tree."""
    network = figure_3_5()
    view: View = SystemState(network)
    (tree,) = applications(network)
    sums = [
        divmod(int(traverse(traversal(view, tree), network).outputs.departure_ns.sum()), P_NS)
        for traversal in (min_cost, min_latency)
    ]
    (p_mc, o_mc), (p_ml, o_ml) = sums
    return Fraction(o_ml - o_mc, p_mc - p_ml)


def _stepping(number: str, kind: str, order: str, total: str, mean: str, each: str) -> Outcome:
    network = figure_3_5()
    view: View = SystemState(network)
    traversal = (min_cost if kind == "MC" else min_latency)(view, applications(network)[0])
    report = traverse(traversal, network)
    names = " ".join(network.boxes[b].name for b in traversal)
    latencies = np.sort(report.outputs.departure_ns)
    ours_each = ", ".join(symbolic(float(t)) for t in latencies)
    ours_mean = symbolic(float(latencies.mean()), parts=len(latencies))
    ours_total = symbolic(float(latencies[-1]))

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.step([0, *(latencies / P_NS)], range(len(latencies) + 1), where="post")
        axes.set_xlabel("time (box costs p)")
        axes.set_ylabel("output tuples")
        axes.set_title(f"Table {number}: {kind} traversal, {names}", fontsize=9)

    facts = [
        ("traversal order", order, names),
        ("total execution cost", total, ours_total),
        ("latency of each output tuple", each, ours_each),
        ("average output latency", mean, ours_mean),
    ]
    return Outcome(
        claims=[
            Claim(what, "robust", text, ours, as_claimed(text == ours))
            for what, text, ours in facts
        ],
        draw=draw,
    )


def table_3_1(_context: Context) -> Outcome:
    return _stepping(
        "3.1", "MC", "b4 b5 b3 b2 b6 b1", "15p + 6o", "12.5p + 6o",
        "10p + 6o, 11p + 6o, 12p + 6o, 13p + 6o, 14p + 6o, 15p + 6o",
    )  # fmt: skip


def table_3_2(_context: Context) -> Outcome:
    stepped = _stepping(
        "3.2", "ML", "b1 b2 b1 b6 b1 b4 b2 b1 b3 b2 b1 b5 b3 b2 b1", "15p + 15o",
        "7.17p + 7.17o", "1p + 1o, 3p + 3o, 5p + 5o, 8p + 8o, 11p + 11o, 15p + 15o",
    )  # fmt: skip
    ratio = crossover()
    claim = Claim(
        "ML has the lower mean latency from p/o on",
        "robust", "0.22", f"{float(ratio)}",
        required("7/32, which rounds to it", ratio == Fraction(7, 32)),
    )  # fmt: skip
    return replace(stepped, claims=[*stepped.claims, claim])


def table_3_3(_context: Context) -> Outcome:
    """Figure 3.5's tree with the selectivities and costs of Table 3.3, tuples of one byte."""
    selectivities = {"b1": 0.9, "b2": 0.4, "b3": 0.5, "b4": 1.0, "b5": 0.4, "b6": 0.6}
    costs = {"b1": 2, "b2": 2, "b3": 1, "b4": 2, "b5": 3, "b6": 1}
    tree = figure_3_5()
    network = Network(
        streams=tree.streams,
        boxes=[
            replace(b, selectivity=selectivities[b.name], cost_ns=costs[b.name], tuple_bytes=1)
            for b in tree.boxes
        ],
        queries=tree.queries,
    )
    view: View = SystemState(network)
    rates = {b.name: memory_rate(view, i) for i, b in enumerate(network.boxes)}
    traversal = min_memory(view, applications(network)[0])
    order = " ".join(network.boxes[b].name for b in traversal)
    left = sum(traverse(traversal, network).boxes["pending"])
    text = "b1 0.05, b2 0.3, b3 0.5, b4 0, b5 0.2, b6 0.4"
    ours = ", ".join(f"{b} {rate:.3g}" for b, rate in rates.items())
    printed = "b3 b2 b1 b6 b1 b2 b5 b3 b2 b1 b4 b2 b1"
    by_rule = "b3 b6 b2 b5 b3 b2 b1 b4 b2 b1"

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        ranked = sorted(rates, key=lambda b: rates[b])
        axes.barh(ranked, [rates[b] for b in ranked])
        axes.set_xlabel("mem_rr (bytes per unit of time, tuples of one byte)")
        axes.set_title(f"Table 3.3: MM traversal {order}", fontsize=9)

    return Outcome(
        claims=[
            Claim("mem_rr of every box", "robust", text, ours, as_claimed(text == ours)),
            Claim(
                "MM traversal by the stated rule",
                "robust",
                by_rule,
                order,
                as_claimed(order == by_rule),
            ),
            Claim(
                "tuples the traversal leaves behind",
                "robust",
                "0",
                str(left),
                as_claimed(left == 0),
            ),
            Claim(
                "MM traversal as printed", "published", printed, order, as_claimed(order == printed)
            ),
        ],
        draw=draw,
        notes=[
            (
                "The printed traversal follows from no reading of the rule: b2 (0.3) comes right "
                "after b3 (0.5) although its mem_rr is lower, and by the pseudocode b4 would be "
                "followed by b2 alone. Ours takes boxes by decreasing mem_rr, each followed by the "
                "boxes downstream whose mem_rr exceeds that of the segment's first box, then "
                "whatever still holds tuples in post-order."
            )
        ],
    )


def table_4_1(_context: Context) -> Outcome:
    """Two chains of three boxes, deadlines of 4 and 8 box costs."""
    unit_s = P_NS / 1e9
    boxes = []
    for app, chain in enumerate((("b3", "b2", "b1"), ("b6", "b5", "b4")), start=1):
        for source, name in zip((f"in{app}", *chain), chain, strict=False):
            boxes.append(Box(name=name, inputs=(source,), cost_ns=P_NS))
    network = Network(
        streams=[Stream(name="in1"), Stream(name="in2")],
        boxes=boxes,
        queries=[
            Query(name="application1", output="b1", qos=QoSGraph.deadline(4 * unit_s)),
            Query(name="application2", output="b4", qos=QoSGraph.deadline(8 * unit_s)),
        ],
    )
    view = SystemState(network)
    slacks = {b.name: slack_ns(view, i, i // 3) / P_NS for i, b in enumerate(network.boxes)}
    view.pending = [1] * len(network.boxes)
    policy = make_policy_with("fixed-priority")
    order = _decisions(policy, view)
    printed = {"b1": 3, "b2": 2, "b3": 1, "b4": 7, "b5": 6, "b6": 5}
    text = ", ".join(f"{b} {s}" for b, s in printed.items())
    ours = ", ".join(f"{b} {s:.4g}" for b, s in slacks.items())

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.barh(order[::-1], [slacks[b] for b in order[::-1]])
        axes.set_xlabel("slack (time units); the schedule runs from top to bottom")

    return Outcome(
        claims=[
            Claim("slack of every box", "robust", text, ours, as_claimed(text == ours)),
            Claim(
                "Fixed-Priority schedule",
                "robust",
                "b3 b2 b1 b6 b5 b4",
                " ".join(order),
                as_claimed(order == ["b3", "b2", "b1", "b6", "b5", "b4"]),
            ),
        ],
        draw=draw,
    )


def _decisions(policy: BasePolicy, view: SystemState) -> list[str]:
    policy.attach(view, Work(), 1)
    order = []
    while isinstance(plan := policy.decide(0, 0), Plan):
        for step in plan.steps:
            view.pending[step.box] = 0
            order.append(view.network.boxes[step.box].name)
    return order


EXAMPLES = (
    Experiment("aurora/table3.1", "stepping through the min-cost traversal", table_3_1, seeds=1),
    Experiment("aurora/table3.2", "stepping through the min-latency traversal", table_3_2, seeds=1),
    Experiment("aurora/table3.3", "memory rates and the min-memory traversal", table_3_3, seeds=1),
    Experiment("aurora/table4.1", "box priorities of Fixed-Priority", table_4_1, seeds=1),
)
