"""A class with little input, and the modules against inversion (6.3.3, Figures 84-106).

Levelling, which is ours, is shown beside the text's four modules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daybreak.report.classes import colour
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
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MODULES = ("none", "dvp", "ivp", "dsp", "isp", "level")
TEXT_MODULES = ("dvp", "ivp", "dsp", "isp")
#: Classes whose inversion must show here too; class 2's is at the border.
INVERTING = (1, 3)
#: What levelling may cost: times plain MBD's weighted response.
MOST_COST = 1.2
SYNC_NOTE = (
    "Aggregates hold their newest tuple until the next arrives (aggregate_sync): without that the "
    "class is far from inverting here."
)


class Case(NamedTuple):
    """One class of 5G_4 at 500 tuples/s, judged at a level."""

    low: int
    percentile: int
    sync: bool

    @property
    def level(self) -> str:
        return f"p{self.percentile}" if self.percentile else "mean"

    def setting(self, module: str) -> Setting:
        params = {"module": module, "percentile": self.percentile, "up": False}
        found = Setting.of(f"LowInput_{self.low}", "mbd", **params)
        return found.on(aggregate_sync=True) if self.sync else found


CASES = {
    "low_input_1": Case(1, 0, sync=False),
    "low_input_3": Case(3, 0, sync=True),
    "low75_1": Case(1, 75, sync=False),
    "low75_2": Case(2, 75, sync=True),
    "low75_3": Case(3, 75, sync=True),
}


def plain(context: Context) -> Outcome:
    """Figures 84-88: no modules, each class in turn."""
    settings = {
        (low, sync): Case(low, 0, sync=sync).setting("none")
        for sync, classes in ((False, range(1, 6)), (True, (2, 3)))
        for low in classes
    }
    sweep = Sweep(context, settings.values())

    def slower(low: int, sync: bool, level: str = "mean") -> list[bool]:
        runs = [r.figures.at(level) for r in sweep.seen(settings[low, sync])]
        return [bool(at[low - 1] > at[low]) for at in runs]

    def clean(low: int) -> list[bool]:
        return [r.figures.inversion() == 0 for r in sweep.seen(settings[low, False])]

    rows = [["class at 500/s", "aggregates", *(f"class {c}" for c in range(1, 6)), "inverted at"]]
    for (low, sync), setting in settings.items():
        levels = [" ".join(r.figures.inverts()) or "-" for r in sweep.seen(setting)]
        means = [ms(sweep.class_ms(setting, c)) for c in range(5)]
        held = "hold one" if sync else "at once"
        rows.append([str(low), held, *means, max(set(levels), key=levels.count)])

    def draw(figure: Figure) -> None:
        figure.set_size_inches(9.0, 4.0)
        grid = figure.subplots(1, 2, sharey=True)
        for axes, sync in zip(grid, (False, True), strict=True):
            for low in (low for low, held in settings if held == sync):
                means = [sweep.class_ms(settings[low, sync], c) for c in range(5)]
                axes.plot(
                    range(1, 6), means, marker="o", color=colour(low - 1), label=f"class {low}"
                )
            axes.set_title("aggregates hold one tuple" if sync else "aggregates answer at once")
            axes.set_xlabel("class")
            axes.set_xticks(range(1, 6))
        grid[0].set_ylabel("mean response (ms)")
        grid[0].legend(title="at 500/s")

    return Outcome(
        claims=[
            every_seed(
                "class 1 at 500/s is slower than class 2", "Figure 84", "yes", slower(1, False)
            ),
            every_seed(
                "class 3 at 500/s is slower than class 4 with aggregate sync",
                "Figure 86",
                "yes",
                slower(3, True),
            ),
            every_seed("class 4 at 500/s: no inversion at the mean", "Figure 87", "yes", clean(4)),
            every_seed("class 5 at 500/s: no inversion at the mean", "Figure 88", "yes", clean(5)),
            published(
                "class 2 at 500/s is slower than class 3 at the 75th percentile, not at the mean",
                "Figure 85",
                f"with aggregate sync in {sum(slower(2, True, 'p75'))} of {len(sweep.seeds)} seeds "
                f"at p75, {sum(slower(2, True))} at the mean; without in "
                f"{sum(slower(2, False, 'p75'))} and {sum(slower(2, False))}",
                required(
                    "with aggregate sync, at p75 with every seed and at the mean with none",
                    *slower(2, True, "p75"),
                    not any(slower(2, True)),
                ),
            ),
            published(
                "class 3 at 500/s is slower than class 4 without aggregate sync",
                "Figure 86",
                f"in {sum(slower(3, False))} of {len(sweep.seeds)} seeds",
                required("with every seed", *slower(3, False)),
            ),
        ],
        table=rows,
        draw=draw,
    )


def judge(case: Case, context: Context) -> Outcome:
    settings = {m: case.setting(m) for m in MODULES}
    sweep = Sweep(context, settings.values())
    runs = {m: sweep.seen(s) for m, s in settings.items()}
    levelled = level_claims(
        f" removes the inversion at the {case.level}",
        [r.figures.inversion(case.level) for r in runs["level"]],
        *(runs[m] for m in ("level", "none", "dsp")),
    )
    return Outcome(
        claims=[*_text_claims(case, runs), *levelled],
        table=table(sweep, settings, case.level),
        draw=lambda figure: bars(figure, sweep, settings, case.level),
        notes=[SYNC_NOTE] if case.sync else [],
    )


def _removing(case: Case) -> set[str]:
    """The modules that remove the inversion, by the text."""
    if not case.percentile:
        return set(TEXT_MODULES)
    return {"dsp"} if case.low != 2 else set(TEXT_MODULES) - {"dvp"}


def _text_claims(case: Case, runs: dict[str, list[Seen]]) -> list[Claim]:
    low, level = case.low, case.level
    inverted = [bool(r.figures.at(level)[low - 1] > r.figures.at(level)[low]) for r in runs["none"]]
    weighted = {m: [r.weighted_ms for r in found] for m, found in runs.items()}
    # A tie counts: where nothing inverts, DSP changes nothing.
    highest = [
        weighted["dsp"][i] == max(weighted[m][i] for m in TEXT_MODULES)
        for i in range(len(inverted))
    ]
    cost = [d / p for d, p in zip(weighted["dsp"], weighted["none"], strict=True)]
    cleaned = {m: sum(r.figures.inversion(level) == 0 for r in runs[m]) for m in TEXT_MODULES}
    updates = {m: np.mean([len(r.updates_s) for r in runs[m]]) for m in TEXT_MODULES}
    wanted = _removing(case)
    fewest = "dvp" if case == CASES["low_input_1"] else "dsp"
    inverts = every_seed(
        f"without modules class {low} is slower than class {low + 1} at the {level}",
        "yes",
        f"PrIR {ranged([r.figures.inversion(level) for r in runs['none']], '{:.3f}'.format)}",
        inverted,
    )
    if low not in INVERTING:
        inverts = replace(inverts, kind="published")
    return [
        inverts,
        every_seed(
            f"DSP removes the inversion at the {level}",
            "yes",
            f"PrIR {ranged([r.figures.inversion(level) for r in runs['dsp']], '{:.3f}'.format)}",
            [r.figures.inversion(level) == 0 for r in runs["dsp"]],
        ),
        every_seed(
            "DSP has the highest weighted response of the four modules",
            "yes",
            f"{ranged(cost)} plain MBD's",
            highest,
        ),
        published(
            "modules that remove the inversion",
            _shown(wanted),
            ", ".join(f"{m.upper()} {n} of {len(inverted)}" for m, n in cleaned.items()),
            required(
                "the text's with every seed, and no others",
                {m for m, n in cleaned.items() if n == len(inverted)} == wanted,
            ),
        ),
        published(
            "fewest updates",
            fewest.upper(),
            ", ".join(f"{m.upper()} {n:.3g}" for m, n in updates.items()),
            required("the fewest, over the seeds' mean", updates[fewest] == min(updates.values())),
        ),
    ]


def _shown(modules: set[str]) -> str:
    left_out = set(TEXT_MODULES) - modules
    if len(modules) == 1 or len(left_out) > 1:
        return " and ".join(sorted(m.upper() for m in modules))
    return "all" + "".join(f" but {m.upper()}" for m in left_out)


def level_claims(
    converged: str, left: list[float], ours: list[Seen], plain_runs: list[Seen], dsp: list[Seen]
) -> list[Claim]:
    """What levelling is to do, wherever it is shown: converge, with few updates, at little cost.

    ``left`` is the inversion that is left, by run, and ``converged`` says where it is looked for.
    """
    cost = [a.weighted_ms / b.weighted_ms for a, b in zip(ours, plain_runs, strict=True)]
    updates = [(len(a.updates_s), len(b.updates_s)) for a, b in zip(ours, dsp, strict=True)]
    return [
        every_seed(
            f"levelling (ours){converged}",
            "-",
            f"PrIR {ranged(left, '{:.3f}'.format)}",
            [x == 0 for x in left],
        ),
        every_seed(
            "levelling needs no more updates than DSP",
            "-",
            ", ".join(f"{a} to {b}" for a, b in updates),
            [a <= b for a, b in updates],
        ),
        every_seed(
            f"levelling costs at most {MOST_COST:g}x plain MBD's weighted response",
            "-",
            ranged(cost),
            [x <= MOST_COST for x in cost],
        ),
    ]


def table(sweep: Sweep, settings: dict[str, Setting], level: str) -> list[list[str]]:
    plain_ms = sweep.weighted_ms(settings["none"])
    classes = range(5)
    rows = [
        ["module", *(f"class {c + 1} {level}" for c in classes), "weighted mean", "to plain",
         f"PrIR {level}", "updates", "last update"]
    ]  # fmt: skip
    for module, setting in settings.items():
        at = np.mean([r.figures.at(level) for r in sweep.seen(setting)], axis=0)
        rows.append(
            [
                label(module),
                *(ms(x * 1e3) for x in at),
                ms(sweep.weighted_ms(setting)),
                times(sweep.weighted_ms(setting) / plain_ms),
                f"{sweep.mean(setting, lambda r: r.figures.inversion(level)):.3f}",
                f"{sweep.mean(setting, lambda r: len(r.updates_s)):.3g}",
                f"{sweep.mean(setting, lambda r: r.updates_s[-1] if r.updates_s else 0.0):.2f} s",
            ]
        )
    return rows


def label(module: str) -> str:
    return {"none": "MBD", "level": "levelling"}.get(module, module.upper())


def bars(figure: Figure, sweep: Sweep, settings: dict[str, Setting], level: str) -> None:
    figure.set_size_inches(10.0, 3.6)
    panels: list[tuple[str, Callable[[Seen], float]]] = [
        ("weighted response (ms)", lambda r: r.weighted_ms),
        (f"PrIR at the {level}", lambda r: r.figures.inversion(level)),
        ("schedule updates", lambda r: len(r.updates_s)),
        ("last update (s)", lambda r: r.updates_s[-1] if r.updates_s else 0.0),
    ]
    names = [label(m) for m in settings]
    for axes, (title, value) in zip(figure.subplots(1, len(panels)), panels, strict=True):
        found = [sweep.mean(s, value) for s in settings.values()]
        axes.bar(names, found, color=[colour(i) for i in range(len(names))])
        axes.set_title(title)
        axes.tick_params(axis="x", rotation=60)


EXPERIMENTS = (
    Experiment("classes/low_input", "MBD with little input for one class (Fig. 84-88)", plain, 3),
    *(
        Experiment(
            f"classes/{name}",
            f"modules against inversion: class {case.low} at 500/s, judged at the {case.level}",
            partial(judge, case),
            3,
        )
        for name, case in CASES.items()
    ),
)
