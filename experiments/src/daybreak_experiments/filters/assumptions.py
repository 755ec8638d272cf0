"""What the report assumes of filters (chapter 2), without it: conjunction and independence."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from daybreak.filters import Dependencies, optimum_per_s, optimum_with_dependencies
from daybreak_experiments.core import Claim, Context, Experiment, Note, Outcome
from daybreak_experiments.filters.setup import COSTS_MS, SELECTIVITY, Point, sweep, three_filters
from daybreak_experiments.rules import above, at_least, below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Filters that accept so much each: in a disjunction the others see the rest.
ACCEPTS = 1 - SELECTIVITY
CORRELATIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
LOW_PER_S = 1.0
ROUTERS = ("fixed", "condon", "priority", "free-first")


def disjunction(ctx: Context) -> Outcome:
    """A tuple passes if any filter accepts it: the others need not be asked then."""
    accepting = three_filters(selectivities=(ACCEPTS,) * len(COSTS_MS))
    best = optimum_per_s([f.estimate.negated for f in accepting])

    def point(router: str, rate: float | None) -> Point:
        return Point(router=router, filters=accepting, any_of=True, rate_per_s=rate)

    rates = (None, LOW_PER_S)
    found = sweep(
        ctx,
        [point(r, rate) for r in ROUTERS for rate in rates]
        + [Point(router="free-first", rate_per_s=rate) for rate in rates],
    )
    rows = [["router", "saturated, tuples/s", "of F*", f"latency at {LOW_PER_S:g}/s, ms"]]
    for r in ROUTERS:
        limit = found[point(r, None)].throughput_per_s
        rows.append(
            [
                r,
                limit.text(2),
                f"{limit.mean / best:.1%}",
                found[point(r, LOW_PER_S)].latency_ms.text(0),
            ]
        )
    reached = {r: found[point(r, None)].throughput_per_s.mean / best for r in ROUTERS}
    same = [
        found[p].throughput_per_s.mean
        for p in (point("free-first", None), Point(router="free-first"))
    ]
    low = {r: found[point(r, LOW_PER_S)].latency_ms.mean for r in ROUTERS}
    return Outcome(
        claims=[
            Claim(
                "free-first reaches the optimum of the disjunction",
                "robust",
                "conjunctions only",
                f"{reached['free-first']:.1%} of {best:.3f} tuples/s",
                above(0.98, reached["free-first"]),
            ),
            Claim(
                f"filters that accept {ACCEPTS:g} each decide as many as filters that reject as "
                "much do in a conjunction",
                "robust",
                "-",
                f"{same[0]:.2f} and {same[1]:.2f} tuples/s",
                below(0.01, abs(same[0] / same[1] - 1)),
            ),
            Claim(
                "with little to do it answers before the fixed order",
                "robust",
                "-",
                f"{low['free-first']:.0f} against {low['fixed']:.0f} ms",
                below(1, low["free-first"] / low["fixed"]),
            ),
        ],
        table=rows,
        notes=[
            (
                "A disjunction is decided by the first filter that accepts a tuple, or when all "
                "have rejected it. That is a conjunction of the opposite filters, so routers and "
                "optimum need no change, only the share that the others see."
            )
        ],
    )


def joint(correlation: float) -> float:
    """The optimum where a share of the tuples meets one fate at all filters."""
    filters = three_filters()
    names = [f.name for f in filters]

    def passing(chosen: int) -> float:
        shares = [f.selectivity for i, f in enumerate(filters) if chosen >> i & 1]
        alone = math.prod(shares)
        return correlation * min(shares, default=1.0) + (1 - correlation) * alone

    estimates = [f.estimate for f in filters]
    return optimum_with_dependencies(estimates, Dependencies(names, {}), passing)


def correlated(ctx: Context) -> Outcome:
    """Fates that go together: what one filter lets pass, the others tend to let pass, too."""

    def point(router: str, correlation: float) -> Point:
        return Point(router=router, correlation=correlation)

    found = sweep(ctx, [point(r, c) for r in ROUTERS for c in CORRELATIONS])
    best = {c: joint(c) for c in CORRELATIONS}
    assumed = optimum_per_s([f.estimate for f in three_filters()])
    reached = {
        (r, c): found[point(r, c)].throughput_per_s.mean / best[c]
        for r in ROUTERS
        for c in CORRELATIONS
    }
    rows = [
        ["correlation", "F*, known", "F*, assumed independent", *(f"{r}, of F*" for r in ROUTERS)]
    ]
    for c in CORRELATIONS:
        shares = [f"{reached[r, c]:.1%}" for r in ROUTERS]
        rows.append([f"{c:g}", f"{best[c]:.2f}", f"{assumed:.2f}", *shares])

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for r in ROUTERS:
            throughputs = [found[point(r, c)].throughput_per_s.mean for c in CORRELATIONS]
            axes.plot(
                CORRELATIONS, throughputs, "o-", label="ideal (condon)" if r == "condon" else r
            )
        axes.plot(CORRELATIONS, list(best.values()), "k:", label="F*")
        axes.set_xlabel("correlation of a tuple's fates")
        axes.set_ylabel("saturated, tuples/s")
        axes.set_ylim(bottom=0)
        axes.legend()

    worst = min(reached["free-first", c] for c in CORRELATIONS)
    return Outcome(
        claims=[
            Claim(
                "free-first stays near the optimum without knowing the correlation",
                "robust",
                "independent filters only",
                f"at least {worst:.1%} of F*",
                at_least(0.95, worst),
            ),
            Claim(
                "free-first is at least as good as the flow computed for independent filters",
                "robust",
                "-",
                ", ".join(
                    f"{reached['free-first', c]:.1%} to {reached['condon', c]:.1%} at {c:g}"
                    for c in CORRELATIONS
                ),
                required(
                    "to 1 point, at every correlation",
                    *(
                        reached["free-first", c] >= reached["condon", c] - 0.01
                        for c in CORRELATIONS
                    ),
                ),
            ),
            Claim(
                "the more the fates go together, the less can be decided",
                "robust",
                "-",
                f"{best[0.0]:.2f} to {best[1.0]:.2f} tuples/s",
                required(
                    "F* falls with every step",
                    *(best[a] > best[b] for a, b in pairwise(CORRELATIONS)),
                ),
            ),
            Note(
                "F* for independent filters over what is possible at correlation 1",
                f"{assumed / best[1.0]:.2f}",
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            (
                "At correlation c a share c of the tuples meets the same fate at all filters; each "
                f"filter still passes {SELECTIVITY:g} of all. F* is a linear program over the sets "
                "of filters passed, with the shares that pass them together."
            )
        ],
    )


EXPERIMENTS = (
    Experiment("filters/disjunction", "Filters of which one is enough (ours)", disjunction, 4),
    Experiment(
        "filters/correlated", "Filters whose selectivities go together (ours)", correlated, 4
    ),
)
