"""Figure 8 (skew of selectivities) and figure 9 (number of bursty streams)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.fas.load import LABELS, MARKS, shown
from daybreak_experiments.fas.sweep import (
    NOTE_CALENDAR,
    NOTE_LENGTH,
    TUPLES,
    Means,
    every_seed,
    on_average,
    percent,
    published,
)
from daybreak_experiments.fas.testbed import Setting
from daybreak_experiments.rules import as_claimed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SKEWS = (0.0, 1.0, 2.0)
SKEWED = ("fas-mcq", "rb-mcq")
BURSTY = (0, 2, 5, 8, 10)


def skewed(policy: str, zipf: float) -> Setting:
    return Setting(policy=policy, zipf=zipf, equal_costs=True, tuples=TUPLES)


def bursty(policy: str, streams: int, calendar: float = 1.0) -> Setting:
    return Setting(policy=policy, bursty=streams, tuples=TUPLES, calendar=calendar)


def unpaid(streams: int) -> Setting:
    """FAS-MCQ whose calendar costs nothing: what the policy itself gains."""
    return bursty("fas-mcq", streams, calendar=0.0)


def figure_8(context: Context) -> Outcome:
    means = Means(context, [skewed(p, z) for p in SKEWED for z in SKEWS])
    savings = [means.saving(skewed("fas-mcq", z), skewed("rb-mcq", z)) for z in SKEWS]
    rows = [["Zipf parameter", *(LABELS[p] for p in SKEWED), "FAS-MCQ below RB-MCQ"]]
    for z, saving in zip(SKEWS, savings, strict=True):
        stale = [shown(means.mean(skewed(p, z)), "staleness") for p in SKEWED]
        rows.append([f"{z:g}", *stale, percent(saving)])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for mark, policy in zip(MARKS, SKEWED, strict=False):
            values = [means.mean(skewed(policy, z)) * 100 for z in SKEWS]
            axes.plot(SKEWS, values, marker=mark, label=LABELS[policy])
        axes.set_xlabel("skew of selectivities towards 1.0 (Zipf parameter)")
        axes.set_ylabel("average staleness (%)")
        axes.set_ylim(bottom=0)
        axes.legend()

    return Outcome(
        claims=[
            every_seed(
                "FAS-MCQ is less stale than RB-MCQ at every skew",
                means,
                [(skewed("fas-mcq", z), skewed("rb-mcq", z)) for z in SKEWS],
            ),
            on_average(
                "staleness grows with the skew, for every policy",
                means,
                [(skewed(p, 0.0), skewed(p, SKEWS[-1])) for p in SKEWED],
            ),
            Claim(
                "the gain of FAS-MCQ over RB-MCQ is larger with skew than without",
                "robust",
                "40% to 55%",
                ", ".join(percent(saving) for saving in savings),
                as_claimed(min(savings[1:]) > savings[0]),
            ),
            Claim(
                "the gain grows up to the largest skew",
                "published",
                "yes",
                ", ".join(percent(saving) for saving in savings),
                as_claimed(savings == sorted(savings)),
            ),
            published(
                "gain without skew and at the largest", [0.40, 0.55], savings[:: len(SKEWS) - 1]
            ),
        ],
        table=rows,
        draw=draw,
        notes=[NOTE_LENGTH, NOTE_CALENDAR, "All costs are equal and the utilisation is 0.95."],
    )


def figure_9(context: Context) -> Outcome:
    paid = [bursty(p, n) for p in ("fas-mcq", "rb-mcq") for n in BURSTY]
    means = Means(context, [*paid, *(unpaid(n) for n in BURSTY)])
    savings = {n: means.saving(bursty("fas-mcq", n), bursty("rb-mcq", n)) for n in BURSTY}
    free = {n: means.saving(unpaid(n), bursty("rb-mcq", n)) for n in BURSTY}
    heads = ["FAS-MCQ", "RB-MCQ", "FAS-MCQ / RB-MCQ", "with a free calendar"]
    rows = [["bursty streams of 10", *heads]]
    for n in BURSTY:
        stale = [shown(means.mean(bursty(p, n)), "staleness") for p in ("fas-mcq", "rb-mcq")]
        rows.append([str(n), *stale, f"{1 - savings[n]:.2f}", f"{1 - free[n]:.2f}"])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for mark, gains, label in (("o", savings, "FAS-MCQ"), ("s", free, "with a free calendar")):
            axes.plot(BURSTY, [1 - gains[n] for n in BURSTY], marker=mark, label=label)
        axes.set_xlabel("bursty streams (of 10)")
        axes.set_ylabel("staleness of FAS-MCQ / RB-MCQ")
        axes.set_ylim(0, 1.05)
        axes.legend(loc="lower right")

    return Outcome(
        claims=[
            every_seed(
                "FAS-MCQ is less stale than RB-MCQ if some streams are bursty",
                means,
                [(bursty("fas-mcq", n), bursty("rb-mcq", n)) for n in BURSTY if n],
            ),
            every_seed(
                "FAS-MCQ is less stale than RB-MCQ if no stream is bursty",
                means,
                [(bursty("fas-mcq", 0), bursty("rb-mcq", 0))],
                kind="published",
            ),
            every_seed(
                "with a calendar that costs nothing, however many are bursty",
                means,
                [(unpaid(n), bursty("rb-mcq", n)) for n in BURSTY],
            ),
            Claim(
                "the gain grows from no bursty stream to half of them",
                "robust",
                "up to 40% at 5",
                f"{percent(savings[0])} at 0, {percent(savings[5])} at 5",
                as_claimed(savings[5] > savings[0]),
            ),
            Claim(
                "beyond half of them bursty, the gain shrinks",
                "published",
                "40% at 5, 22% at 10",
                f"{savings[5]:.1%} at 5, {savings[10]:.1%} at 10",
                as_claimed(savings[10] < savings[5]),
            ),
            published(
                "gain at 5 and at 10 bursty streams", [0.40, 0.22], [savings[5], savings[10]]
            ),
        ],
        table=rows,
        draw=draw,
        notes=[NOTE_LENGTH, NOTE_CALENDAR, NOTE_NO_BURSTS],
    )


NOTE_NO_BURSTS = (
    "The utilisation is 0.95. Without bursts almost every arrival is a scheduling point with news "
    "of its own, so the calendar takes more of the twentieth of the time that is free, and of what "
    "there is to gain; the last column leaves that charge out."
)


EXPERIMENTS = (
    Experiment("fas/fig8", "staleness over the skew of selectivities", figure_8),
    Experiment("fas/fig9", "staleness over the number of bursty streams", figure_9),
)
