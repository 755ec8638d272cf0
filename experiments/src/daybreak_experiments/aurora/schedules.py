"""The worked examples of chapter 4: Table 4.3's buckets and section 4.5's schedules, exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, Overheads, QoSGraph, Query, Stream
from daybreak.policies.base import Plan, Work
from daybreak.policies.bucketing import BucketGrid
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.monitor import Monitor
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.executor import VirtualExecutor
from daybreak.simulation.loop import SimulationLoop
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNIT_NS = 1_000_000
UNIT_S = 1e-3


# Table 4.3. The graphs themselves are only in the pictures of Figure 4.8; these have the gradients
# and critical points that the example and the table name, times in units, values of 6 in all.
GRAPHS = {
    1: ((0, 6), (1, 6), (3, 4), (4, 1), (4.25, 0)),
    2: ((0, 6), (1, 6), (5, 2), (5.5, 0)),
}
#: Application, latency, slack bucket, slope bucket, traversal bucket, as printed.
TABLE_4_3 = (
    (1, 1.5, 2, 2, "bucket_32"),
    (1, 0.5, 1, 1, "bucket_41"),
    (1, 3.5, 1, 4, "bucket_11"),
    (2, 1.5, 4, 2, "bucket_34"),
    (2, 2.5, 3, 2, "bucket_33"),
)


def example_graphs() -> dict[int, QoSGraph]:
    return {
        app: QoSGraph(tuple((x * UNIT_S, y / 6) for x, y in points))
        for app, points in GRAPHS.items()
    }


def bucket_row(grid: BucketGrid, graph: QoSGraph, latency: float) -> tuple[int, int, str]:
    """Slack bucket, slope bucket and traversal bucket, counted from 1 as the text does."""
    bucket = grid.place(grid.ranges(graph), latency * UNIT_NS)[0]
    i, j = divmod(bucket, grid.partitions)
    return j + 1, grid.partitions - i, f"bucket_{i + 1}{j + 1}"


def table_4_3(_context: Context) -> Outcome:
    graphs = example_graphs()
    grid = BucketGrid(graphs.values(), 4)
    rows, claims = [], []
    for app, latency, *printed in TABLE_4_3:
        ours = bucket_row(grid, graphs[app], latency)
        claims.append(
            Claim(
                f"application {app}, latency {latency}", "robust",
                "slack {}, slope {}, {}".format(*printed), "slack {}, slope {}, {}".format(*ours),
                as_claimed(tuple(printed) == ours),
            )
        )  # fmt: skip
        rows.append([str(app), str(latency), *map(str, ours)])

    def draw(figure: Figure) -> None:
        for app, graph in graphs.items():
            axes = figure.add_subplot(1, 2, app)
            axes.plot([x / UNIT_S for x, _ in graph.points], [y for _, y in graph.points])
            for latency in [row[1] for row in TABLE_4_3 if row[0] == app]:
                slack, slope, name = bucket_row(grid, graph, latency)
                worth = float(graph.utility([round(latency * UNIT_NS)])[0])
                axes.plot([latency], [worth], "ko", markersize=4)
                axes.annotate(f"{name}\nslack {slack}, slope {slope}", (latency, worth),
                              textcoords="offset points", xytext=(6, 4), fontsize=8)  # fmt: skip
            axes.set_title(f"application {app}", fontsize=9)
            axes.set_xlabel("latency (time units)")
            axes.set_ylabel("QoS")
            axes.set_xlim(0, 6)
            axes.set_ylim(0, 1.15)

    return Outcome(
        claims=claims,
        table=[["application", "latency", "slack bucket", "slope bucket", "bucket"], *rows],
        draw=draw,
        notes=[
            ("bucket_ij has i = 5 - slope bucket, j = slack bucket. The graphs of Figure 4.8 are "
            "ours, with the gradients and critical points that the example and the table name: any "
            "graphs with these give the same rows.")
        ],
    )  # fmt: skip


class Schedule(NamedTuple):
    """One schedule of section 4.5: a policy, its list size, and the text's order if printed."""

    label: str
    policy: str
    params: dict[str, Any]
    printed: str | None


LITERAL = {"ect": "literal"}
SCHEDULES = (
    Schedule("Fixed, size 1", "fixed-priority", {"schedule_size": 1},
             "b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 b11 b12"),
    Schedule("Fixed, size 2", "fixed-priority", {"schedule_size": 2},
             "b1 b5 b2 b6 b3 b7 b4 b8 b9 b10 b11 b12"),
    Schedule("Fixed, size 3", "fixed-priority", {"schedule_size": 3}, None),
    Schedule("SlopeSlack, size 1", "slope-slack", {"schedule_size": 1, **LITERAL},
             "b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 b11 b12"),
    Schedule("SlopeSlack, size 2", "slope-slack", {"schedule_size": 2, **LITERAL},
             "b1 b5 b2 b6 b3 b7 b8 b9 b10 b4 b11 b12"),
    Schedule("SlopeSlack, size 3", "slope-slack", {"schedule_size": 3, **LITERAL},
             "b1 b5 b9 b2 b6 b10 b7 b11 b3 b12 b4 b8"),
    Schedule("SlopeSlack, size 3, path ect", "slope-slack", {"schedule_size": 3}, None),
    Schedule("Fixed push-through", "fixed-priority-push", {"schedule_size": 3}, None),
    Schedule("SlopeSlack push-through", "slope-slack-push", {"schedule_size": 3}, None),
)  # fmt: skip
DEADLINES = (6, 10, 14)


