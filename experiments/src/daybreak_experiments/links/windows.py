"""Section 3.4: minima over windows against totals, and which tuples are optional."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from daybreak.links.link_simulator import counts
from daybreak.links.needs import Floats, need_of_all
from daybreak.links.scenario import LinkScenario, simulate
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SEEDS, SHORT, all_needs, kb
from daybreak_experiments.rules import below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMES = ("static-priority", "min-slack", "conveyor-belt", "due", "due-window")
GRID_KB = (1.5, 2.0, 2.5, 2.6, 2.8, 3.0, 3.5)


def _shares(job: tuple[str, float, tuple[int, ...]]) -> list[list[float]]:
    """Per class: delivered of arrived, and complete windows that got their minimum."""
    name, kb_per_s, seeds = job
    scenario = LinkScenario(scheduler=name, bandwidth_bytes_per_s=kb_per_s * 1000)
    runs = [counts(simulate(scenario, s), scenario.classes) for s in seeds]
    mean: list[list[float]] = np.mean(
        [[[c.share / 0.6, c.window_share] for c in run] for run in runs], axis=0
    ).tolist()
    return mean


def windows(ctx: Context) -> Outcome:
    jobs = [(n, k, tuple(ctx.seeds)) for n in NAMES for k in GRID_KB]
    found = np.array(ctx.map(_shares, jobs)).reshape(len(NAMES), len(GRID_KB), 2, 2)
    rows = [["scheduler", "KB/s", "class 1 total", "windows", "class 2 total", "windows"]]
    for i, name in enumerate(NAMES):
        for j, k in enumerate(GRID_KB):
            rows.append([SHORT[name], f"{k:.1f}", *(f"{v:.0%}" for v in found[i, j].flatten())])
    at = GRID_KB.index(2.5)
    msf, due, per_window = (found[NAMES.index(n), at] for n in ("min-slack", "due", "due-window"))
    claims = [
        Claim(
            "at 2.5 KB/s MSF meets the totals but only about 60 % of the windows",
            "robust",
            "100 % / 60 % (reference)",
            f"{msf[0, 0]:.0%} / {msf[0, 1]:.0%}",
            required(
                "totals within 3 points of 100 %, windows from 50 to 70 %",
                abs(msf[0, 0] - 1) < 0.03,
                0.5 < msf[0, 1] < 0.7,
            ),
        ),
        Claim(
            "at 2.5 KB/s due-window meets more windows of class 1 than due and as many of class 2",
            "robust",
            "not in the text",
            f"{per_window[0, 1]:.0%} and {per_window[1, 1]:.0%} against "
            f"{due[0, 1]:.0%} and {due[1, 1]:.0%}",
            required(
                "10 points more, and at most 2 points less",
                per_window[0, 1] > due[0, 1] + 0.1,
                per_window[1, 1] > due[1, 1] - 0.02,
            ),
        ),
    ]
    note = "Totals are in per cent of the minimum, windows in per cent of the complete windows."
    return Outcome(claims, rows, partial(_draw, found), [note])


def _draw(found: Floats, figure: Figure) -> None:
    both = figure.subplots(1, 2, sharey=True)
    for c, axes in enumerate(both):
        for i, name in enumerate(NAMES):
            axes.plot(GRID_KB, 100 * found[i, :, c, 1], "o-", ms=4, label=SHORT[name])
        axes.set_title(f"class {c + 1}")
        axes.set_xlabel("bandwidth, KB/s")
    both[0].set_ylabel("windows that got their minimum, %")
    both[0].legend(loc="lower right")


def marks(ctx: Context) -> Outcome:
    labels = ("last of a window", "first of a window", "spread", "dynamic")
    scenarios = [
        LinkScenario(scheduler="conveyor-belt"),
        LinkScenario(scheduler="conveyor-belt", marks="first"),
        LinkScenario(scheduler="conveyor-belt", marks="spread"),
        LinkScenario(scheduler="conveyor-belt", params={"marks": "dynamic"}),
    ]
    found = dict(zip(labels, all_needs(ctx, scenarios), strict=True))
    rows = [["optional tuples", "class 1, KB/s", "both, KB/s"]]
    rows += [[label, kb(n[0]), kb(need_of_all(n))] for label, n in found.items()]
    static = [found[label] for label in labels[:3]]
    spread = max(
        max(n[c].kb_per_s for n in static) - min(n[c].kb_per_s for n in static) for c in (0, 1)
    )
    dynamic = found["dynamic"][0].bytes_per_s / found["last of a window"][0].bytes_per_s - 1
    claims = [
        Claim(
            "which tuples of a window are optional hardly matters",
            "robust",
            "not said",
            f"at most {spread:.2f} KB/s apart",
            below(0.1, spread),
        ),
        Claim(
            "marks that follow what was dropped perform the same as static ones",
            "published",
            "the same",
            f"class 1 needs {dynamic:+.0%}",
            below(0.03, abs(dynamic)),
        ),
    ]
    return Outcome(claims, rows)


EXPERIMENTS = (
    Experiment("links/section3.4", "Static and dynamic marks on the belt", marks, seeds=SEEDS),
    Experiment("links/windows", "Totals against windows", windows, seeds=8),
)
