"""Figure 6.1: latency as the input rate grows, and against an independent model."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from daybreak.filters.router_simulator import Process
from daybreak_experiments.core import Claim, Context, Experiment, Line, Note, Outcome
from daybreak_experiments.filters.rates import OPTIMUM_PER_S, PROCESSES, Curves, points
from daybreak_experiments.filters.setup import (
    APPROACHES,
    Point,
    reference,
    sweep,
    three_filters,
)
from daybreak_experiments.rules import as_claimed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Latency is drawn only where the queues are stable for some approach.
LATENCY_RATES = (1.0, 2.0, 4.0, 6.0, 8.0, 9.0, 10.0, 12.0, 13.0)


def _latency(found: Curves, router: str, rate: float, process: Process) -> float:
    return found[Point(router=router, rate_per_s=rate, process=process)].latency_ms.mean


def _latency_table(found: Curves) -> list[list[str]]:
    rows = [["arrivals", "input/s", *(f"{r}, ms" for r in APPROACHES)]]
    for process in PROCESSES:
        for rate in LATENCY_RATES:
            cells = [found[Point(router=r, rate_per_s=rate, process=process)] for r in APPROACHES]
            rows.append([process, f"{rate:g}", *(c.latency_ms.text(0) for c in cells)])
    return rows


#: Tuples per seed where latencies are compared with an independent model's.
COMPARED_TUPLES = 20_000
#: The model's mean latencies (ms), and its standard error: known at 8/s, taken for 1/s as well.
REFERENCES = {
    Point(router=router, rate_per_s=rate, tuples=COMPARED_TUPLES): ms
    for router, rate, ms in (
        ("fixed", 1.0, 200), ("fixed", 8.0, 406),
        ("condon", 1.0, 224), ("condon", 8.0, 353),
        ("free-first", 1.0, 138), ("free-first", 8.0, 248),
    )
}  # fmt: skip
REFERENCE_ERROR_MS = 0.6
#: The same filters some microseconds off, so that no two ever finish at the same instant.
APART_MS = ((99.997, 149.999, 200.002), (100.003, 150.001, 199.998))


def _compared(ctx: Context) -> list[Line]:
    apart = {
        costs_ms: Point(
            router="free-first",
            rate_per_s=8.0,
            tuples=COMPARED_TUPLES,
            filters=three_filters(costs_ms),
        )
        for costs_ms in APART_MS
    }
    found = sweep(ctx, [*REFERENCES, *apart.values()])
    notes: list[Line] = [
        Note(
            f"free-first at 8/s with {', '.join(f'{ms:g}' for ms in costs_ms)} ms",
            f"{found[point].latency_ms.text()} ms",
        )
        for costs_ms, point in apart.items()
    ]
    return notes + [
        reference(
            f"{point.router} at {point.rate_per_s:g}/s, Poisson",
            found[point].latency_ms, ms, ms, rounding=0.5, unit="ms", error=REFERENCE_ERROR_MS,
        )
        for point, ms in REFERENCES.items()
    ]  # fmt: skip


def fig6_1(ctx: Context) -> Outcome:
    found = sweep(ctx, points(LATENCY_RATES, PROCESSES, APPROACHES))

    def better_everywhere(router: str, others: tuple[str, ...]) -> bool:
        return all(
            _latency(found, router, rate, process) < _latency(found, other, rate, process)
            for process in PROCESSES
            for rate in LATENCY_RATES
            for other in others
        )

    def rises(router: str) -> bool:
        latencies = [_latency(found, router, rate, "poisson") for rate in LATENCY_RATES]
        return all(a < b for a, b in itertools.pairwise(latencies))

    ideal_wins = [
        rate
        for rate in LATENCY_RATES
        if _latency(found, "condon", rate, "poisson") < _latency(found, "fixed", rate, "poisson")
    ]
    priority_wins = max(
        rate
        for rate in LATENCY_RATES
        if _latency(found, "priority", rate, "poisson")
        < min(_latency(found, r, rate, "poisson") for r in ("fixed", "condon"))
    )
    low, high = LATENCY_RATES[0], ideal_wins[0] if ideal_wins else float("nan")
    claims: list[Line] = [
        Claim(
            "latency grows with the input rate, for all three approaches",
            "robust",
            "yes",
            ", ".join(f"{r}: {'yes' if rises(r) else 'no'}" for r in APPROACHES[:3]),
            as_claimed(all(rises(r) for r in APPROACHES[:3])),
        ),
        Claim(
            "priority has the lowest latency of the three at every rate",
            "published",
            "much better than both",
            f"up to {priority_wins:g}/s; near its limit of about 12/s it is above ideal",
            as_claimed(better_everywhere("priority", ("fixed", "condon"))),
        ),
        Claim(
            "free-first is below fixed and ideal at every rate",
            "robust",
            "- (ours)",
            f"at {low:g}/s {_latency(found, 'free-first', low, 'poisson'):.0f} ms against "
            f"{_latency(found, 'fixed', low, 'poisson'):.0f} and "
            f"{_latency(found, 'condon', low, 'poisson'):.0f}",
            as_claimed(better_everywhere("free-first", ("fixed", "condon"))),
        ),
        Claim(
            "ideal has a lower latency than the fixed order",
            "published",
            "lower (the report could not say why)",
            f"higher at low rates, lower from {high:g}/s on",
            as_claimed(len(ideal_wins) == len(LATENCY_RATES)),
        ),
    ]
    claims += _compared(ctx)
    return Outcome(
        claims,
        _latency_table(found),
        lambda figure: _draw_latency(figure, found),
        (
            (
                "Latency is from arrival to decision, of all tuples, dropped or passed. Above the "
                "capacity of an approach (fixed: 10/s) its latency depends on how long the run is."
            ),
            (
                f"References are compared over {COMPARED_TUPLES // 1000} 000 tuples a seed. With "
                "times of 100, 150 and 200 ms filters often finish at the same instant; all of "
                "them do before any chooses again. The notes show what it takes when the filters "
                "are some microseconds apart, and the first one chooses without the others. The "
                "reference's standard error is known at 8/s, and taken for 1/s as well."
            ),
            "Priority is the reading in which a tuple leaves a filter's queue as it starts.",
            (
                "Ideal sends some tuples to slow filters first, which costs latency when nothing "
                "waits; it wins once the fast filter's queue of the fixed order costs more."
            ),
        ),
    )


def _draw_latency(figure: Figure, found: Curves) -> None:
    for axes, process in zip(figure.subplots(1, 2, sharey=True), PROCESSES, strict=True):
        for router in APPROACHES:
            cells = [
                found[Point(router=router, rate_per_s=rate, process=process)].latency_ms
                for rate in LATENCY_RATES
            ]
            axes.errorbar(
                LATENCY_RATES,
                [c.mean for c in cells],
                yerr=[c.error for c in cells],
                marker="o",
                markersize=3,
                label="ideal (condon)" if router == "condon" else router,
            )
        axes.set_yscale("log")
        axes.set_title(f"{process} arrivals")
        axes.set_xlabel("input, tuples/s")
        _mark_optimum(axes)
    left = figure.axes[0]
    left.set_ylabel("mean latency, ms")
    left.legend(loc="upper left")


def _mark_optimum(axes: Axes) -> None:
    axes.axvline(OPTIMUM_PER_S, color="#999999", linestyle=":", linewidth=1)
    axes.annotate(
        "F*",
        (OPTIMUM_PER_S, 0.02),
        xycoords=("data", "axes fraction"),
        xytext=(3, 0),
        textcoords="offset points",
        color="#666666",
    )


EXPERIMENTS = (
    Experiment("filters/fig6.1", "Latency of the approaches as the input rate grows", fig6_1, 8),
)
