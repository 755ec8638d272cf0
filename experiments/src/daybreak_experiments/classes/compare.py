"""Figures 21 to 69: eight schedulers on five workloads of many cores (6.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from daybreak.report.classes import whiskers
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
from daybreak_experiments.core import Claim, Context, Experiment, Line, Note, Outcome
from daybreak_experiments.rules import Rule, below, between, close, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEDULERS = ("mbd", "mrr", "morr", "ml", "mol", "mprr", "pct", "pct-s")
#: Those that know the classes' priorities.
AWARE = ("mbd", "ml", "mol", "mprr")
WORKLOADS = {
    "5g": ("5G_4", "Figures 21-29"),
    "3d_6": ("3D_6", "Figures 30-39"),
    "3e_6": ("3E_6", "Figures 40-49"),
    "3f_6": ("3F_6", "Figures 50-59"),
    "5i": ("5I", "Figures 60-69"),
}
#: Where the text's figures show inversion (28, 38, 48, 58, 68).
SHOWN_LEVELS = ("mean", "p50", "p75", "p90", "p95")
#: MPRR's lowest class, times MBD's; ML's spread of the lowest class, times MBD's.
STARVED, SPREAD = 2.5, 1.7
#: Overloaded: working off takes so much longer than arriving did.
OVERRUN = 0.05
OVERLOADED = {
    "3d_6": {"pct": True, "pct-s": False},
    "3e_6": {"pct": True, "pct-s": True},
    "3f_6": {"pct": True, "pct-s": True},
}
#: What the text prints about MBD: lowest class over highest.
RATIOS: dict[str, tuple[str, Callable[[Sequence[float]], Rule]]] = {
    "3e_6": ("3.6", partial(close, 3.6)),
    "3f_6": ("below 1.5", lambda ratios: below(1.5, *ratios)),
    "5i": ("6.2", partial(close, 6.2)),
}
#: Where the text sees ML invert: on every workload but this one.
ML_CLEAN = "3d_6"
#: Classes are treated alike if the lowest one's response is so near the highest one's.
ALIKE = 0.1


def compare(key: str, context: Context) -> Outcome:
    workload, _ = WORKLOADS[key]
    settings = {s: Setting.of(workload, s) for s in SCHEDULERS}
    sweep = Sweep(context, settings.values())
    seen = {s: sweep.seen(settings[s]) for s in SCHEDULERS}
    claims = [
        *_about_mbd(key, seen),
        *_about_others(seen),
        *_about_threads(key, seen),
        *_about_lotteries(key, seen),
    ]
    return Outcome(
        claims, _table(sweep, settings), _drawing(sweep, settings, workload), LOTTERY_NOTES
    )


def inverted_levels(run: Seen, levels: Sequence[str] = SHOWN_LEVELS) -> list[str]:
    return [level for level in run.figures.inverts() if level in levels]


def spread_s(run: Seen) -> float:
    """From the 10th to the 90th percentile of the lowest class: its whiskers."""
    return float(run.figures.at("p90")[-1] - run.figures.at("p10")[-1])


def _about_mbd(key: str, seen: dict[str, list[Seen]]) -> list[Line]:
    mbd = seen["mbd"]
    where = [inverted_levels(r) for r in mbd]
    low = [inverted_levels(r, ("p10", "p25")) for r in mbd]
    ratios = [r.figures.starvation_ratio for r in mbd]
    best = []
    rivals: set[str] = set()
    for i, run in enumerate(mbd):
        clean = {s for s in AWARE if s != "mbd" and not inverted_levels(seen[s][i])}
        rivals |= clean
        best.append(all(run.weighted_ms < seen[s][i].weighted_ms for s in clean))
    return [
        every_seed(
            "MBD: no inversion at the mean and the 50, 75, 90 and 95 percentiles", "none",
            "none" if not any(where) else f"at {sorted({x for w in where for x in w})}",
            [not w for w in where],
        ),
        every_seed(
            "MBD has the lowest weighted response of the priority-aware schedulers free of "
            "inversion", "yes",
            f"{ms(_mean(mbd))}; clean too: "
            + (", ".join(f"{s} {ms(_mean(seen[s]))}" for s in sorted(rivals)) or "none"),
            best,
        ),
        _about_ratio(key, ratios),
        Note(
            "MBD: inversion at the 10 and 25 percentiles, which the text does not show",
            "none" if not any(low) else f"at {sorted({x for w in low for x in w})}",
        ),
    ]  # fmt: skip


def _about_ratio(key: str, ratios: Sequence[float]) -> Line:
    claim = "MBD: lowest class's response over the highest's"
    if key not in RATIOS:
        return Note(claim, ranged(ratios))
    text, rule = RATIOS[key]
    return published(claim, text, ranged(ratios), rule(ratios))


def _mean(runs: Sequence[Seen], figure: Callable[[Seen], float] = lambda r: r.weighted_ms) -> float:
    return sum(figure(r) for r in runs) / len(runs)


def _about_others(seen: dict[str, list[Seen]]) -> list[Claim]:
    def pairs(one: str, other: str, figure: Callable[[Seen], float]) -> list[float]:
        return [figure(a) / figure(b) for a, b in zip(seen[one], seen[other], strict=True)]

    starved = pairs("mprr", "mbd", lambda r: r.mean_ms[-1])
    spread = pairs("ml", "mbd", spread_s)
    by_box = pairs("morr", "mrr", lambda r: r.weighted_ms)
    drawn = pairs("mol", "ml", lambda r: r.weighted_ms)
    return [
        every_seed(
            f"MPRR starves the lowest class: {STARVED:g}x MBD's or more", "yes",
            f"{ranged(starved)} MBD's", [x >= STARVED for x in starved],
        ),
        every_seed(
            f"ML spreads the lowest class's response times {SPREAD:g}x as far as MBD or more",
            "high variation", ranged(spread), [x >= SPREAD for x in spread],
        ),
        every_seed(
            "MRR is faster than MORR (weighted response)", "yes", f"MORR's is {ranged(by_box)}",
            [x > 1 for x in by_box],
        ),
        every_seed(
            "ML is faster than MOL (weighted response)", "yes", f"MOL's is {ranged(drawn)}",
            [x > 1 for x in drawn],
        ),
    ]  # fmt: skip


def _about_threads(key: str, seen: dict[str, list[Seen]]) -> list[Claim]:
    claims = []
    for scheduler, wanted in OVERLOADED.get(key, {}).items():
        overrun = [r.overrun for r in seen[scheduler]]
        claims.append(
            every_seed(
                f"{scheduler} {'overloads' if wanted else 'does not overload'}: working off "
                f"takes {OVERRUN:.0%} longer than the input {'or more' if wanted else 'at most'}",
                "overloaded" if wanted else "below 15 ms",
                f"{ranged(overrun, lambda x: f'{x:.1%}')} longer",
                [(x > OVERRUN) == wanted for x in overrun],
            )
        )
    return claims


def _about_lotteries(key: str, seen: dict[str, list[Seen]]) -> list[Claim]:
    inverted = [inverted_levels(r) for r in seen["ml"]]
    levels = sorted({x for found in inverted for x in found})
    ratios = [r.figures.starvation_ratio for r in seen["mol"]]
    clean = key == ML_CLEAN
    return [
        published(
            "ML inverts at none of the levels shown" if clean else "ML inverts in places",
            "no inversion" if clean else "inverts",
            f"inverts at {', '.join(levels) or 'no level'}",
            required("with every seed", *(bool(found) != clean for found in inverted)),
        ),
        published(
            "MOL prefers no class: the lowest one's response over the highest one's",
            "no preference",
            ranged(ratios),
            between(1 - ALIKE, 1 + ALIKE, *ratios),
        ),
    ]


def _table(sweep: Sweep, settings: dict[str, Setting]) -> list[list[str]]:
    classes = len(sweep.seen(settings["mbd"])[0].mean_ms)
    heads = [f"class {c + 1}" for c in range(classes)]
    rows = [["scheduler", "results", *heads, "weighted", "weighted p95", "PrIR", "low/high"]]
    for name, setting in settings.items():
        pooled = sweep.pooled(setting)
        rows.append(
            [
                name,
                f"{sum(pooled.counts):,}".replace(",", " "),
                *(ms(x * 1e3) for x in pooled.mean_s),
                ms(sweep.weighted_ms(setting)),
                ms(sweep.mean(setting, lambda s: s.figures.weighted_s("p95") * 1e3)),
                f"{sweep.mean(setting, lambda s: s.figures.inversion()):.3g}",
                times(sweep.mean(setting, lambda s: s.figures.starvation_ratio)),
            ]
        )
    return rows


def _drawing(sweep: Sweep, settings: dict[str, Setting], workload: str) -> Callable[[Figure], None]:
    def draw(figure: Figure) -> None:
        figure.set_size_inches(13.0, 6.4)
        grid = figure.subplots(2, 4)
        for axes, (name, setting) in zip(grid.flat, settings.items(), strict=True):
            whiskers(axes, sweep.pooled(setting), unit_s=1e-3)
            axes.set_title(name.upper().replace("-", "_"))
            axes.set_ylim(bottom=0)
        for row in grid:
            row[0].set_ylabel("response time (ms)")
        for axes in grid[-1]:
            axes.set_xlabel("class")
        figure.suptitle(
            f"{workload}: 10, 25, 50, 75 and 90 percentiles, means as diamonds; axes differ"
        )

    return draw


LOTTERY_NOTES = (
    "That ML inverts and that MOL prefers no class came out in none of the readings tried.",
)
EXPERIMENTS = tuple(
    Experiment(
        f"classes/compare_{key}",
        f"{figures}: eight schedulers on {workload}",
        partial(compare, key),
        seeds=3,
    )
    for key, (workload, figures) in WORKLOADS.items()
)
