"""Figures 2.8 and 2.9: k-means refinement of the partitions."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from daybreak.freshness import perceived_freshness, plan
from daybreak.freshness.heuristics import allocate, partition, refine
from daybreak.report.text import number
from daybreak_experiments.core import Context, Experiment, Outcome
from daybreak_experiments.freshening.common import PF_AXIS, lines, published, robust
from daybreak_experiments.freshening.mirrors import thesis_mirror
from daybreak_experiments.rules import above, as_claimed, at_most, below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OBJECTS, SYNCS = 100_000, 50_000.0
CLUSTERS = (10, 25, 50, 100, 200)
ITERATIONS = (0, 1, 3, 5, 7, 10, 15, 25)


def _refined(setting: tuple[int, int, bool]) -> list[tuple[float, float]]:
    """PF and seconds of processor time after each number of iterations."""
    seed, clusters, normalised = setting
    mirror = thesis_mirror(seed, objects=OBJECTS, rate_deviation=2.0)
    spent_s, found = 0.0, []
    begin = time.process_time()
    label = partition(mirror, "pf", clusters)
    for before, iterations in zip((0, *ITERATIONS), ITERATIONS, strict=False):
        label = refine(mirror, label, iterations - before, normalised)
        spent_s += time.process_time() - begin
        begin = time.process_time()
        frequency = allocate(mirror, label, SYNCS)
        solve_s = time.process_time() - begin
        found.append((perceived_freshness(mirror, frequency), spent_s + solve_s))
        begin = time.process_time()
    return found


def _exact(seed: int) -> tuple[float, float]:
    mirror = thesis_mirror(seed, objects=OBJECTS, rate_deviation=2.0)
    begin = time.process_time()
    made = plan(mirror, SYNCS)
    return made.perceived_freshness, time.process_time() - begin


def figure_2_8(ctx: Context) -> Outcome:
    seed = ctx.seeds[0]
    settings = [(seed, k, True) for k in CLUSTERS] + [(seed, 100, False)]
    *found, raw = ctx.map(_refined, settings)
    best, _ = _exact(seed)
    curves = {
        f"{n} iterations": [found[j][i][0] for j in range(len(CLUSTERS))]
        for i, n in enumerate(ITERATIONS)
        if n in (0, 1, 3, 5, 10, 25)
    }
    table = [["partitions", *(f"{n} it." for n in ITERATIONS), "optimum"]]
    for j, k in enumerate(CLUSTERS):
        table.append([str(k), *(number(pf) for pf, _s in found[j]), number(best)])
    at = {n: found[CLUSTERS.index(100)][i][0] / best for i, n in enumerate(ITERATIONS)}
    plain = raw[ITERATIONS.index(10)][0] / best
    helps = all(run[ITERATIONS.index(10)][0] > run[0][0] for run in found)

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        lines(axes, CLUSTERS, curves, ("partitions", PF_AXIS))
        axes.axhline(best, color="k", linestyle=":", label="optimum")
        axes.set_xscale("log")
        axes.legend(fontsize=8)

    return Outcome(
        claims=[
            robust(
                "10 iterations improve every partitioning", "yes", str(helps), as_claimed(helps)
            ),
            robust(
                "no k-means, 100 partitions", "-", f"{at[0]:.1%} of the optimum", below(0.97, at[0])
            ),
            robust(
                "10 iterations, 100 partitions",
                "dramatic",
                f"{at[10]:.1%} of the optimum",
                above(0.98, at[10]),
            ),
            robust(
                "the same without eq. 2.3's normalisation",
                "-",
                f"{plain:.1%} of the optimum",
                below(0.7, plain),
            ),
        ],
        table=table,
        draw=draw,
        notes=[
            (
                "100 000 objects, else as Table 2.3. Without the normalisation change rates of the "
                "order 1 drown access probabilities of the order 1/N: clusters ignore the profile."
            )
        ],
    )


def figure_2_9(ctx: Context) -> Outcome:
    seed = ctx.seeds[0]
    # One after the other: two at a time would disturb the times.
    found = [_refined((seed, k, True)) for k in CLUSTERS]
    best, exact_s = _exact(seed)
    table = [["partitions", "iterations", "processor time (s)", PF_AXIS]]
    for k, run in zip(CLUSTERS, found, strict=True):
        for n, (pf, seconds) in zip(ITERATIONS, run, strict=True):
            table.append([str(k), str(n), number(seconds), number(pf)])
    table.append(["exact planner", "-", number(exact_s), number(best)])
    few = found[CLUSTERS.index(50)][ITERATIONS.index(10)][0]
    many = found[CLUSTERS.index(200)][0][0]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for k, run in zip(CLUSTERS, found, strict=True):
            axes.plot([s for _, s in run], [pf for pf, _ in run], "o-", markersize=3, label=f"{k}")
        start = [run[0] for run in found]
        axes.plot([s for _, s in start], [pf for pf, _ in start], "k-", linewidth=2.5, alpha=0.5)
        axes.plot(exact_s, best, "k*", markersize=12)
        axes.annotate("exact planner", (exact_s, best), (8, -4), textcoords="offset points")
        axes.set_xscale("log")
        axes.set_xlabel("processor time (s); the thick line is the cluster line, 0 iterations")
        axes.set_ylabel(PF_AXIS)
        axes.legend(title="partitions", fontsize=8, loc="lower right")

    return Outcome(
        claims=[
            robust(
                "50 partitions and 10 iterations beat 200 partitions and none",
                "yes",
                f"{few:.3f} against {many:.3f}",
                as_claimed(few > many),
            ),
            published(
                "time to a good solution: 50 partitions, 10 iterations",
                "62 s",
                f"{found[2][ITERATIONS.index(10)][1]:.2f} s; exact optimum {exact_s:.2f} s",
                at_most(62, found[2][ITERATIONS.index(10)][1]),
            ),
        ],
        table=table,
        draw=draw,
        notes=["Times are of the machine that ran this; the text's are of 2003, with IMSL."],
    )


EXPERIMENTS = (
    Experiment("freshening/fig2.8", "Improvement by clustering", figure_2_8, seeds=1),
    Experiment("freshening/fig2.9", "Improvement by clustering, over time", figure_2_9, seeds=1),
)
