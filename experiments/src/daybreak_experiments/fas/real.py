"""Figure 10: staleness over utilisation on recorded packet arrivals."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from daybreak_experiments.core import Claim, Context, Experiment, Outcome, Skipped
from daybreak_experiments.fas.load import LABELS, MARKS, POLICIES, shown
from daybreak_experiments.fas.sweep import (
    NOTE_CALENDAR,
    Means,
    every_seed,
    on_average,
    percent,
)
from daybreak_experiments.fas.testbed import Setting
from daybreak_experiments.rules import above

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAMS = ("tcp", "udp")
UTILISATIONS = (0.5, 0.95)
#: Packets per run, of both traces together.
PACKETS = 1_000
SOURCE = "Internet Traffic Archive, LBL-PKT-4 (ita.ee.lbl.gov/html/contrib/LBL-PKT.html)"
NOTE_WINDOW = (
    f"Each seed takes another window of about {PACKETS} packets of both traces together "
    f"({SOURCE}), in their own proportion; time is stretched to the utilisation."
)


def figure_10(context: Context) -> Outcome:
    missing = [name for name in STREAMS if name not in context.traces]
    if missing:
        reason = f"no --trace {' or '.join(f'{m}=FILE' for m in missing)}; from the {SOURCE}"
        claim = "FAS-MCQ below RB-MCQ below RR and FCFS on real traces"
        return Outcome([Skipped(claim, "everywhere", reason)])
    files = tuple(context.traces[name].resolve() for name in STREAMS)

    def at(policy: str, utilisation: float) -> Setting:
        return Setting(
            policy=policy, utilisation=utilisation, streams=2, tuples=PACKETS, traces=files
        )

    means = Means(context, [at(p, u) for p in POLICIES for u in UTILISATIONS])
    rows = [["utilisation", *(LABELS[p] for p in POLICIES)]]
    for u in UTILISATIONS:
        rows.append([f"{u:g}", *(shown(means.mean(at(p, u)), "staleness") for p in POLICIES)])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for mark, policy in zip(MARKS, POLICIES, strict=False):
            values = [means.mean(at(policy, u)) * 100 for u in UTILISATIONS]
            axes.plot(UTILISATIONS, values, marker=mark, label=LABELS[policy])
        axes.set_xlabel("utilisation")
        axes.set_ylabel("average staleness (%)")
        axes.set_ylim(bottom=0)
        axes.legend()

    saving = means.saving(at("fas-mcq", 0.95), at("rb-mcq", 0.95))
    return Outcome(
        claims=[
            every_seed(
                "FAS-MCQ is less stale than RB-MCQ, at every utilisation",
                means,
                [(at("fas-mcq", u), at("rb-mcq", u)) for u in UTILISATIONS],
            ),
            every_seed(
                "RB-MCQ is less stale than RR and FCFS, at every utilisation",
                means,
                [(at("rb-mcq", u), at(p, u)) for u in UTILISATIONS for p in POLICIES[2:]],
            ),
            on_average(
                "staleness grows with utilisation, for every policy",
                means,
                [(at(p, a), at(p, b)) for p in POLICIES for a, b in pairwise(UTILISATIONS)],
            ),
            Claim(
                "FAS-MCQ below RB-MCQ at 0.95",
                "published",
                "(no number)",
                percent(saving),
                above(0, saving),
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            NOTE_WINDOW,
            "Of TCP this can be all packets or, as in the archive's sf file, SYN and FIN only.",
            NOTE_CALENDAR,
        ],
    )


EXPERIMENTS = (Experiment("fas/fig10", "staleness on recorded packet arrivals", figure_10),)
