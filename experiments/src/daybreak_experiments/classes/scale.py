"""Scalability of MBD: Scale_CQs, Scale_Input and Scale_Overld (section 6.3.2, Figures 70-83)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daybreak.report.classes import colour
from daybreak_experiments.classes.measures import (
    Seen,
    Setting,
    Sweep,
    every_seed,
    ms,
    published,
    ranged,
    times,
)
from daybreak_experiments.classes.workloads import load_workload
from daybreak_experiments.core import Claim, Context, Experiment, Note, Outcome
from daybreak_experiments.rules import as_claimed, at_most, in_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Curve = NDArray[np.float64]

CORES = (2, 4, 8, 16)
#: Shorter than the text's 10 000 tuples per stream: a second has 1200 tuples on each of up to
#: 528 streams.
SECONDS = 2.0
#: "The response time per class does not increase": the weighted one within so much. The text's
#: own spans 3 % weighted and 22 % for class 1.
FLAT = 1.15
#: The knee: where the mean response first exceeds so many times what it is at the lowest rate.
KNEE = 3.0
#: The text puts it at 1600 tuples/s. Ours may lie so far off, and between numbers of cores.
NEAR, COINCIDE = 0.15, 1.15
#: Until some 2000 tuples/s, well beyond the knee.
OVERLOADED_S = 5.0
#: Figures 70-74: mean response of each class, from 2 to 16 cores.
PRINTED_MS = ((1.28, 1.56), (1.72, 1.85), (2.54, 2.67), (3.00, 3.13), (3.85, 4.13))
NOTE = f"Runs last {SECONDS:g} s instead of 10 000 tuples per stream."


def _table(sweep: Sweep, settings: dict[int, Setting]) -> list[list[str]]:
    rows = [["operational cores", *(f"class {c}" for c in range(1, 6)), "weighted"]]
    for cores, setting in settings.items():
        means = [ms(sweep.class_ms(setting, c)) for c in range(5)]
        rows.append([str(cores), *means, ms(sweep.weighted_ms(setting))])
    return rows


def _curves(figure: Figure, sweep: Sweep, settings: dict[int, Setting]) -> None:
    axes = figure.add_subplot()
    for c in range(5):
        values = [sweep.class_ms(s, c) for s in settings.values()]
        axes.plot(list(settings), values, marker="o", label=f"class {c + 1}", color=colour(c))
    weighted = [sweep.weighted_ms(s) for s in settings.values()]
    axes.plot(list(settings), weighted, "k--", marker="s", label="weighted")
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(settings), [str(n) for n in settings])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("operational cores")
    axes.set_ylabel("mean response (ms)")
    axes.legend(ncols=3)


def scale_cqs(context: Context) -> Outcome:
    settings = {n: Setting.of(f"5S_{n}", "mbd").lasting(SECONDS) for n in CORES}
    sweep = Sweep(context, settings.values())
    weighted = [[r.weighted_ms for r in sweep.seen(s)] for s in settings.values()]
    means = [sweep.weighted_ms(s) for s in settings.values()]
    spread = [max(values) / min(values) for values in zip(*weighted, strict=True)]
    clean = [r.figures.inversion() == 0 for s in settings.values() for r in sweep.seen(s)]
    return Outcome(
        claims=[
            every_seed(
                f"the weighted response is flat from 2 to 16 cores (within {FLAT:g}x)",
                "2.11 to 2.18 ms",
                f"within {ranged(spread)}",
                [x <= FLAT for x in spread],
            ),
            every_seed("no inversion at the mean", "none", f"{sum(clean)} runs clean", clean),
            published(
                "weighted response",
                "2.11 to 2.18 ms",
                ranged(means, ms),
                in_range(2.11, 2.18, means),
            ),
            *(
                published(
                    f"class {c}",
                    f"{low:.2f}-{high:.2f} ms",
                    ranged(found, ms),
                    in_range(low, high, found),
                )
                for c, (low, high) in enumerate(PRINTED_MS, 1)
                for found in [[sweep.class_ms(s, c - 1) for s in settings.values()]]
            ),
        ],
        table=_table(sweep, settings),
        draw=lambda figure: _curves(figure, sweep, settings),
        notes=[NOTE],
    )


def scale_input(context: Context) -> Outcome:
    settings = {n: Setting.of(f"5G_{n}", "mbd").lasting(SECONDS) for n in CORES}
    sweep = Sweep(context, settings.values())
    runs = [sweep.seen(s) for s in settings.values()]
    falls = [
        all(a.weighted_ms > b.weighted_ms for a, b in pairwise(by_seed))
        for by_seed in zip(*runs, strict=True)
    ]
    each = [
        all(a > b for a, b in zip(few.mean_ms, many.mean_ms, strict=True))
        for few, many in zip(runs[0], runs[-1], strict=True)
    ]
    ratio = [
        few.weighted_ms / many.weighted_ms for few, many in zip(runs[0], runs[-1], strict=True)
    ]
    return Outcome(
        claims=[
            every_seed(
                "the weighted response falls with every doubling of rate and cores",
                "falls",
                f"{ranged(ratio)} lower on 16 cores than on 2",
                falls,
            ),
            every_seed(
                "every class is faster on 16 cores at 4800/s than on 2 at 600/s", "yes", "yes", each
            ),
        ],
        table=_table(sweep, settings),
        draw=lambda figure: _curves(figure, sweep, settings),
        notes=[NOTE],
    )


def _rate_at(seconds: float) -> float:
    profile = load_workload("5O_2").classes[0].rates
    return max(rate for at_s, rate in profile if at_s <= seconds)


def _overall(run: Seen) -> Curve:
    """Mean response (ms) over all classes by slot of time."""
    sums = np.nansum(run.over.response_s * run.over.left, axis=1)
    means: Curve = sums / np.maximum(run.over.left.sum(axis=1), 1)
    return means * 1e3


def mean_curve(runs: list[Seen]) -> Curve:
    """Mean response (ms) by slot of time over the seeds, as far as all of them go."""
    shortest = min(len(r.over.time_s) for r in runs)
    mean: Curve = np.mean([_overall(r)[:shortest] for r in runs], axis=0)
    return mean


def knee_per_s(time_s: Curve, response: Curve) -> float:
    """The input rate at which response times take off."""
    base = response[1:6].mean()  # the first half second, without the very first slot
    above = np.flatnonzero(response > KNEE * base)
    return _rate_at(float(time_s[above[0]])) if len(above) else np.inf


def scale_overld(context: Context) -> Outcome:
    settings = {n: Setting.of(f"5O_{n}", "mbd").lasting(OVERLOADED_S) for n in CORES}
    sweep = Sweep(context, settings.values())
    runs = {n: sweep.seen(s) for n, s in settings.items()}
    curves = {n: mean_curve(found) for n, found in runs.items()}
    time_s = runs[CORES[0]][0].over.time_s
    knees = {n: knee_per_s(time_s, curve) for n, curve in curves.items()}
    alone = {n: [knee_per_s(r.over.time_s, _overall(r)) for r in runs[n]] for n in CORES}
    near = [abs(k / 1600 - 1) <= NEAR for k in knees.values()]
    apart = max(knees.values()) / min(knees.values())

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, (n, curve) in enumerate(curves.items()):
            rates = [_rate_at(t) for t in runs[n][0].over.time_s[: len(curve)]]
            axes.plot(rates, curve, label=f"{n} cores", color=colour(i))
        axes.axvline(1600, color="k", linestyle=":")
        axes.set_yscale("log")
        axes.set_xlabel("input rate (tuples/s per stream), rising over time")
        axes.set_ylabel("mean response (ms)")
        axes.legend()

    return Outcome(
        claims=[
            Claim(
                f"response times take off near 1600 tuples/s (within {NEAR:.0%}) on any number "
                "of cores, over the seeds' mean",
                "robust",
                "1600/s, at 3.6 s",
                f"{ranged(list(knees.values()), _per_s)}, {sum(near)} of {len(near)} curves",
                as_claimed(all(near)),
            ),
            Claim(
                f"the curves coincide: knees within {COINCIDE:g}x of each other, over the seeds' "
                "mean",
                "robust",
                "same pattern",
                f"within {times(apart)}",
                at_most(COINCIDE, apart),
            ),
            Note(
                "where single seeds take off",
                ranged([k for found in alone.values() for k in found], _per_s),
            ),
        ],
        table=[
            ["operational cores", "knee (tuples/s)", "of single seeds"],
            *([str(n), f"{knees[n]:.0f}", ", ".join(f"{k:.0f}" for k in alone[n])] for n in CORES),
        ],
        draw=draw,
        notes=[
            (
                f"The knee is where the mean response first exceeds {KNEE:g} times its value at "
                "600/s. It is read off the mean curve of the seeds, as the text shows one curve "
                "per number of cores; a seed draws 50 queries, whose load differs by some 5 % "
                "from the usual one, and its knee with it."
            ),
            "Figure 82 is not in the text: the rate rises evenly so that 3.6 s is 1600/s.",
        ],
    )


def _per_s(rate: float) -> str:
    return f"{rate:.0f}/s"


EXPERIMENTS = (
    Experiment("classes/scale_cqs", "MBD as queries grow with cores (Fig. 70-75)", scale_cqs, 3),
    Experiment("classes/scale_input", "MBD as input grows with cores (Fig. 76-81)", scale_input, 3),
    Experiment(
        "classes/scale_overld", "MBD as input rises into overload (Fig. 82-83)", scale_overld, 3
    ),
)
