"""Figures 3 and 4 (policies over utilisation) and 5 to 7 (FAS-MCQ(beta))."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.fas.sweep import (
    NOTE_CALENDAR,
    NOTE_LENGTH,
    TUPLES,
    Means,
    Metric,
    every_seed,
    on_average,
    percent,
    published,
)
from daybreak_experiments.fas.testbed import K_NS, Setting
from daybreak_experiments.rules import below

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POLICIES = ("fas-mcq", "rb-mcq", "round-robin", "fcfs")
LABELS = {"fas-mcq": "FAS-MCQ", "rb-mcq": "RB-MCQ", "round-robin": "RR", "fcfs": "FCFS"}
UTILISATIONS = (0.1, 0.5, 0.8, 0.95)
BETAS = (0.0, 0.25, 0.5, 1.0)
MARKS = "osD^v"


def at(policy: str, utilisation: float, beta: float = 1.0) -> Setting:
    return Setting(policy=policy, utilisation=utilisation, beta=beta, tuples=TUPLES)


def shown(value: float, metric: Metric) -> str:
    """Staleness in percent, response times in units of the cheapest operator."""
    return f"{value:.1%}" if metric == "staleness" else f"{value * 1e9 / K_NS:,.0f} K"


def over_load(
    means: Means, lines: dict[str, tuple[str, float]], metric: Metric
) -> tuple[list[list[str]], Callable[[Figure], None]]:
    """The table and the drawing of some policies over utilisation."""
    rows = [["utilisation", *lines]]
    for u in UTILISATIONS:
        rows.append(
            [f"{u:g}", *(shown(means.mean(at(p, u, b), metric), metric) for p, b in lines.values())]
        )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        unit = 100 if metric == "staleness" else 1e9 / K_NS
        for mark, (label, (policy, beta)) in zip(MARKS, lines.items(), strict=False):
            values = [means.mean(at(policy, u, beta), metric) * unit for u in UTILISATIONS]
            axes.plot(UTILISATIONS, values, marker=mark, label=label)
        axes.set_xlabel("utilisation")
        if metric == "staleness":
            axes.set_ylabel("average staleness (%)")
        else:
            axes.set_ylabel("average response time (costs of the cheapest operator)")
        axes.set_ylim(bottom=0)
        axes.legend()

    return rows, draw


def _all(context: Context) -> Means:
    return Means(context, [at(p, u) for p in POLICIES for u in UTILISATIONS])


def _betas(context: Context) -> Means:
    settings = [at("fas-mcq", u, b) for b in BETAS for u in UTILISATIONS]
    return Means(context, [*settings, *(at("rb-mcq", u) for u in UTILISATIONS)])


def figure_3(context: Context) -> Outcome:
    means = _all(context)
    table, draw = over_load(means, {LABELS[p]: (p, 1.0) for p in POLICIES}, "staleness")
    savings = {u: means.saving(at("fas-mcq", u), at("rb-mcq", u)) for u in UTILISATIONS}
    growing = [(at(p, a), at(p, b)) for p in POLICIES for a, b in pairwise(UTILISATIONS)]
    return Outcome(
        claims=[
            on_average("staleness grows with utilisation, for every policy", means, growing),
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
            *(
                published(f"FAS-MCQ below RB-MCQ at {u}", [text], [savings[u]])
                for u, text in ((0.1, 0.30), (0.95, 0.40))
            ),
            published(
                "staleness of RB-MCQ and FAS-MCQ at 0.95",
                [0.16, 0.10],
                [means.mean(at(p, 0.95)) for p in ("rb-mcq", "fas-mcq")],
            ),
        ],
        table=table,
        draw=draw,
        notes=[NOTE_LENGTH, NOTE_CALENDAR],
    )


def figure_4(context: Context) -> Outcome:
    means = _all(context)
    table, draw = over_load(means, {LABELS[p]: (p, 1.0) for p in POLICIES}, "response_s")
    more = -means.saving(at("fas-mcq", 0.95), at("rb-mcq", 0.95), "response_s")
    return Outcome(
        claims=[
            on_average(
                "response time grows with utilisation, for every policy",
                means,
                [(at(p, a), at(p, b)) for p in POLICIES for a, b in pairwise(UTILISATIONS)],
                "response_s",
            ),
            every_seed(
                "RB-MCQ responds fastest, at every utilisation",
                means,
                [
                    (at("rb-mcq", u), at(p, u))
                    for u in UTILISATIONS
                    for p in POLICIES
                    if p != "rb-mcq"
                ],
                "response_s",
            ),
            published("FAS-MCQ slower than RB-MCQ at 0.95 by", [0.23], [more]),
        ],
        table=table,
        draw=draw,
        notes=[NOTE_LENGTH, NOTE_CALENDAR],
    )


def _over_beta(context: Context, metric: Metric) -> Outcome:
    means = _betas(context)
    lines = {f"FAS-MCQ({b:g})": ("fas-mcq", b) for b in BETAS} | {"RB-MCQ": ("rb-mcq", 1.0)}
    table, draw = over_load(means, lines, metric)
    rising = metric == "response_s"
    what = "response time rises" if rising else "staleness falls"
    pairs = [
        (at("fas-mcq", u, a), at("fas-mcq", u, b)) if rising
        else (at("fas-mcq", u, b), at("fas-mcq", u, a))
        for u in UTILISATIONS
        for a, b in pairwise(BETAS)
    ]  # fmt: skip
    claims = [on_average(f"{what} with beta, at every utilisation", means, pairs, metric)]
    if rising:
        claims.append(
            on_average(
                "FAS-MCQ(0) is above RB-MCQ: it pays for its calendar",
                means,
                [(at("rb-mcq", u), at("fas-mcq", u, 0.0)) for u in UTILISATIONS],
                metric,
            )
        )
        over = [-means.saving(at("fas-mcq", u, 0.0), at("rb-mcq", u), metric) for u in UTILISATIONS]
        ours = f"{min(over):.1%} to {max(over):.1%}"
        claims.append(
            Claim(
                "FAS-MCQ(0) above RB-MCQ by", "published", "slightly", ours, below(0.1, max(over))
            )
        )
    return Outcome(claims=claims, table=table, draw=draw, notes=[NOTE_LENGTH, NOTE_CALENDAR])


def figure_5(context: Context) -> Outcome:
    return _over_beta(context, "response_s")


def figure_6(context: Context) -> Outcome:
    return _over_beta(context, "staleness")


def figure_7(context: Context) -> Outcome:
    means = _betas(context)
    base = at("rb-mcq", 0.95)
    rows = [["policy", "staleness", "response time", "staleness below RB", "response above RB"]]
    for label, setting in [
        ("RB-MCQ", base),
        *((f"FAS-MCQ({b:g})", at("fas-mcq", 0.95, b)) for b in BETAS),
    ]:
        rows.append(
            [
                label,
                shown(means.mean(setting), "staleness"),
                shown(means.mean(setting, "response_s"), "response_s"),
                percent(means.saving(setting, base)),
                percent(-means.saving(setting, base, "response_s")),
            ]
        )

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        for row, beta in zip(rows[2:], BETAS, strict=True):
            setting = at("fas-mcq", 0.95, beta)
            x, y = means.mean(setting, "response_s") * 1e9 / K_NS, means.mean(setting) * 100
            axes.plot(x, y, "o", color="C0")
            axes.annotate(row[0], (x, y), xytext=(6, 6), textcoords="offset points")
        x, y = means.mean(base, "response_s") * 1e9 / K_NS, means.mean(base) * 100
        axes.plot(x, y, "s", color="C1")
        axes.annotate("RB-MCQ", (x, y), xytext=(6, -12), textcoords="offset points")
        axes.margins(x=0.15, y=0.1)
        axes.set_xlabel("average response time (costs of the cheapest operator)")
        axes.set_ylabel("average staleness (%)")

    steps = list(pairwise(BETAS))
    return Outcome(
        claims=[
            on_average(
                "a larger beta gives less staleness",
                means,
                [(at("fas-mcq", 0.95, b), at("fas-mcq", 0.95, a)) for a, b in steps],
            ),
            on_average(
                "a larger beta gives longer response times",
                means,
                [(at("fas-mcq", 0.95, a), at("fas-mcq", 0.95, b)) for a, b in steps],
                "response_s",
            ),
            *(
                published(
                    f"FAS-MCQ({beta:g}): staleness below, response time above RB-MCQ",
                    text,
                    [
                        means.saving(at("fas-mcq", 0.95, beta), base),
                        -means.saving(at("fas-mcq", 0.95, beta), base, "response_s"),
                    ],
                )
                for beta, text in ((0.25, [0.20, 0.14]), (1.0, [0.40, 0.23]))
            ),
        ],
        table=rows,
        draw=draw,
        notes=[NOTE_LENGTH, NOTE_CALENDAR],
    )


EXPERIMENTS = (
    Experiment("fas/fig3", "staleness over utilisation", figure_3),
    Experiment("fas/fig4", "response time over utilisation", figure_4),
    Experiment("fas/fig5", "response time of FAS-MCQ(beta)", figure_5),
    Experiment("fas/fig6", "staleness of FAS-MCQ(beta)", figure_6),
    Experiment("fas/fig7", "staleness against response time at utilisation 0.95", figure_7),
)
