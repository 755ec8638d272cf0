"""Figures 6.2 and 6.5: throughput as the input rate grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from daybreak.filters import optimum_per_s
from daybreak.filters.router_simulator import Process
from daybreak_experiments.core import Claim, Context, Experiment, Line, Outcome
from daybreak_experiments.filters.setup import (
    APPROACHES,
    POPULATION,
    Cell,
    Point,
    reference,
    sweep,
    three_filters,
)
from daybreak_experiments.rules import as_claimed, at_least, below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROCESSES: tuple[Process, Process] = ("uniform", "poisson")
RATES = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0)
OPTIMUM_PER_S = optimum_per_s([f.estimate for f in three_filters()])
#: Priority with the report's words on when a tuple leaves a filter's queue.
LITERAL = "priority-literal"
#: Filters so different that one of them limits the throughput by itself.
SKEWED_MS = (50.0, 150.0, 450.0)
SKEWED_OPTIMUM_PER_S = optimum_per_s([f.estimate for f in three_filters(SKEWED_MS)])
Curves = dict[Point, Cell]


def points(
    rates: Sequence[float], processes: Sequence[Process], routers: Sequence[str]
) -> list[Point]:
    """Every router at every rate."""
    return [
        Point(router=router, rate_per_s=rate, process=process)
        for process in processes
        for router in routers
        for rate in rates
    ]


def fig6_2(ctx: Context) -> Outcome:
    others = (LITERAL, "least-cost", "work-stealing")
    saturated = [Point(router=router) for router in (*APPROACHES, *others)]
    skewed = {r: Point(router=r, filters=three_filters(SKEWED_MS)) for r in ("priority", LITERAL)}
    found = sweep(ctx, [*points(RATES, ("poisson",), APPROACHES), *saturated, *skewed.values()])
    at_limit = {point.router: found[point].throughput_per_s for point in saturated}
    rows = [["input/s", *APPROACHES]]
    for rate in RATES:
        cells = [found[Point(router=r, rate_per_s=rate)] for r in APPROACHES]
        rows.append([f"{rate:g}", *(c.throughput_per_s.text(2) for c in cells)])
    rows.append(["saturated", *(at_limit[r].text(2) for r in APPROACHES)])
    claims: list[Line] = [
        Claim(
            "fixed and ideal reach similar throughputs",
            "published",
            "similar",
            f"{at_limit['fixed'].mean:.2f} and {at_limit['condon'].mean:.2f} tuples/s",
            below(0.05, abs(at_limit["fixed"].mean / at_limit["condon"].mean - 1)),
        ),
        Claim(
            "priority reaches less than ideal beyond some rate",
            "robust",
            "less",
            f"{at_limit['priority'].mean:.2f} of ideal's {at_limit['condon'].mean:.2f} tuples/s",
            as_claimed(at_limit["priority"].mean < at_limit["condon"].mean),
        ),
        Claim(
            "priority as worded, with the tuple in the filter's queue until processed, reaches "
            "less still",
            "published",
            "less than ideal",
            f"{at_limit[LITERAL].text(2)} against {at_limit['priority'].text(2)} tuples/s",
            as_claimed(at_limit[LITERAL].mean < at_limit["priority"].mean),
        ),
        Claim(
            f"filters of {', '.join(f'{ms:g}' for ms in SKEWED_MS)} ms, of which one limits the "
            "rest: priority reaches the optimum, in both readings",
            "published",
            "somewhat less throughput, without limits",
            ", ".join(
                f"{r} {found[p].throughput_per_s.mean / SKEWED_OPTIMUM_PER_S:.1%}"
                for r, p in skewed.items()
            ),
            at_least(
                0.98,
                *(found[p].throughput_per_s.mean / SKEWED_OPTIMUM_PER_S for p in skewed.values()),
            ),
        ),
        Claim(
            "free-first loses nothing against ideal",
            "robust",
            "- (ours)",
            f"{at_limit['free-first'].mean:.2f} against {at_limit['condon'].mean:.2f}; "
            f"F* = {OPTIMUM_PER_S:.3f}",
            as_claimed(at_limit["free-first"].mean >= at_limit["condon"].mean),
        ),
        reference("fixed, saturated", at_limit["fixed"], 10.0, 10.0, rounding=0.05, unit="/s"),
        reference("condon, saturated", at_limit["condon"], 13.6, 13.8, rounding=0.05, unit="/s"),
        reference(
            "priority, saturated", at_limit["priority"], 10.0, 12.8, rounding=0.05, unit="/s"
        ),
        reference(f"{LITERAL}, saturated", at_limit[LITERAL], 10.0, 10.0, rounding=0.05, unit="/s"),
        reference(
            "free-first, saturated", at_limit["free-first"], 13.87, 13.87, rounding=0.005, unit="/s"
        ),
    ]
    least, stealing = at_limit["least-cost"], at_limit["work-stealing"]
    return Outcome(
        claims,
        rows,
        lambda figure: _draw_throughput(figure, found, at_limit["free-first"].mean),
        (
            (
                f"Saturation is measured in a closed loop of {POPULATION} tuples. Under an open "
                "overload, what is decided per second may exceed F*, since tuples that need slow "
                "filters are left lying."
            ),
            (
                "Priority loses because its fetch rule asks whether a queue is empty, and a tuple "
                "others work on counts as queued: filters join in on it while new tuples wait "
                "outside. In the report's words a tuple even counts in the queue of the filter "
                f"that works on it ({LITERAL}); the curves are of the other reading. The fixed "
                "order cannot pass more than its first filter takes."
            ),
            (
                f"Not in the figure, saturated: least-cost {least.text(2)}, "
                f"work-stealing {stealing.text(2)} tuples/s."
            ),
        ),
    )


def _draw_throughput(figure: Figure, found: Curves, limit: float) -> None:
    axes = figure.subplots()
    styles = ("o-", "s-", "^-", "D--")
    for router, style in zip(APPROACHES, styles, strict=True):
        axes.plot(
            RATES,
            [found[Point(router=router, rate_per_s=r)].throughput_per_s.mean for r in RATES],
            style,
            markersize=4,
            label="ideal (condon)" if router == "condon" else router,
        )
    axes.axhline(OPTIMUM_PER_S, color="#999999", linestyle=":", label="F*")
    axes.set_ylim(0, 1.2 * limit)
    axes.set_xlabel("input, tuples/s (Poisson)")
    axes.set_ylabel("decided, tuples/s")
    axes.legend(loc="lower right")


def fig6_5(ctx: Context) -> Outcome:
    routers = ("priority", "free-first")
    found = sweep(ctx, points(RATES, PROCESSES, routers))

    def at(router: str, rate: float, process: Process) -> Cell:
        return found[Point(router=router, rate_per_s=rate, process=process)]

    gaps = {
        router: max(
            abs(
                at(router, rate, "poisson").throughput_per_s.mean
                / at(router, rate, "uniform").throughput_per_s.mean
                - 1
            )
            for rate in RATES
        )
        for router in routers
    }
    rows = [["input/s", *(f"{r}, {p}" for r in routers for p in PROCESSES)]]
    for rate in RATES:
        rows.append(
            [
                f"{rate:g}",
                *(at(r, rate, p).throughput_per_s.text(2) for r in routers for p in PROCESSES),
            ]
        )
    claims = [
        Claim(
            f"{router}: throughput is much the same for Poisson and uniform arrivals",
            "robust",
            "almost similar" if router == "priority" else "- (ours)",
            f"differs by at most {gaps[router]:.1%}",
            below(0.05, gaps[router]),
        )
        for router in routers
    ]
    waits = [at("priority", 8.0, p).latency_ms.mean for p in PROCESSES]
    claims.append(
        Claim(
            "latency is much the same for both, too",
            "published",
            "profile almost similar",
            f"priority at 8/s: {waits[0]:.0f} ms uniform, {waits[1]:.0f} ms Poisson",
            below(0.1, abs(waits[1] / waits[0] - 1)),
        )
    )

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for router, colour in zip(routers, ("C2", "C3"), strict=True):
            for process, style in zip(PROCESSES, ("-", "--"), strict=True):
                axes.plot(
                    RATES,
                    [at(router, r, process).throughput_per_s.mean for r in RATES],
                    style,
                    marker="o" if process == "uniform" else "x",
                    color=colour,
                    label=f"{router}, {process}",
                )
        axes.set_xlabel("input, tuples/s")
        axes.set_ylabel("decided, tuples/s")
        axes.set_ylim(bottom=0)
        axes.legend(loc="lower right")

    return Outcome(
        claims,
        rows,
        draw,
        ("Uniform is read as equal gaps: the report's producer emits at a given rate.",),
    )


EXPERIMENTS = (
    Experiment("filters/fig6.2", "Throughput of the approaches and the optimum", fig6_2, 8),
    Experiment("filters/fig6.5", "Throughput under Poisson and uniform arrivals", fig6_5, 8),
)