def three_applications() -> Network:
    """Section 4.5: three chains of four boxes of cost 1, deadlines of 6, 10 and 14."""
    boxes = [
        Box(name=f"b{n}", inputs=(f"b{n - 1}" if n % 4 != 1 else f"in{n // 4 + 1}",),
            cost_ns=UNIT_NS)
        for n in range(1, 13)
    ]  # fmt: skip
    queries = [
        Query(name=f"application{a}", output=f"b{4 * a}",
              qos=QoSGraph.deadline(d * UNIT_S, (d + 1e-3) * UNIT_S))
        for a, d in enumerate(DEADLINES, start=1)
    ]  # fmt: skip
    streams = [Stream(name=f"in{a}") for a in range(1, 4)]
    return Network(streams=streams, boxes=boxes, queries=queries)


class _Noting(VirtualExecutor):
    """Notes which boxes are called, in order."""

    calls: list[int]

    def start(self, worker: int, plan: Plan, work: Work) -> None:
        self.calls.extend(step.box for step in plan.steps)
        super().start(worker, plan, work)


def run_schedule(policy: str, params: dict[str, Any]) -> tuple[str, list[int]]:
    """The order of box calls, and when each application's tuple left, for one tuple each."""
    network = three_applications()
    state, monitor = SystemState(network), Monitor(network)
    at_once = ArrivalSchedule(np.zeros(3, np.int64), np.arange(3, dtype=np.int32))
    executor = _Noting(state, at_once, monitor, Overheads())
    executor.calls = []
    SimulationLoop(state, make_policy_with(policy, **params), executor, 1).run()
    left = monitor.report(state, executor.now_ns, 1, {}).outputs.departure_ns // UNIT_NS
    return " ".join(network.boxes[b].name for b in executor.calls), left.tolist()


def section_4_5(_context: Context) -> Outcome:
    runs = {s.label: run_schedule(s.policy, s.params) for s in SCHEDULES}

    def late(label: str) -> list[int]:
        pairs = zip(runs[label][1], DEADLINES, strict=True)
        return [a for a, (left, deadline) in enumerate(pairs, start=1) if left > deadline]

    claims = [
        Claim(
            s.label,
            "robust",
            s.printed,
            runs[s.label][0],
            as_claimed(runs[s.label][0] == s.printed),
        )
        for s in SCHEDULES
        if s.printed
    ]
    pushes = [s.label for s in SCHEDULES if "push" in s.label]
    claims += [
        Claim(
            "push-through misses no deadline at size 3", "robust", "meets urgent deadlines",
            "; ".join(f"{label} leaves at {runs[label][1]}" for label in pushes),
            as_claimed(not any(late(label) for label in pushes)),
        ),
        Claim(
            "SlopeSlack with size 3 misses two deadlines", "robust", "two applications",
            f"misses {late('SlopeSlack, size 3')}",
            as_claimed(len(late("SlopeSlack, size 3")) == 2),
        ),
        Claim(
            "Fixed with size 3 misses application 1's deadline only", "published", "only 1",
            f"misses {late('Fixed, size 3')}", as_claimed(late("Fixed, size 3") == [1]),
        ),
    ]  # fmt: skip

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for row, s in enumerate(SCHEDULES):
            order = runs[s.label][0].split()
            for t, box in enumerate(order):
                app = (int(box[1:]) - 1) // 4
                axes.barh(row, 1, left=t, color=f"C{app}", edgecolor="white")
                axes.text(t + 0.5, row, box, ha="center", va="center", fontsize=6, color="white")
        for app, deadline in enumerate(DEADLINES):
            axes.axvline(deadline, color=f"C{app}", linestyle="--", label=f"deadline {app + 1}")
        axes.set_yticks(range(len(SCHEDULES)), [s.label for s in SCHEDULES], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlabel("time (box costs)")
        axes.set_xlim(0, 16.5)
        axes.legend(fontsize=7, loc="upper right")
        axes.grid(visible=False)

    return Outcome(
        claims=claims,
        table=[
            ["schedule", "order", "left at", "late"],
            *(
                [label, order, " ".join(map(str, left)), " ".join(map(str, late(label))) or "none"]
                for label, (order, left) in runs.items()
            ),
        ],
        draw=draw,
        notes=[
            ("The printed SlopeSlack schedules need the literal ect. By path ect b2 has no time "
            "to spare at time 3, since three boxes are ahead of it, and comes after b6 and b10."),
            ("A misprint: with size 3, Fixed also misses application 2's deadline. Its lists are "
            "b1 b5 b9, b2 b6 b10, b3 b7 b11, b4 b8 b12, so b8 ends at 11, after 10."),
        ],
    )  # fmt: skip


SCHEDULING = (
    Experiment("aurora/table4.3", "bucket assignments", table_4_3, seeds=1),
    Experiment("aurora/section4.5", "schedules box at a time and pushed through", section_4_5,
               seeds=1),
)  # fmt: skip
