"""Selectivities, priorities and inputs that change: 6.3.4, 6.3.5 and 6.3.7 (Figures 107-135)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daybreak.report.classes import colour
from daybreak.runtime.classes import ClassesOverTime, inversion_ratios
from daybreak_experiments.classes.low_input import level_claims
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
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import above, between, close, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Figure 107 and its kin take 2.8 s at most; longer here, so that what was changed can settle.
SECONDS = 4.0
#: What levelling must have settled for: the end of the run.
TAIL_S = 1.0
#: From so long after the last change of priorities on, `_up` is judged.
SETTLED_S = 0.5


def mbd(workload: str, **params: Any) -> Setting:
    found = Setting.of(workload, "mbd", **{"up": False, **params})
    return found if workload == "PIAT" else found.lasting(SECONDS)


def priorities_at(workload: str, seconds: float) -> list[float]:
    """The classes' priorities at this instant, as the workload file says."""
    found = []
    for cls in load_workload(workload).classes:
        changed = [p for at_s, p in cls.priorities if at_s <= seconds]
        found.append(changed[-1] if changed else cls.priority)
    return found


def inversion_over_time(workload: str, over: ClassesOverTime) -> NDArray[np.float64]:
    """Cumulative PrIR (over the classes) in each slot, by the priorities of that moment."""
    ratios = [
        inversion_ratios(priorities_at(workload, t), row).sum()
        for t, row in zip(over.time_s, over.response_s, strict=True)
    ]
    return np.array(ratios)


def total_inversion(workload: str, run: Seen) -> float:
    """PrIR over time, in seconds: a class twice as slow as the next for a second counts 1."""
    return float(inversion_over_time(workload, run.over).sum() * run.over.time_s[0])


def means_between(run: Seen, since_s: float, until_s: float = np.inf) -> NDArray[np.float64]:
    """Mean response (s) by class of what left between two instants."""
    within = (run.over.time_s > since_s) & (run.over.time_s <= until_s)
    left = run.over.left[within]
    sums = np.nansum(run.over.response_s[within] * left, axis=0)
    means: NDArray[np.float64] = sums / np.maximum(left.sum(axis=0), 1)
    return means


def tail_inversion(workload: str, run: Seen) -> float:
    """PrIR at the mean of the last second in which tuples still arrived."""
    arrived = run.over.time_s[run.over.arrived.sum(axis=1) > 0]
    end = float(arrived[-1])
    means = means_between(run, end - TAIL_S, end)
    return float(inversion_ratios(priorities_at(workload, end), means).sum())


def _figures(sweep: Sweep, workload: str, settings: dict[str, Setting]) -> list[list[str]]:
    classes = len(load_workload(workload).classes)
    rows = [
        ["", *(f"class {c + 1}" for c in range(classes)), "weighted", "PrIR over time", "updates",
         "last update"]
    ]  # fmt: skip
    for name, setting in settings.items():
        rows.append(
            [
                name,
                *(ms(sweep.class_ms(setting, c)) for c in range(classes)),
                ms(sweep.weighted_ms(setting)),
                f"{sweep.mean(setting, lambda r: total_inversion(workload, r)):.3f} s",
                f"{sweep.mean(setting, lambda r: len(r.updates_s)):.3g}",
                f"{sweep.mean(setting, lambda r: r.updates_s[-1] if r.updates_s else 0):.2f} s",
            ]
        )
    return rows


