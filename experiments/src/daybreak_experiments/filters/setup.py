"""The report's set-up (section 6.1), and many runs of it with means and standard errors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean, stdev

from daybreak.filters import Filter, Load, make_router, simulate
from daybreak.filters.router_simulator import Process
from daybreak_experiments.core import Claim, Context, Line, Skipped
from daybreak_experiments.rules import required

#: Costs of the three joins and their selectivity, unless an experiment says otherwise.
COSTS_MS = (100.0, 150.0, 200.0)
SELECTIVITY = 0.4
#: The report's three approaches (its "ideal" is Condon's), then ours.
APPROACHES = ("fixed", "condon", "priority", "free-first")
#: Undecided tuples kept in the system when saturation is measured.
POPULATION = 64


def three_filters(
    costs_ms: Iterable[float] = COSTS_MS, selectivities: Iterable[float] = (SELECTIVITY,) * 3
) -> tuple[Filter, ...]:
    return tuple(
        Filter(name=f"F{i + 1}", service_time_s=ms / 1e3, selectivity=p)
        for i, (ms, p) in enumerate(zip(costs_ms, selectivities, strict=True))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One cell of a sweep: everything but the seed."""

    router: str
    filters: tuple[Filter, ...] = three_filters()
    #: None: saturated by a closed loop.
    rate_per_s: float | None = None
    process: Process = "poisson"
    tuples: int = 4000
    population: int = POPULATION
    batch: int = 1
    call_overhead_s: float = 0.0
    #: Of the fates of a tuple at the filters.
    correlation: float = 0.0
    #: A disjunction: one filter that accepts a tuple is enough.
    any_of: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """What one run gave."""

    latency_ms: float
    throughput_per_s: float
    #: Share of the tuples handed to filters that another filter was working on.
    duplicated: float


@dataclass(frozen=True, slots=True)
class Stat:
    """A mean over seeds and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: list[float]) -> Stat:
        error = stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return cls(mean(values), error)

    def text(self, digits: int = 1) -> str:
        if math.isnan(self.error):
            return f"{self.mean:.{digits}f}"
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"

    def near(self, low: float, high: float, rounding: float, error: float = 0.0) -> bool:
        """Within 3 standard errors of an interval printed with this rounding and error."""
        own = 0.0 if math.isnan(self.error) else self.error
        slack = rounding + 3 * math.hypot(own, error)
        return low - slack <= self.mean <= high + slack


@dataclass(frozen=True, slots=True)
class Cell:
    """A point of a sweep over all seeds."""

    latency_ms: Stat
    throughput_per_s: Stat
    duplicated: Stat


def run_point(job: tuple[Point, int]) -> Measured:
    point, seed = job
    if point.rate_per_s is None:
        # Long, since only the random fates of the tuples are left to average out.
        load = Load(
            tuples=5 * point.tuples, population=point.population, correlation=point.correlation
        )
    else:
        load = Load(
            tuples=point.tuples,
            rate_per_s=point.rate_per_s,
            process=point.process,
            correlation=point.correlation,
        )
    report = simulate(
        point.filters,
        make_router(point.router),
        load,
        seed,
        batch=point.batch,
        call_overhead_s=point.call_overhead_s,
        any_of=point.any_of,
    )
    return Measured(
        report.mean_latency_s * 1e3,
        report.throughput_per_s,
        report.counts.duplicated / report.counts.handed,
    )


def sweep(ctx: Context, points: Iterable[Point]) -> dict[Point, Cell]:
    """Every point with every seed, in parallel."""
    chosen = list(points)
    jobs = [(point, seed) for point in chosen for seed in ctx.seeds]
    runs = ctx.map(run_point, jobs)
    found: dict[Point, Cell] = {}
    for k, point in enumerate(chosen):
        mine = runs[k * len(ctx.seeds) : (k + 1) * len(ctx.seeds)]
        found[point] = Cell(
            Stat.of([m.latency_ms for m in mine]),
            Stat.of([m.throughput_per_s for m in mine]),
            Stat.of([m.duplicated for m in mine]),
        )
    return found


def reference(
    what: str,
    stat: Stat,
    low: float,
    high: float,
    *,
    rounding: float,
    unit: str,
    error: float = 0.0,
) -> Line:
    """Judges a number against the one of an independent model of the same set-up.

    ``error`` is the model's own standard error, where it is known.
    """
    digits = max(0, -math.floor(math.log10(rounding * 2)))
    printed = f"{low:g}" if low == high else f"{low:g} to {high:g}"
    known = f" ± {error:g}" if error else ""
    paper, ours = f"- (reference {printed}{known} {unit})", f"{stat.text(max(digits, 1))} {unit}"
    if math.isnan(stat.error):
        return Skipped(what, paper, f"{ours}; one seed has no standard error to judge by")
    return Claim(
        f"{what}: as in an independent simulation",
        "robust",
        paper,
        ours,
        required(
            "within 3 standard errors of the difference, and rounding",
            stat.near(low, high, rounding, error),
        ),
    )
