"""Draws what every policy does with one small workload: ``python -m tools.schedules``.

The workload is ``examples/policies.toml``, simulated; the pictures show two of its seconds, one row
per query, one bar per call of a query by a worker. They are SVG, written by hand here: the same
every time, and small enough to be kept in the repository.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from daybreak.model.pipeline import Pipeline
from daybreak.policies.base import Plan
from daybreak.policies.registry import BUILTIN, make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.simulate import simulate

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "policies.toml"
PICTURES = ROOT / "docs" / "policies" / "img"
#: What is drawn, s; before it policies learn.
FROM_S, UNTIL_S = 4.0, 6.0
#: By class: the colour of its bars, distinct also for the colour-blind.
COLOURS = {"alarm": "#c0392b", "watch": "#d68910", "archive": "#2471a3"}
WIDTH, LEFT, TOP, ROW, BAR = 760, 104, 46, 26, 16

WORKLOAD = """\
Six queries of three classes read one stream on two workers
([the file](../../examples/policies.toml)). Starting a call costs 8 ms, whatever the number of
tuples, because a job on Spark is expensive to start. Ticks at the top are arrivals; a burst comes
every second. Each bar is one call of a query by a worker, and the number in it is how many tuples
it took. Many narrow bars are many small calls; wide bars are tuples that were gathered first.
"""


@dataclass(frozen=True)
class Bar:
    """One call of a query."""

    query: int
    worker: int
    begin_s: float
    end_s: float
    tuples: int


@dataclass(frozen=True)
class Schedule:
    """What one policy did."""

    pipeline: Pipeline
    bars: tuple[Bar, ...]
    arrivals_s: tuple[float, ...]
    report: RunReport


@cache
def schedule_of(name: str) -> Schedule:
    pipeline = Pipeline.read(EXAMPLE)
    params, network = pipeline.simulation, pipeline.network
    policy = make_policy_with(name)
    bars: list[Bar] = []
    begun: dict[int, tuple[int, int, int]] = {}
    decide, completed = policy.decide, policy.on_completion

    def decided(now_ns: int, worker: int) -> Any:
        plan = decide(now_ns, worker)
        if isinstance(plan, Plan):
            boxes = {step.box for step in plan.steps}
            query = network.box_queries[plan.steps[0].box][0]
            tuples = max(_taken(policy.view.pending[b], plan, b) for b in boxes)
            begun[worker] = query, now_ns, tuples
        return plan

    def ended(plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        query, begin_ns, tuples = begun.pop(worker)
        bars.append(Bar(query, worker, begin_ns / 1e9, now_ns / 1e9, tuples))
        completed(plan, worker, cost_ns, now_ns)

    policy.__dict__.update(decide=decided, on_completion=ended)
    arrivals = draw_schedule(network, params.duration_s, params.seed, 1.0)
    report = simulate(network, policy, arrivals, workers=params.workers, seed=params.seed)
    times = tuple(ns / 1e9 for ns in arrivals.at_ns.tolist())
    return Schedule(pipeline, tuple(bars), times, report)


def _taken(pending: int, plan: Plan, box: int) -> int:
    limits = [step.limit for step in plan.steps if step.box == box and step.limit]
    return min([pending, *limits])


def caption(name: str) -> str:
    """The figures of the picture's run: the whole of it, not only the part that is drawn."""
    found = schedule_of(name)
    rows = [
        "| class | priority | mean response | 95th percentile | utility |",
        "|---|---|---|---|---|",
    ]
    priorities = {c.name: c.priority for c in found.pipeline.classes}
    by_class = found.report.by_class()
    for cls in COLOURS:
        got = by_class[cls]
        rows.append(
            f"| {cls} | {priorities[cls]:g} | {got.mean_s * 1e3:.0f} ms | "
            f"{got.percentiles_s[95] * 1e3:.0f} ms | {got.utility:.2f} |"
        )
    drawn = (
        f"{len(found.bars)} calls in {found.pipeline.simulation.duration_s:g} s, of which two "
        "seconds are drawn. The [same workload under every policy](index.md). The command for "
        "these figures:"
    )
    command = f"$ daybreak simulate examples/policies.toml --policy {name}"
    return "\n".join([*rows, "", drawn, "", "```console", command, "```"])


def picture(name: str) -> str:
    """The schedule as SVG."""
    found = schedule_of(name)
    network = found.pipeline.network
    order = sorted(
        range(len(network.queries)), key=lambda q: (-_priority(found, q), network.queries[q].name)
    )
    place = {query: i for i, query in enumerate(order)}
    height = TOP + ROW * len(order) + 34
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="system-ui, sans-serif" font-size="12" role="img">'
        ),
        f"<title>Schedule of {name}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
        *_axis(found, len(order)),
    ]
    for query, i in place.items():
        y = TOP + i * ROW
        colour = COLOURS[network.queries[query].cls]
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end" fill="{colour}">'
            f"{network.queries[query].name}</text>"
        )
    for cls, colour in COLOURS.items():
        mine = [b for b in found.bars if network.queries[b.query].cls == cls]
        parts += _bars(mine, place, colour)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _priority(found: Schedule, query: int) -> float:
    classes = {c.name: c.priority for c in found.pipeline.classes}
    return classes[found.pipeline.network.queries[query].cls]


def _x(at_s: float) -> float:
    return LEFT + (at_s - FROM_S) / (UNTIL_S - FROM_S) * (WIDTH - LEFT - 24)


def _axis(found: Schedule, rows: int) -> Iterator[str]:
    bottom = TOP + ROW * rows
    for i in range(9):
        at_s = FROM_S + i * (UNTIL_S - FROM_S) / 8
        x = _x(at_s)
        yield f'<path d="M{x:.1f} {TOP - 4}V{bottom}" stroke="#dddddd"/>'
        yield (
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" fill="#555555">'
            f"{at_s:.2f} s</text>"
        )
    yield f'<text x="{LEFT - 8}" y="24" text-anchor="end" fill="#555555">arrivals</text>'
    ticks = "".join(f"M{_x(at):.1f} 14V30" for at in found.arrivals_s if FROM_S <= at <= UNTIL_S)
    yield f'<path d="{ticks}" stroke="#555555" stroke-opacity="0.5"/>'


def _bars(bars: list[Bar], place: dict[int, int], colour: str) -> Iterator[str]:
    shapes, numbers = [], []
    for bar in bars:
        if bar.end_s <= FROM_S or bar.begin_s >= UNTIL_S:
            continue
        left, right = max(_x(bar.begin_s), LEFT), min(_x(bar.end_s), WIDTH - 24)
        y = TOP + place[bar.query] * ROW + (ROW - BAR) // 2
        width = max(right - left - 0.6, 0.8)
        shapes.append(f"M{left:.1f} {y}h{width:.1f}v{BAR}h-{width:.1f}z")
        if right - left > 16:
            numbers.append(f'<text x="{(left + right) / 2:.1f}" y="{y + 12}">{bar.tuples}</text>')
    yield f'<path d="{"".join(shapes)}" fill="{colour}" fill-opacity="0.85"/>'
    if numbers:
        yield '<g text-anchor="middle" font-size="10" fill="#ffffff">' + "".join(numbers) + "</g>"


def pictures() -> dict[str, str]:
    """By path below ``docs/``."""
    return {f"policies/img/{p.name}.svg": picture(p.name) for p in BUILTIN}


def main() -> int:
    PICTURES.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")
        print(f"wrote docs/{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
