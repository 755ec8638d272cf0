"""More cores for the sources, and other orders of polling them (section 6.3.6, Figure 119)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daybreak.report.classes import colour
from daybreak_experiments.classes.measures import (
    Setting,
    Sweep,
    every_seed,
    ms,
    ranged,
)
from daybreak_experiments.classes.system import divided_cores, network_of
from daybreak_experiments.classes.workloads import load_workload
from daybreak_experiments.core import Context, Experiment, Note, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS = 2.0
#: "No significant difference" between the orders of polling.
ALIKE = 0.05


def run(context: Context) -> Outcome:
    workload = load_workload("5S_8")
    base = Setting.of("5S_8", "mbd").lasting(SECONDS)
    two = base.on(cores=7, source_cores=2)
    settings = {"8+1": base, "7+2 MRR": two, "7+2 MBD": two.on(source_order="mbd")}
    sweep = Sweep(context, settings.values())
    one, by_turns, by_class = ([r.weighted_ms for r in sweep.seen(s)] for s in settings.values())
    gain = [min(a, b) / x for x, a, b in zip(one, by_turns, by_class, strict=True)]
    apart = [abs(a / b - 1) for a, b in zip(by_turns, by_class, strict=True)]
    rows = [["operational + source cores", *(f"class {c}" for c in range(1, 6)), "weighted"]]
    for name, setting in settings.items():
        means = [ms(sweep.class_ms(setting, c)) for c in range(5)]
        rows.append([name, *means, ms(sweep.weighted_ms(setting))])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for i, (name, setting) in enumerate(settings.items()):
            places = [c + (i - 1) * 0.27 for c in range(5)]
            values = [sweep.class_ms(setting, c) for c in range(5)]
            axes.bar(places, values, 0.25, label=name, color=colour(i))
        axes.set_xticks(range(5), [f"class {c}" for c in range(1, 6)])
        axes.set_ylabel("mean response (ms)")
        axes.legend()

    return Outcome(
        claims=[
            every_seed(
                "8+1 cores: lower weighted response than 7+2",
                "yes",
                f"7+2 takes {ranged(gain)} as long",
                [x > 1 for x in gain],
            ),
            every_seed(
                f"the order of polling makes no visible difference (within {ALIKE:.0%})",
                "none visible",
                f"within {max(apart):.1%}",
                [x <= ALIKE for x in apart],
            ),
            Note(
                "9 cores divided by expected load (2.2.3)",
                "{}+{}".format(*divided_cores(workload, network_of(workload), 9)),
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            "1200 tuples/s as in Table 9; the prose of 6.3.6 says 4800.",
            (
                f"Runs last {SECONDS:g} s. When a source is polled is worked out beforehand from "
                "the polling order and the load: the sources' cores do nothing else."
            ),
        ],
    )


EXPERIMENTS = (Experiment("classes/sources", "cores for the sources (Fig. 119)", run, 3),)
