"""Chapter 7's comparison: CQC, ABD and MBD on one core, on two, and on many.

The text argues it without figures. One core: workload A, which also runs its sources. Two: 5G
with a core for the sources. Many: 5G_4 and 3D_6, with more queries than classes and cores.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daybreak.report.classes import colour
from daybreak_experiments.classes.measures import Setting, Sweep, ms, published, times
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEDULERS = ("CQC", "ABD", "MBD")
SYSTEMS = {
    "one core (A)": "A",
    "two cores (5G)": "5G",
    "4+1 cores (5G_4)": "5G_4",
    "6+1 cores (3D_6)": "3D_6",
}
#: What the text says suits each system.
SUITS = {
    "one core (A)": "CQC",
    "two cores (5G)": "ABD",
    "4+1 cores (5G_4)": "MBD",
    "6+1 cores (3D_6)": "MBD",
}


def setting(workload: str, scheduler: str) -> Setting:
    """CQC with the periods of Tables 1 and 3."""
    if scheduler == "CQC":
        alone = workload == "A"
        return Setting.of(
            workload, "cqc", period_us=1000.0 if alone else 30_000.0, own_sources=alone
        )
    return Setting.of(workload, scheduler.lower())


def run(context: Context) -> Outcome:
    found = {
        (system, s): setting(workload, s)
        for system, workload in SYSTEMS.items()
        for s in SCHEDULERS
    }
    sweep = Sweep(context, found.values())
    rows = [["system", "scheduler", "class 1", "lowest class", "weighted", "PrIR", "overrun"]]
    claims: list[Claim] = []
    for system in SYSTEMS:
        for s in SCHEDULERS:
            at = found[system, s]
            rows.append(
                [
                    system,
                    s,
                    ms(sweep.class_ms(at, 0)),
                    ms(sweep.class_ms(at, -1)),
                    ms(sweep.weighted_ms(at)),
                    f"{sweep.mean(at, lambda r: r.figures.inversion()):.3g}",
                    f"{sweep.mean(at, lambda r: r.overrun):.1%}",
                ]
            )
        weighted = {s: sweep.weighted_ms(found[system, s]) for s in SCHEDULERS}
        first = {s: sweep.class_ms(found[system, s], 0) for s in SCHEDULERS}
        suited = SUITS[system]
        others = [s for s in SCHEDULERS if s != suited]
        claims.append(
            published(
                f"{system}: {suited} suits it best",
                "yes",
                f"lowest weighted response: {min(weighted, key=weighted.__getitem__)}; lowest "
                f"class 1: {min(first, key=first.__getitem__)}; weighted against {suited}: "
                + ", ".join(f"{s} {times(weighted[s] / weighted[suited])}" for s in others),
                required(
                    "the lowest weighted response, over the seeds' mean",
                    weighted[suited] == min(weighted.values()),
                ),
            )
        )

    def draw(figure: Figure) -> None:
        figure.set_size_inches(10.0, 4.0)
        grid = figure.subplots(1, 2)
        for axes, place, title in ((grid[0], 0, "class 1"), (grid[1], None, "weighted")):
            for i, s in enumerate(SCHEDULERS):
                values = [
                    sweep.weighted_ms(found[x, s]) if place is None
                    else sweep.class_ms(found[x, s], place)
                    for x in SYSTEMS
                ]  # fmt: skip
                places = np.arange(len(SYSTEMS)) + (i - 1) * 0.27
                axes.bar(places, values, 0.25, label=s, color=colour(i))
            axes.set_xticks(range(len(SYSTEMS)), [x.replace(" (", "\n(") for x in SYSTEMS])
            axes.set_yscale("log")
            axes.set_ylabel("mean response (ms)")
            axes.set_title(title)
        grid[0].legend()

    return Outcome(claims, rows, draw, NOTES)


NOTES = (
    (
        "CQC and ABD run a class on one core at a time, so on many cores a heavy class has "
        "the power of one core only. Overrun: how much longer the work took than the input."
    ),
)

EXPERIMENTS = (
    Experiment(
        "classes/chapter7", "Chapter 7: CQC, ABD and MBD on one, two and many cores", run, seeds=3
    ),
)
