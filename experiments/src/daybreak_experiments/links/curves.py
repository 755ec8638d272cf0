"""Figure 4: tuples delivered against bandwidth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daybreak.links.needs import Floats, met_percent
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SEEDS, SHORT, all_needs, kb
from daybreak_experiments.rules import as_claimed, below, near

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GRID_KB = tuple(round(0.5 + 0.25 * i, 2) for i in range(17))
SCHEDULERS = ("fifo", "static-priority", "min-slack", "conveyor-belt", "hybrid", "due")


def _curve(job: tuple[str, tuple[int, ...]]) -> list[list[float]]:
    """Per bandwidth and class, the mean percentage of the minimum."""
    name, seeds = job
    scenario = LinkScenario(scheduler=name)
    return [
        np.mean([met_percent(scenario.at(k * 1000), s) for s in seeds], axis=0).tolist()
        for k in GRID_KB
    ]


def fig4(ctx: Context) -> Outcome:
    results = ctx.map(_curve, [(name, tuple(ctx.seeds)) for name in SCHEDULERS])
    curves = {name: np.array(r) for name, r in zip(SCHEDULERS, results, strict=True)}
    (fifo, sp) = all_needs(ctx, [LinkScenario(scheduler=n) for n in ("fifo", "static-priority")])
    rows = [["KB/s", *(f"{SHORT[n]} class {c}" for n in SCHEDULERS for c in (1, 2))]]
    for i, k in enumerate(GRID_KB):
        rows.append([f"{k:.2f}", *(f"{curves[n][i, c]:.0f}" for n in SCHEDULERS for c in (0, 1))])
    claims = [
        Claim(
            "SP meets class 2 at about 3.6 KB/s",
            "robust",
            "3.6 KB/s",
            kb(sp[1]),
            near(3.6, sp[1].kb_per_s, by=0.1),
        ),
        Claim(
            "SP meets class 1 at far less bandwidth than FIFO",
            "robust",
            "drawn, no number",
            f"{kb(sp[0])} against {kb(fifo[0])}",
            below(0.6, sp[0].kb_per_s / fifo[0].kb_per_s),
        ),
        Claim(
            "the price is class 2: SP needs more for both classes than FIFO",
            "robust",
            "drawn, no number",
            f"{kb(sp[1])} against {kb(fifo[0])}",
            as_claimed(sp[1].kb_per_s > fifo[0].kb_per_s),
        ),
    ]
    note = "Percentages of the minimum; the text draws FIFO and SP only, the others are ours."
    return Outcome(claims, rows, partial(_draw, curves), [note])


def _draw(curves: dict[str, Floats], figure: Figure) -> None:
    both = figure.subplots(1, 2, sharey=True)
    for c, axes in enumerate(both):
        for name in SCHEDULERS:
            style = "--" if name == "hybrid" else "-"
            axes.plot(GRID_KB, curves[name][:, c], style, marker=".", label=SHORT[name])
        axes.axhline(100, color="black", lw=0.8)
        axes.set_title(f"class {c + 1}")
        axes.set_xlabel("bandwidth, KB/s")
    both[0].set_ylabel("delivered, % of the minimum")
    both[1].legend(loc="lower right")


EXPERIMENTS = (Experiment("links/fig4", "Tuples delivered against bandwidth", fig4, seeds=SEEDS),)
