"""Due against the hybrid over a grid of minimum delivery requirements (ours)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daybreak.links.due import MARGIN
from daybreak.links.link_classes import SECTION_4, least_bytes_per_s
from daybreak.links.needs import Need, need_of_all
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import all_needs, kb
from daybreak_experiments.rules import at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID = tuple((first, second) for first in (3, 6, 9) for second in (3, 6, 9))
NAMES = ("hybrid", "due")
Found = dict[tuple[tuple[int, int], str], list[Need]]


def _scenario(minima: tuple[int, int], name: str) -> LinkScenario:
    classes = tuple(replace(c, m=m) for c, m in zip(SECTION_4, minima, strict=True))
    return LinkScenario(scheduler=name, classes=classes)


def due_grid(ctx: Context) -> Outcome:
    keys = [(minima, name) for minima in GRID for name in NAMES]
    needs = all_needs(ctx, [_scenario(*key) for key in keys], "actual")
    found: Found = dict(zip(keys, needs, strict=True))
    rows = [["minima", "least, KB/s", "hybrid class 1", "DUE class 1", "hybrid both", "DUE both"]]
    for first, second in GRID:
        hybrid, due = (found[(first, second), n] for n in NAMES)
        least = least_bytes_per_s(_scenario((first, second), "due").classes) / 1000
        cells = [hybrid[0], due[0], need_of_all(hybrid), need_of_all(due)]
        rows.append([f"{first}/10, {second}/10", f"{least:.2f}", *(kb(n) for n in cells)])
    claims = [
        _no_worse("class 1 alone", {m: (found[m, "hybrid"][0], found[m, "due"][0]) for m in GRID}),
        _no_worse(
            "both classes",
            {m: (need_of_all(found[m, "hybrid"]), need_of_all(found[m, "due"])) for m in GRID},
        ),
    ]
    return Outcome(claims, rows, partial(_draw, found), [NOTE])


NOTE = (
    "Counted on actual arrivals. Due aims at (1 + margin) times the minimum, so it may need that "
    f"much more than a scheduler that happens to sit right at its minimum: {MARGIN:.0%}."
)


def _no_worse(goal: str, pairs: dict[tuple[int, int], tuple[Need, Need]]) -> Claim:
    """Due needs at most its margin more than the hybrid, for every pair of minima."""
    ratios = {
        minima: due.bytes_per_s / hybrid.bytes_per_s for minima, (hybrid, due) in pairs.items()
    }
    worst = max(ratios, key=lambda minima: ratios[minima])
    return Claim(
        f"DUE beats or equals the hybrid for {goal}, within its margin",
        "robust",
        "not in the text",
        f"{min(ratios.values()) - 1:+.0%} to {ratios[worst] - 1:+.1%} of the hybrid's need, the "
        f"most at {worst[0]}/10 and {worst[1]}/10",
        at_most(1 + MARGIN, *ratios.values()),
    )


def _draw(found: Found, figure: Figure) -> None:
    axes = figure.subplots()
    at = np.arange(len(GRID))
    for k, name in enumerate(NAMES):
        first = [found[m, name][0].kb_per_s for m in GRID]
        both = [need_of_all(found[m, name]).kb_per_s for m in GRID]
        axes.bar(at + 0.36 * k - 0.18, both, 0.34, color=f"C{k}", alpha=0.45, label=f"{name}, both")
        axes.bar(at + 0.36 * k - 0.18, first, 0.2, color=f"C{k}", label=f"{name}, class 1")
    least = [least_bytes_per_s(_scenario(m, "due").classes) / 1000 for m in GRID]
    axes.plot(at, least, "k_", ms=30, label="least for both")
    axes.set_xticks(at, [f"{a}/10\n{b}/10" for a, b in GRID])
    axes.set_xlabel("minimum of class 1 and of class 2")
    axes.set_ylabel("required bandwidth, KB/s")
    axes.set_ylim(0, 6)
    axes.legend(ncols=3, loc="upper left")


EXPERIMENTS = (
    Experiment("links/due", "Due against the hybrid over a grid of minima", due_grid, seeds=12),
)
