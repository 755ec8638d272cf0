"""Sections 6.2.1 and 6.2.2: least freshness, age limits, and what bandwidth is worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from daybreak.freshness import (
    RefreshLimits,
    bandwidth_of,
    curve,
    floor_for_age,
    floor_for_freshness,
    freshness,
    perceived_freshness,
    plan,
)
from daybreak.freshness.baselines import uniform
from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Note, Outcome
from daybreak_experiments.freshening.common import PF_AXIS, lines, published, robust
from daybreak_experiments.freshening.mirrors import thesis_mirror
from daybreak_experiments.rules import as_claimed, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDWIDTH = 1000.0
TARGETS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55)


def section_6_2_1(ctx: Context) -> Outcome:
    mirror = thesis_mirror(ctx.seeds[0])
    rows, kept = [], True
    for target in TARGETS:
        floor = floor_for_freshness(mirror, target)
        made = plan(mirror, BANDWIDTH, RefreshLimits(floor=floor))
        least = float(freshness(made.frequency, mirror.change_rate).min())
        kept = kept and least >= target - 1e-9
        rows.append((target, bandwidth_of(mirror, floor), made.perceived_freshness, least))
    # "No more than 0.25 periods old": by polling, always; or in 95 of 100 cases.
    age, risk = 0.25, 0.05
    floor = floor_for_age(mirror, age, risk)
    cost, polling = bandwidth_of(mirror, floor), len(mirror) / age
    polled = perceived_freshness(mirror, uniform(mirror, polling))
    planned = plan(mirror, polling, RefreshLimits(floor=floor)).perceived_freshness
    table = [["least freshness", "smallest bandwidth", f"PF at {BANDWIDTH:g}", "least fresh"]]
    table += [[f"{t:.0%}", number(b, 1), number(pf, 4), number(low)] for t, b, pf, low in rows]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        x = [t for t, *_ in rows]
        lines(left, x, {"PF": [pf for *_, pf, _l in rows]}, ("least freshness per object", PF_AXIS))
        lines(
            right,
            x,
            {"floors": [b for _t, b, *_ in rows]},
            ("least freshness per object", "smallest feasible bandwidth (refreshes per period)"),
        )
        right.axhline(BANDWIDTH, color="k", linestyle=":", linewidth=1)

    return Outcome(
        claims=[
            robust(
                "every object keeps its least freshness", "proposed", str(kept), as_claimed(kept)
            ),
            robust(
                f"older than {age:g} periods in at most {risk:.0%}: costs less than polling",
                "higher freshness possible",
                f"{cost:.0f} against {polling:.0f} refreshes per period",
                as_claimed(cost < polling),
            ),
            robust(
                "with the bandwidth of polling, PF is higher",
                "higher",
                f"{planned:.3f} against {polled:.3f}",
                as_claimed(planned > polled),
            ),
            Note(
                "what 50 % for everybody costs in PF",
                f"{rows[0][2] - rows[TARGETS.index(0.5)][2]:.4f} of {rows[0][2]:.4f}",
            ),
        ],
        table=table,
        draw=draw,
    )


def section_6_2_2(ctx: Context) -> Outcome:
    mirror = thesis_mirror(ctx.seeds[0])
    budgets = [float(b) for b in np.geomspace(5, 20_000, 60)]
    plans = curve(mirror, budgets)
    pf = [p.perceived_freshness for p in plans]
    mu = [p.multiplier for p in plans]
    concave = bool((np.diff(mu) < 0).all())

    def needed(target: float) -> float:
        return float(np.interp(target, pf, budgets))

    table = [["bandwidth", PF_AXIS, "µ: PF per unit more"]]
    table += [
        [number(b, 0), number(p, 4), f"{m:.2e}"]
        for b, p, m in list(zip(budgets, pf, mu, strict=True))[::6]
    ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(budgets, pf)
        left.set_xscale("log")
        left.set_xlabel("bandwidth (refreshes per period, 500 objects)")
        left.set_ylabel(PF_AXIS)
        right.plot(budgets, mu)
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("bandwidth (refreshes per period)")
        right.set_ylabel("µ: PF bought by one more refresh per period")

    return Outcome(
        claims=[
            robust("every unit of bandwidth buys less than the one before", "as drawn",
                   str(concave), as_claimed(concave)),
            published(
                "bandwidth for PF 0.5, 0.8 and 0.9",
                "flat at A, steep at B",
                ", ".join(f"{needed(t):.0f}" for t in (0.5, 0.8, 0.9)),
                required(
                    "PF costs twice as much from 0.8 to 0.9 as from 0.5 to 0.8, or more",
                    (needed(0.9) - needed(0.8)) / 0.1 >= 2 * (needed(0.8) - needed(0.5)) / 0.3,
                ),
            ),
        ],
        table=table,
        draw=draw,
    )  # fmt: skip


EXPERIMENTS = (
    Experiment("freshening/section6.2.1", "Least freshness and age limits", section_6_2_1, seeds=1),
    Experiment("freshening/section6.2.2", "Is bandwidth free?", section_6_2_2, seeds=1),
)