def _over_time(figure: Figure, sweep: Sweep, workload: str, settings: dict[str, Setting]) -> None:
    """Response times of some schedulers, and PrIR of all, over time; the first seed."""
    count = len(settings)
    figure.set_size_inches(10.0, 2.2 * (count + 1))
    grid = figure.subplots(count + 1, 1, sharex=True)
    for axes, (name, setting) in zip(grid, settings.items(), strict=False):
        over = sweep.seen(setting)[0].over
        for c in range(over.response_s.shape[1]):
            axes.plot(
                over.time_s, over.response_s[:, c] * 1e3, color=colour(c), label=f"class {c + 1}"
            )
        axes.set_title(name, loc="left", fontsize=9)
        axes.set_ylabel("response (ms)")
        axes.set_ylim(bottom=0)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    for i, (name, setting) in enumerate(settings.items()):
        over = sweep.seen(setting)[0].over
        grid[-1].plot(over.time_s, inversion_over_time(workload, over), color=colour(i), label=name)
    grid[-1].set_ylabel("PrIR")
    grid[-1].set_xlabel("time (s)")
    grid[-1].legend(fontsize=8, ncols=count, loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _shortened(
    workload: str, sweep: Sweep, plain: Setting, modules: dict[str, Setting]
) -> list[Claim]:
    before = [total_inversion(workload, r) for r in sweep.seen(plain)]
    claims = []
    for name, setting in modules.items():
        after = [total_inversion(workload, r) for r in sweep.seen(setting)]
        claims.append(
            every_seed(
                f"{name} removes or shortens inversion compared with plain MBD",
                "yes",
                f"PrIR over time {ranged(after, '{:.3f} s'.format)}, plain "
                f"{ranged(before, '{:.3f} s'.format)}",
                [a < b or a == 0 for a, b in zip(after, before, strict=True)],
            )
        )
    return claims


def _shortened_on_average(
    workload: str, sweep: Sweep, plain: Setting, modules: dict[str, Setting]
) -> list[Claim]:
    """The same over the seeds' mean, where a single seed may go the other way."""
    before = sweep.mean(plain, lambda r: total_inversion(workload, r))
    claims = []
    for name, setting in modules.items():
        after = sweep.mean(setting, lambda r: total_inversion(workload, r))
        claims.append(
            Claim(
                f"{name} shortens inversion on average, compared with plain MBD",
                "robust",
                "yes",
                f"PrIR over time {after:.3f} s, plain {before:.3f} s",
                required("over the seeds' mean", after < before),
            )
        )
    return claims


def _levelled(
    workload: str, sweep: Sweep, ours: Setting, plain: Setting, dsp: Setting
) -> list[Claim]:
    """The same three claims as for a class with little input; convergence at the end."""
    return level_claims(
        f": no inversion at the mean in the last {TAIL_S:g} s",
        [tail_inversion(workload, r) for r in sweep.seen(ours)],
        *(sweep.seen(s) for s in (ours, plain, dsp)),
    )


def sel_change(context: Context) -> Outcome:
    name = "Sel-Change"
    plain = mbd(name)
    modules = {
        f"{m.upper()}_{s.upper()}": mbd(name, module=m, selectivity=s)
        for s in ("s", "sa")
        for m in ("dvp", "dsp")
    }
    alone = {"_S": mbd(name, selectivity="s"), "DVP": mbd(name, module="dvp"),
             "DSP": mbd(name, module="dsp")}  # fmt: skip
    level = mbd(name, module="level", selectivity="sa")
    settings = {"MBD": plain, **alone, **modules, "levelling": level}
    sweep = Sweep(context, settings.values())
    shown = {n: settings[n] for n in ("MBD", "DVP_SA", "DSP_SA", "levelling")}
    inverts = [r.figures.inversion() for r in sweep.seen(plain)]
    clean = {n: sum(r.figures.inversion() == 0 for r in sweep.seen(s)) for n, s in settings.items()}
    return Outcome(
        claims=[
            *_shortened_on_average(name, sweep, plain, modules),
            *(replace(c, kind="published") for c in _shortened(name, sweep, plain, modules)),
            *_levelled(name, sweep, level, plain, modules["DSP_SA"]),
            published(
                "plain MBD inverts at the mean",
                "yes",
                f"PrIR {ranged(inverts, '{:.3f}'.format)}",
                above(0, *inverts),
            ),
            published(
                "no inversion at the mean over the run",
                "DVP_SA, DSP_SA, DVP_S and DSP_S; not MBD, _S, DVP, DSP",
                ", ".join(f"{n} {k} of {len(inverts)}" for n, k in clean.items()),
                required(
                    "the text's four with every seed, its other four with none",
                    *(clean[n] == len(inverts) for n in modules),
                    *(clean[n] == 0 for n in ("MBD", *alone)),
                ),
            ),
        ],
        table=_figures(sweep, name, settings),
        draw=lambda figure: _over_time(figure, sweep, name, shown),
        notes=[
            (
                "Figure 107 is not in the text: class 3's selectivity falls from 0.9 to 0.1 in "
                "steps until 1.6 s (workload Sel-Change). Levelling follows selectivities as _SA "
                "does."
            )
        ],
    )


def pr_change(context: Context) -> Outcome:
    name = "Pr-Change"
    settings = {"MBD": mbd(name), "MBD_UP": mbd(name, up=True)}
    sweep = Sweep(context, settings.values())
    since = 2.0 + SETTLED_S
    after = [means_between(r, since) for r in sweep.seen(settings["MBD_UP"])]
    return Outcome(
        claims=[
            *_shortened(name, sweep, settings["MBD"], {"MBD_UP": settings["MBD_UP"]}),
            every_seed(
                f"MBD_UP: no inversion at the mean from {since:g} s on, with all priorities apart",
                "none",
                "classes 1 to 5: "
                + " ".join(f"{x * 1e3:.3g}" for x in np.mean(after, axis=0))
                + " ms",
                [inversion_ratios(priorities_at(name, 9.0), a).sum() == 0 for a in after],
            ),
        ],
        table=_figures(sweep, name, settings),
        draw=lambda figure: _over_time(figure, sweep, name, settings),
        notes=["Figure 112 is not in the text; priorities change at 1 and 2 s as the prose says."],
    )


def pr_change_merge(context: Context) -> Outcome:
    name = "Pr-Change-Merge"
    settings = {"MBD": mbd(name), "MBD_UP": mbd(name, up=True)}
    sweep = Sweep(context, settings.values())
    plain, up = (
        [means_between(r, 2.0 + SETTLED_S) for r in sweep.seen(s)] for s in settings.values()
    )
    lowest = [u[4] / p[4] for u, p in zip(up, plain, strict=True)]
    beside = {
        n: [float(m[4] / m[3]) for m in found] for n, found in (("MBD", plain), ("MBD_UP", up))
    }
    return Outcome(
        claims=[
            every_seed(
                "with equal priorities, class 5 is faster under MBD_UP than under MBD",
                "yes",
                f"{ranged(lowest)} MBD's",
                [x < 1 for x in lowest],
            ),
            published(
                "class 5 against class 4, which has the same priority then",
                "alike under MBD_UP",
                ", ".join(f"{n} {times(float(np.mean(x)))}" for n, x in beside.items()),
                between(0.9, 1.1, *beside["MBD_UP"]),
            ),
        ],
        table=_figures(sweep, name, settings),
        draw=lambda figure: _over_time(figure, sweep, name, settings),
        notes=["Figure 116 is not in the text; when priorities change is ours (1 and 2 s)."],
    )


PIAT_BASELINES = ("mrr", "morr", "ml", "mol", "mprr", "pct", "pct-s")


def piat(context: Context) -> Outcome:
    name = "PIAT"
    plain = mbd(name)
    modules = {
        f"{m.upper()}_SA_UP": mbd(name, module=m, selectivity="sa", up=True) for m in ("dvp", "dsp")
    }
    level = mbd(name, module="level", selectivity="sa", up=True)
    settings = {
        "MBD": plain,
        **modules,
        "levelling": level,
        **{p.upper().replace("-", "_"): Setting.of(name, p) for p in PIAT_BASELINES},
    }
    sweep = Sweep(context, settings.values())
    totals = {n: sweep.mean(s, lambda r: total_inversion(name, r)) for n, s in settings.items()}
    best = sorted((n for n in totals if n != "levelling"), key=totals.__getitem__)[:3]
    highest = [
        sweep.mean(settings[n], lambda r: np.nanmax(r.over.response_s[:, 2])) * 1e3
        for n in ("PCT", "PCT_S")
    ]
    lowest = [sweep.class_ms(settings["MPRR"], c) for c in (3, 4)]
    shown = {n: settings[n] for n in ("MBD", "DVP_SA_UP", "DSP_SA_UP", "levelling")}
    return Outcome(
        claims=[
            *_shortened(name, sweep, plain, modules),
            *_levelled(name, sweep, level, plain, modules["DSP_SA_UP"]),
            published(
                "least inversion over time",
                "DSP_SA_UP and DVP_SA_UP",
                ", ".join(best),
                required("the two least of the text's schedulers", set(best[:2]) == set(modules)),
            ),
            published(
                "PCT and PCT_S: class 3's response at its highest",
                "2 s",
                ", ".join(map(ms, highest)),
                close(2000, highest),
            ),
            published(
                "MPRR: classes 4 and 5",
                "close to 120 ms",
                " and ".join(map(ms, lowest)),
                close(120, lowest),
            ),
        ],
        table=_figures(sweep, name, settings),
        draw=lambda figure: _over_time(figure, sweep, name, shown),
        notes=[
            (
                "Figures 121-123 are not in the text; rates and selectivities over time are ours "
                "(workload PIAT). The union and the except count as class 1."
            )
        ],
    )


EXPERIMENTS = (
    Experiment("classes/sel_change", "selectivities change (Fig. 107-111)", sel_change, 3),
    Experiment("classes/pr_change", "priorities part (Fig. 112-115)", pr_change, 3),
    Experiment("classes/pr_change_merge", "priorities meet (Fig. 116-118)", pr_change_merge, 3),
    Experiment("classes/piat", "everything changes (Fig. 120-135)", piat, 3),
)
