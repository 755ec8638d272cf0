"""Section 5.1: more than two classes, together or in pairs with a bandwidth of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daybreak.links.link_classes import LinkClass, least_bytes_per_s
from daybreak.links.needs import Floats, met_percent
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SHORT
from daybreak_experiments.rules import above, as_claimed, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Four classes with unequal minima, sizes and deadlines; the least they need is 4.1 KB/s.
FOUR = (
    LinkClass(name="alarm", value=4, deadline_s=0.8, m=9, n=10, size_bytes=250, rate_per_s=2),
    LinkClass(name="track", value=3, deadline_s=1.4, m=6, n=10, size_bytes=500, rate_per_s=5),
    LinkClass(name="report", value=2, deadline_s=1.95, m=6, n=10, size_bytes=500, rate_per_s=4),
    LinkClass(name="picture", value=1, deadline_s=4.0, m=3, n=10, size_bytes=1500, rate_per_s=2),
)
TOGETHER = ("static-priority", "min-slack", "conveyor-belt", "hybrid", "due", "due-window")
#: Name of a split -> classes and scheduler of each part; bandwidth goes by the parts' minima.
SPLITS = {
    "pairs, CB + MSF": (((0, 1), "conveyor-belt"), ((2, 3), "min-slack")),
    "pairs, SP + MSF": (((0, 1), "static-priority"), ((2, 3), "min-slack")),
    "pairs, DUE + DUE": (((0, 1), "due"), ((2, 3), "due")),
}
FACTORS = (0.8, 0.9, 1.0, 1.05, 1.1, 1.2, 1.3, 1.5, 1.8)


def _together(job: tuple[str, float, tuple[int, ...]]) -> list[float]:
    name, factor, seeds = job
    return _met(FOUR, name, factor * least_bytes_per_s(FOUR), seeds)


def _in_parts(job: tuple[str, float, tuple[int, ...]]) -> list[float]:
    """Each part has a fixed share of the link and knows nothing of the other."""
    split, factor, seeds = job
    met: list[float] = []
    for ranks, name in SPLITS[split]:
        part = tuple(FOUR[r] for r in ranks)
        met += _met(part, name, factor * least_bytes_per_s(part), seeds)
    return met


def _met(
    classes: tuple[LinkClass, ...], name: str, bandwidth: float, seeds: Sequence[int]
) -> list[float]:
    scenario = LinkScenario(classes=classes, scheduler=name, bandwidth_bytes_per_s=bandwidth)
    runs = [met_percent(scenario, seed, "actual") for seed in seeds]
    mean: list[float] = np.mean(runs, axis=0).tolist()
    return mean


def section_5_1(ctx: Context) -> Outcome:
    seeds = tuple(ctx.seeds)
    one = ctx.map(_together, [(n, f, seeds) for n in TOGETHER for f in FACTORS])
    parts = ctx.map(_in_parts, [(s, f, seeds) for s in SPLITS for f in FACTORS])
    labels = [*(SHORT[n] for n in TOGETHER), *SPLITS]
    met = np.array([*one, *parts]).reshape(len(labels), len(FACTORS), len(FOUR))
    least_kb = least_bytes_per_s(FOUR) / 1000
    rows = [["scheduler", "x least", "KB/s", *(f"{c.name}, %" for c in FOUR)]]
    for i, label in enumerate(labels):
        for j, factor in enumerate(FACTORS):
            if factor in (0.8, 1.05, 1.2, 1.5):
                figures = [f"{v:.0f}" for v in met[i, j]]
                rows.append([label, f"{factor}", f"{factor * least_kb:.2f}", *figures])
    enough = [_enough(met[i]) for i in range(len(labels))]
    by_label = dict(zip(labels, enough, strict=True))
    rest = min(by_label[SHORT[n]] for n in TOGETHER if not n.startswith("due"))
    split = min(by_label[s] for s in SPLITS)
    highest = [met[labels.index("DUE"), j, 0] for j in range(len(FACTORS))]
    claims = [
        Claim(
            "the schedulers take any number of classes unmodified",
            "robust",
            "no modifications required",
            f"four classes, {len(TOGETHER)} schedulers",
            as_claimed(np.isfinite(met).all()),
        ),
        Claim(
            "DUE meets all four classes at less bandwidth than the text's schedulers",
            "robust",
            "not in the text",
            f"{by_label['DUE']:.2f} x the least, the best other {_shown(rest)}",
            as_claimed(by_label["DUE"] < rest),
        ),
        Claim(
            "DUE meets the highest class even below the least bandwidth for all",
            "robust",
            "not in the text",
            f"{min(highest):.0f} % or more from {FACTORS[0]} x the least on",
            at_least(100, min(highest)),
        ),
        Claim(
            "splitting the bandwidth over pairs of classes simplifies the problem",
            "published",
            "possible, not tried",
            f"all met at {_shown(split)} the least; together at {_shown(min(enough))}",
            as_claimed(split <= min(enough)),
        ),
    ]
    note = (
        f"The minima alone take {least_kb:.2f} KB/s. A split gives each pair a fixed share, by its "
        "minima; what one pair leaves unused is lost to the other."
    )
    return Outcome(claims, rows, partial(_draw, labels, met), [note])


def _enough(met: Floats) -> float:
    """The smallest factor from which on every class stays met; infinite if none does."""
    for j in range(len(FACTORS)):
        if (met[j:] >= 100).all():
            return FACTORS[j]
    return float("inf")


def _shown(factor: float) -> str:
    return f"{factor:.2f} x" if np.isfinite(factor) else f"more than {FACTORS[-1]} x"


def _draw(labels: Sequence[str], met: Floats, figure: Figure) -> None:
    axes = figure.subplots()
    for i, label in enumerate(labels):
        one = i < len(TOGETHER)
        colour = f"C{i}" if one else ("#000000", "#999999", "#7A5C00")[i - len(TOGETHER)]
        style = ":o" if label == "hybrid" else "-o" if one else "--s"  # it hides CB otherwise
        axes.plot(FACTORS, met[i].min(axis=1), style, ms=4, color=colour, label=label)
    axes.axhline(100, color="black", lw=0.8)
    axes.set_xlabel("bandwidth over the least that all minima take")
    axes.set_ylabel("worst class, % of its minimum")
    axes.set_ylim(0, 160)
    axes.legend(loc="lower right", ncols=2, fontsize=9)


def _sizes() -> dict[str, tuple[LinkClass, ...]]:
    """The volumes of section 4 in tuples of other sizes."""
    first, second = LinkScenario().classes
    return {
        "500 and 500 bytes": (first, second),
        "250 and 750 bytes": (
            replace(first, size_bytes=250, rate_per_s=10),
            replace(second, size_bytes=750, rate_per_s=20 / 9),
        ),
        "1000 and 500 bytes": (replace(first, size_bytes=1000, rate_per_s=2.5), second),
        "1000 and 500 bytes, class 1 with twice the deadline": (
            replace(first, size_bytes=1000, rate_per_s=2.5, deadline_s=2.8),
            second,
        ),
    }


def unequal_sizes(ctx: Context) -> Outcome:
    """The belt where tuples take one, two or three slots."""
    names = ("min-slack", "conveyor-belt", "due")
    seeds = tuple(ctx.seeds)
    rows = [["sizes", "scheduler", "class 1 / 2 at 2.1 KB/s, %", "at 2.8 KB/s, %"]]
    short: dict[tuple[str, str], float] = {}
    for label, classes in _sizes().items():
        for name in names:
            low, high = (_met(classes, name, 1000 * k, seeds) for k in (2.1, 2.8))
            short[label, name] = low[0]
            cells = [f"{a:.0f} / {b:.0f}" for a, b in (low, high)]
            rows.append([label, SHORT[name], *cells])
    gains = {label: short[label, "conveyor-belt"] - short[label, "min-slack"] for label in _sizes()}
    tight = "1000 and 500 bytes"
    claims = [
        Claim(
            "with unequal sizes CB still serves class 1 first where bandwidth is short",
            "robust",
            "easily extended, not tried",
            ", ".join(
                f"{g:+.0f} points to MSF ({label})" for label, g in gains.items() if label != tight
            ),
            above(5, *(gain for label, gain in gains.items() if label != tight)),
        ),
        Claim(
            "also where a transfer takes a third of the deadline",
            "published",
            "easily extended, not tried",
            f"{gains[tight]:+.0f} points to MSF ({tight})",
            above(5, gains[tight]),
        ),
    ]
    note = (
        "With few slots before the deadline the belt has little to rearrange; the text sees the "
        "same at short deadlines of class 1."
    )
    return Outcome(claims, rows, notes=[note])


EXPERIMENTS = (
    Experiment("links/section5.1", "More than two classes, and pairs of them", section_5_1, 6),
    Experiment("links/sizes", "The belt with unequal tuple sizes", unequal_sizes, seeds=6),
)
