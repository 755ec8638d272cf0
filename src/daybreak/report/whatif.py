"""A what-if as tables and as a picture: the curves of all runs on the same axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from daybreak.report.classes import colour
from daybreak.report.figures import save_figure
from daybreak.report.text import count, duration, number
from daybreak.simulation.whatif import CALIBRATED, Outcome, WhatIf

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Rows = list[Sequence[str]]


def whatif_table(found: WhatIf) -> Rows:
    """One row per run, the recorded one first."""
    heads = ("run", "answers", "waiting", "busy", "mean", "p95", "utility", "stale")
    rows: Rows = [(*heads, *(f"p95 {c}" for c in found.classes))]
    for o in found.outcomes:
        overall, by_class = o.report.overall(), o.report.by_class()
        rows.append(
            (
                o.name, count(overall.count), count(o.waiting), f"{o.busy:.0%}",
                duration(overall.mean_s), duration(overall.percentiles_s[95]),
                number(o.utility), f"{o.report.overall_staleness:.1%}",
                *(duration(by_class[c].percentiles_s[95]) for c in found.classes),
            )
        )  # fmt: skip
    return rows


def calibration_table(found: WhatIf) -> Rows:
    """Replayed over recorded response times of the recorded policy."""
    rows: Rows = [("class", *CALIBRATED)]
    for cls, ratios in found.calibration.ratios.items():
        rows.append((cls, *(_times(ratios[level]) for level in CALIBRATED)))
    return rows


def calibration_line(found: WhatIf) -> str:
    """How far to trust it, in one line."""
    policy = found.outcomes[1].report.manifest["policy"]
    if math.isnan(found.calibration.worst):
        return f"calibration: {policy} cannot be compared, for lack of results"
    stale, utility = found.calibration.staleness, found.calibration.utility
    worth = "" if math.isnan(utility) else f"utility {utility:+.3f}, "
    return (
        f"calibration: {policy} replayed is within a factor of {found.calibration.worst:.3g} of "
        f"what was recorded (mean, p50 and p95 of every class), {worth}staleness {stale:+.1%}: "
        "differences smaller than that mean nothing"
    )


def promise_lines(found: WhatIf) -> list[str]:
    """For every run under a policy that plans: what it planned, and what came of it."""
    return [
        f"{o.name}: planned utility {o.promised[0]:.3f} of at most {o.promised[1]:.3f}, "
        f"measured {o.utility:.3f}"
        for o in found.outcomes
        if o.promised is not None
    ]


def plot_whatif(found: WhatIf, path: Path) -> Path:
    """One row per measure, one column per class; the recorded run in black."""
    kinds = {"p50": "p50 response (s)", "p95": "p95 response (s)"}
    curves = [c for o in found.outcomes for c in o.curves.values()]
    if any(not np.isnan(c.utility).all() for c in curves):
        kinds["utility"] = "utility"
    kinds["staleness"] = "staleness"
    time_s = found.from_s + found.edges_s[1:]

    def draw(figure: Figure) -> None:
        grid = figure.subplots(
            len(kinds), len(found.classes), squeeze=False, sharex=True, sharey="row"
        )
        for row, (kind, label) in enumerate(kinds.items()):
            for column, cls in enumerate(found.classes):
                axes = grid[row][column]
                for at, outcome in enumerate(found.outcomes):
                    _curve(axes, time_s, outcome, cls, kind, at)
                if kind.startswith("p"):
                    axes.set_yscale("log")
                else:
                    axes.set_ylim(-0.05, 1.05)
            grid[row][0].set_ylabel(label)
        for column, cls in enumerate(found.classes):
            grid[0][column].set_title(cls)
            grid[-1][column].set_xlabel("time (s)")
        handles, labels = grid[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=min(4, len(labels)))

    return save_figure(
        draw, path, size=(max(6.0, 3.6 * len(found.classes)), 0.6 + 2.1 * len(kinds))
    )


def _curve(axes: Axes, time_s: np.ndarray, outcome: Outcome, cls: str, kind: str, at: int) -> None:
    curves = outcome.curves[cls]
    values = curves.response_s[int(kind[1:])] if kind.startswith("p") else getattr(curves, kind)
    some = ~np.isnan(values)
    look = {"color": "black", "lw": 2.0} if not at else {"color": colour(at - 1), "lw": 1.2}
    axes.plot(time_s[some], values[some], label=outcome.name, **look)  # type: ignore[arg-type]


def _times(ratio: float) -> str:
    return "-" if math.isnan(ratio) else f"x {ratio:.3g}"
