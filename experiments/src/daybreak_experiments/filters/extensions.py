"""What the report states or leaves open without a figure: peak load, dependencies, batches,
drift."""

from __future__ import annotations

import itertools
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from daybreak.filters import (
    Dependencies,
    Filter,
    FilterChange,
    Load,
    make_router,
    optimum_per_s,
    optimum_with_dependencies,
    simulate,
)
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.filters.setup import POPULATION, Point, Stat, sweep, three_filters
from daybreak_experiments.rules import above, as_claimed, below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BATCHES = (1, 2, 4, 8, 16, 32)
#: What one call costs beside its tuples, in the experiment on batches.
OVERHEAD_S = 0.05
SLOWED_AT_S, RUN_S, BIN_S = 120.0, 360.0, 10.0


def section5_1(ctx: Context) -> Outcome:
    """Batches: the report's future work."""
    rates = (4.0, 8.0)

    def point(batch: int, rate: float | None) -> Point:
        return Point(
            router="free-first",
            rate_per_s=rate,
            batch=batch,
            call_overhead_s=OVERHEAD_S,
            population=512,
        )

    found = sweep(ctx, [point(b, r) for b in BATCHES for r in (*rates, None)])
    rows = [["batch", "saturated, tuples/s", *(f"latency at {r:g}/s, ms" for r in rates)]]
    for b in BATCHES:
        rows.append(
            [
                str(b),
                found[point(b, None)].throughput_per_s.text(2),
                *(found[point(b, r)].latency_ms.text(0) for r in rates),
            ]
        )
    limits = [found[point(b, None)].throughput_per_s.mean for b in BATCHES]
    alone, together = (found[point(b, rates[0])].latency_ms for b in (1, BATCHES[-1]))
    claims = [
        Claim(
            "larger batches raise the throughput",
            "robust",
            "- (future work)",
            f"{limits[0]:.1f} alone, {limits[-1]:.1f} tuples/s in batches of {BATCHES[-1]}",
            as_claimed(all(a < b for a, b in itertools.pairwise(limits))),
        ),
        Claim(
            "larger batches can increase latency",
            "published",
            "can increase",
            f"at {rates[0]:g}/s {alone.text()} ms alone, {together.text()} ms in batches: little, "
            "as no call waits to be full",
            as_claimed(together.mean > alone.mean),
        ),
    ]

    def draw(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        left.plot(BATCHES, limits, "o-")
        left.set_ylabel("saturated throughput, tuples/s")
        left.set_ylim(bottom=0)
        for rate in rates:
            right.plot(
                BATCHES,
                [found[point(b, rate)].latency_ms.mean for b in BATCHES],
                "o-",
                label=f"{rate:g} tuples/s",
            )
        right.set_ylabel("mean latency, ms")
        right.set_ylim(bottom=0)
        right.legend()
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xticks(BATCHES, [str(b) for b in BATCHES])
            axes.set_xlabel("most tuples in a call")

    return Outcome(
        claims,
        rows,
        draw,
        (
            (
                f"Each call holds a thread {OVERHEAD_S * 1e3:.0f} ms longer than its tuples take. "
                "A batch is what is free at that moment, never waited for."
            ),
        ),
    )


def section5_3(ctx: Context) -> Outcome:
    """The claim about peak load: a picked tuple has numCurrThread = 0."""
    routers = ("priority", "work-stealing", "free-first")
    rates = (1.0, 4.0, 8.0, 12.0, None)
    found = sweep(ctx, [Point(router=r, rate_per_s=rate) for r in routers for rate in rates])
    rows = [["input/s", *(f"{r}, picked while others work" for r in routers)]]
    for rate in rates:
        shares = [found[Point(router=r, rate_per_s=rate)].duplicated.mean for r in routers]
        rows.append([f"{rate:g}" if rate else "saturated", *(f"{s:.2%}" for s in shares)])
    peak = {r: found[Point(router=r)].duplicated.mean for r in routers}
    claims = [
        Claim(
            "at peak load a picked tuple has nobody else working on it: priority",
            "published",
            "proved, for tuples in the queues",
            f"{peak['priority']:.0%} of picks are duplicates: the proof leaves out tuples "
            "waiting at the input",
            below(0.001, peak["priority"]),
        ),
        Claim(
            "at peak load a picked tuple has nobody else working on it: free-first",
            "robust",
            "- (ours)",
            f"{peak['free-first']:.3%} of picks (the last few, when the run drains)",
            below(0.001, peak["free-first"]),
        ),
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.27
        for k, router in enumerate(routers):
            shares = [
                100 * found[Point(router=router, rate_per_s=rate)].duplicated.mean for rate in rates
            ]
            axes.bar([x + (k - 1) * width for x in range(len(rates))], shares, width, label=router)
        axes.set_xticks(range(len(rates)), [f"{r:g}" if r else "saturated" for r in rates])
        axes.set_xlabel("input, tuples/s")
        axes.set_ylabel("picks of a tuple others work on, %")
        axes.legend()

    return Outcome(claims, rows, draw)


def _with_dependencies(number: int) -> tuple[tuple[Filter, ...], float]:
    """A random conjunction with precedence constraints, and its optimum."""
    rng = Random(f"dependencies/{number}")
    n = rng.randint(3, 6)
    names = [f"F{i + 1}" for i in range(n)]
    filters = tuple(
        Filter(
            name=names[v],
            service_time_s=rng.uniform(0.05, 0.4),
            threads=rng.randint(1, 3),
            selectivity=rng.uniform(0.2, 0.9),
            after=tuple(names[u] for u in range(v) if rng.random() < 0.35),
        )
        for v in range(n)
    )
    graph = Dependencies(names, {f.name: f.after for f in filters})
    return filters, optimum_with_dependencies([f.estimate for f in filters], graph)


def _reached(job: tuple[int, str, int]) -> float:
    number, router, seed = job
    filters, best = _with_dependencies(number)
    load = Load(tuples=6000, population=POPULATION, warmup=0.4)
    return simulate(filters, make_router(router), load, seed).throughput_per_s / best


def section5_3_4(ctx: Context) -> Outcome:
    """Dependencies, which the report describes and did not implement."""
    instances = range(10)
    routers = ("fixed", "priority", "free-first")
    jobs = [(k, r, s) for k in instances for r in routers for s in ctx.seeds]
    reached = dict(zip(jobs, ctx.map(_reached, jobs), strict=True))
    share = {
        (k, r): Stat.of([reached[k, r, s] for s in ctx.seeds]) for k in instances for r in routers
    }
    rows = [["instance", "filters", "edges", "optimum/s", *(f"{r}, of optimum" for r in routers)]]
    for k in instances:
        filters, best = _with_dependencies(k)
        edges = sum(len(f.after) for f in filters)
        rows.append(
            [
                str(k),
                str(len(filters)),
                str(edges),
                f"{best:.2f}",
                *(share[k, r].text(3) for r in routers),
            ]
        )
    mean = {r: float(np.mean([share[k, r].mean for k in instances])) for r in routers}
    worst = min(share[k, "free-first"].mean for k in instances)
    claims = [
        Claim(
            "the properties without dependencies hold with them: throughput",
            "published",
            "argued, not implemented",
            f"free-first reaches {mean['free-first']:.1%} of the optimum on average, "
            f"{worst:.1%} at worst",
            above(0.95, worst),
        ),
        Claim(
            "free-first is at least as good as priority and the fixed order, on average",
            "robust",
            "- (ours)",
            ", ".join(f"{r} {mean[r]:.1%}" for r in routers),
            as_claimed(mean["free-first"] >= max(mean["fixed"], mean["priority"]) - 0.01),
        ),
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        width = 0.27
        for j, router in enumerate(routers):
            axes.bar(
                [k + (j - 1) * width for k in instances],
                [100 * share[k, router].mean for k in instances],
                width,
                label=router,
            )
        axes.set_ylim(0, 125)
        axes.set_xticks(list(instances))
        axes.set_xlabel("random instance")
        axes.set_ylabel("saturated throughput, % of the optimum")
        axes.legend(loc="upper center", ncols=3)

    return Outcome(
        claims,
        rows,
        draw,
        (
            (
                "Ten random instances; the optimum is the linear program over orders that keep the "
                "constraints. Shares above 1 by less than the standard error are chance."
            ),
        ),
    )


def _timeline(job: tuple[str, bool, int]) -> list[float]:
    router, online, seed = job
    slower = [FilterChange(at_s=SLOWED_AT_S, filter=0, service_time_s=0.4)]
    load = Load(tuples=round(RUN_S * 14), population=POPULATION)
    report = simulate(
        three_filters(), make_router(router), load, seed, changes=slower, online=online
    )
    edges = np.arange(0, RUN_S + BIN_S, BIN_S)
    found, _ = np.histogram(report.decided_s, edges)
    return [float(n) / BIN_S for n in found]


def section4_1(ctx: Context) -> Outcome:
    """Capacity that drifts: the first filter takes 400 ms instead of 100 from 120 s on."""
    kinds = (
        ("fixed", False, "fixed"),
        ("condon", False, "condon, told once"),
        ("condon", True, "condon, online estimates"),
        ("free-first", True, "free-first, online estimates"),
    )
    jobs = [(r, online, s) for r, online, _ in kinds for s in ctx.seeds]
    runs = dict(zip(jobs, ctx.map(_timeline, jobs), strict=True))
    curves = {
        label: np.mean([runs[r, online, s] for s in ctx.seeds], axis=0)
        for r, online, label in kinds
    }
    before = optimum_per_s([f.estimate for f in three_filters()])
    after = optimum_per_s([f.estimate for f in three_filters((400.0, 150.0, 200.0))])
    settled = round((SLOWED_AT_S + 60) / BIN_S)
    late = {label: float(np.mean(curve[settled:30])) for label, curve in curves.items()}
    rows = [["router", "before, tuples/s", "from 60 s after the change", "of F*"]]
    for label, curve in curves.items():
        early = float(np.mean(curve[2 : round(SLOWED_AT_S / BIN_S)]))
        rows.append([label, f"{early:.2f}", f"{late[label]:.2f}", f"{late[label] / after:.1%}"])
    claims = [
        Claim(
            f"{label}: at least 0.95 of F* again within a minute",
            "robust",
            "- (ours)",
            f"{late[label]:.2f} of {after:.2f} tuples/s",
            as_claimed(late[label] >= 0.95 * after),
        )
        for label in ("condon, online estimates", "free-first, online estimates")
    ]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        middles = np.arange(BIN_S / 2, RUN_S, BIN_S)[:30]
        for label, curve in curves.items():
            axes.plot(middles, curve[:30], label=label)
        axes.plot([0, SLOWED_AT_S, SLOWED_AT_S, 300], [before, before, after, after], ":k", lw=1)
        axes.annotate("F*", (290, after), textcoords="offset points", xytext=(0, 4))
        axes.set_ylim(0, 19)
        axes.set_xlabel("time, s (the first filter slows down fourfold at 120 s)")
        axes.set_ylabel("decided, tuples/s")
        axes.legend(loc="upper right", ncols=2)

    return Outcome(claims, rows, draw, ("Closed loop; means over the seeds in bins of 10 s.",))


EXPERIMENTS = (
    Experiment("filters/section4.1", "A service that slows down fourfold", section4_1, 8),
    Experiment("filters/section5.1", "Tuples in small batches", section5_1, 8),
    Experiment("filters/section5.3", "Duplicated work at peak load", section5_3, 8),
    Experiment("filters/section5.3.4", "Dependencies among filters", section5_3_4, 8),
)
