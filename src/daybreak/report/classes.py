"""How a run treated its classes, as a table and as the text's charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from daybreak.report.figures import COLOURS
from daybreak.report.text import duration
from daybreak.runtime.classes import (
    LEVELS,
    Alarm,
    ClassesOverTime,
    ClassFigures,
    schedule_updates_s,
    starvation_alarms,
)
from daybreak.runtime.report import RunReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def colour(index: int) -> str:
    """The colour of a class, the same in every chart."""
    return COLOURS[index % len(COLOURS)]


def treatment_table(report: RunReport) -> list[Sequence[str]]:
    """Weighted response, inversion, starvation and schedule updates; empty for one class."""
    if len(report.classes) < 2:
        return []
    figures, over = ClassFigures.of(report), ClassesOverTime.of(report)
    levels, updates = figures.inverts(), schedule_updates_s(report)
    alarms = starvation_alarms(report)
    ratio = figures.starvation_ratio
    mean, median, p95 = (duration(figures.weighted_s(level)) for level in ("mean", "p50", "p95"))
    share = f"{over.inverted_share(report.priorities):.0%}"
    return [
        ("classes", ""),
        ("weighted response", f"{mean} mean, {median} median, {p95} p95"),
        (
            "priority inversion",
            f"PrIR {figures.inversion():.3g} at the mean"
            + (f"; inverted at {', '.join(levels)}" if levels else ", at no percentile"),
        ),
        ("inverted over time", f"{share} of the slots of {duration(over.time_s[0])}"),
        (
            "starvation ratio",
            f"{ratio:.3g} ({report.classes[-1]} / {report.classes[0]})"
            if not math.isnan(ratio)
            else "- (a class had no results)",
        ),
        ("starvation alarms", "; ".join(_said(a) for a in alarms) or "none"),
        (
            "schedule updates",
            f"{len(updates)}, the last at {duration(updates[-1])}" if updates else "none",
        ),
    ]


def _said(alarm: Alarm) -> str:
    return f"{alarm.cls} x{alarm.factor:.3g} from {alarm.from_s:.3g} to {alarm.to_s:.3g} s"


def whiskers(axes: Axes, figures: ClassFigures, unit_s: float = 1.0) -> None:
    """One box per class: 10, 25, 50, 75 and 90 %, the mean a diamond (Figure 2 of the text)."""
    shown = [c for c, count in enumerate(figures.counts) if count]
    stats = [
        {
            "label": figures.classes[c],
            **{
                key: figures.response_s[LEVELS.index(level), c] / unit_s
                for key, level in _PARTS.items()
            },
        }
        for c in shown
    ]
    if not stats:
        return
    drawn = axes.bxp(
        stats,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        meanprops={"marker": "D", "ms": 4, "markerfacecolor": "white", "markeredgecolor": "black"},
        medianprops={"color": "black"},
    )
    for patch, c in zip(drawn["boxes"], shown, strict=True):
        patch.set_facecolor(colour(c))
        patch.set_alpha(0.6)


_PARTS = {"whislo": "p10", "q1": "p25", "med": "p50", "q3": "p75", "whishi": "p90", "mean": "mean"}


def inversion_over_time(axes: Axes, report: RunReport) -> None:
    """Cumulative PrIR in slots of a tenth of a second."""
    over = ClassesOverTime.of(report)
    values = over.inversion(report.priorities)
    axes.fill_between(over.time_s, values, step="pre", color=COLOURS[1], alpha=0.6)
    axes.set_xlabel("time (s)")
    axes.set_ylim(0, max(1.0, float(values.max(initial=0)) * 1.05))
