"""What section 7.3 leaves to others: affinity to cores, and quality of service within classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daybreak.report.classes import colour
from daybreak_experiments.classes.measures import (
    Setting,
    Sweep,
    every_seed,
    ms,
    published,
    ranged,
    times,
)
from daybreak_experiments.core import Context, Experiment, Note, Outcome
from daybreak_experiments.rules import near

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS = 2.0
#: What a box call costs more on another core than its last one (µs); a call's set-up is 8 µs.
COLD_US = (0, 2, 5, 10, 20)
#: Alternate queries of every class have one of these deadlines; class 5's mean response is some
#: 4 ms.
DEADLINES_MS = (3.0, 12.0)
#: What ordering by urgency may cost in weighted response.
MOST_COST = 1.1


def affinity(context: Context) -> Outcome:
    settings = {
        (policy, cold): Setting.of("5G_4", policy).lasting(SECONDS).on(cold_ns=cold * 1000)
        for policy in ("mbd", "ambd")
        for cold in COLD_US
    }
    sweep = Sweep(context, settings.values())
    ratio = {
        cold: [
            a.weighted_ms / b.weighted_ms
            for a, b in zip(
                sweep.seen(settings["ambd", cold]), sweep.seen(settings["mbd", cold]), strict=True
            )
        ]
        for cold in COLD_US
    }
    means = [float(np.mean(ratio[cold])) for cold in COLD_US]
    rows = [["cold call (µs)", "MBD weighted", "AMBD weighted", "AMBD / MBD"]]
    for cold, mean in zip(COLD_US, means, strict=True):
        weighted = [ms(sweep.weighted_ms(settings[p, cold])) for p in ("mbd", "ambd")]
        rows.append([str(cold), *weighted, times(mean)])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        axes.plot(COLD_US, means, marker="o", color=colour(0))
        axes.axhline(1.0, color="k", linestyle=":")
        axes.set_xlabel("extra cost of a box call on another core than its last (µs)")
        axes.set_ylabel("weighted response, AMBD / MBD")

    return Outcome(
        claims=[
            every_seed(
                f"at {COLD_US[-1]} µs per cold call AMBD is faster than MBD",
                "expected",
                f"{ranged(ratio[COLD_US[-1]])} MBD's weighted response",
                [x < 1 for x in ratio[COLD_US[-1]]],
            ),
            published(
                "without a penalty",
                "10 % slower",
                f"{ranged(ratio[0])} MBD's",
                near(1.1, ratio[0], by=0.05),
            ),
            Note("break-even", _break_even(means)),
        ],
        table=rows,
        draw=draw,
        notes=[f"Workload 5G_4 for {SECONDS:g} s. Looking ahead is not charged for."],
    )


def _break_even(ratios: list[float]) -> str:
    """Where the ratio crosses 1, between the penalties tried."""
    for i, x in enumerate(ratios):
        if x < 1:
            if i == 0:
                return "at no penalty at all"
            low, high = COLD_US[i - 1], COLD_US[i]
            share = (ratios[i - 1] - 1) / (ratios[i - 1] - x)
            return f"about {low + share * (high - low):.1f} µs per cold call"
    return f"not up to {COLD_US[-1]} µs"


def intra_class(context: Context) -> Outcome:
    settings = {
        policy: Setting.of("5G_4", policy).lasting(SECONDS).on(deadlines_ms=DEADLINES_MS)
        for policy in ("mbd", "mbd-qos")
    }
    sweep = Sweep(context, settings.values())
    plain, ours = sweep.seen(settings["mbd"]), sweep.seen(settings["mbd-qos"])
    gain = [b.utility - a.utility for a, b in zip(plain, ours, strict=True)]
    cost = [b.weighted_ms / a.weighted_ms for a, b in zip(plain, ours, strict=True)]
    rows = [["", *(f"class {c}" for c in range(1, 6)), "weighted", "utility"]]
    for name, setting in settings.items():
        means = [ms(sweep.class_ms(setting, c)) for c in range(5)]
        utility = f"{sweep.mean(setting, lambda r: r.utility):.4f}"
        rows.append([name, *means, ms(sweep.weighted_ms(setting)), utility])

    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.0, 3.6)
        left, right = figure.subplots(1, 2, width_ratios=(3, 1))
        for i, (name, setting) in enumerate(settings.items()):
            places = [c + (i - 0.5) * 0.4 for c in range(5)]
            values = [sweep.class_ms(setting, c) for c in range(5)]
            left.bar(places, values, 0.38, label=name, color=colour(i))
            lost = 1 - sweep.mean(setting, lambda r: r.utility)
            right.bar([name], [lost], color=colour(i))
        left.set_xticks(range(5), [f"class {c}" for c in range(1, 6)])
        left.set_ylabel("mean response (ms)")
        left.legend()
        right.set_ylabel("utility lost (mean over queries)")

    return Outcome(
        claims=[
            every_seed(
                "queries served by slope and slack within their class lose less utility",
                "-",
                f"{ranged(gain, '{:+.4f}'.format)}",
                [x > 0 for x in gain],
            ),
            every_seed(
                "classes keep their order: no inversion at the mean",
                "must be maintained",
                "none" if all(r.figures.inversion() == 0 for r in ours) else "some",
                [r.figures.inversion() == 0 for r in ours],
            ),
            every_seed(
                f"at most {MOST_COST:g}x MBD's weighted response",
                "-",
                ranged(cost),
                [x <= MOST_COST for x in cost],
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            (
                f"Workload 5G_4 for {SECONDS:g} s; every other query has a deadline of "
                f"{DEADLINES_MS[0]:g} ms, the rest of {DEADLINES_MS[1]:g} ms; utility reaches 0 "
                "at twice that."
            )
        ],
    )


EXPERIMENTS = (
    Experiment("classes/affinity", "AMBD and the cost of a cold cache (7.3)", affinity, 3),
    Experiment("classes/intra_class", "QoS within the classes of MBD (7.3)", intra_class, 3),
)
