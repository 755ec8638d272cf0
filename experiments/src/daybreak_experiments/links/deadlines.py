"""Figures 5, 6 and 7: required bandwidth against the ratio of the deadlines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from daybreak.links.link_classes import SECTION_4
from daybreak.links.needs import Need
from daybreak.links.scenario import LinkScenario
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.links.common import SHORT, all_needs, kb
from daybreak_experiments.rules import above, as_claimed, below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Class 1's deadline over class 2's, which stays at 1950 ms.
RATIOS = (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8)
#: Per ratio, the need of each class.
Sweep = list[list[Need]]


def _sweep(ctx: Context, names: Sequence[str]) -> dict[str, Sweep]:
    scenarios = []
    for name in names:
        for ratio in RATIOS:
            first = replace(SECTION_4[0], deadline_s=ratio * SECTION_4[1].deadline_s)
            scenarios.append(LinkScenario(scheduler=name, classes=(first, SECTION_4[1])))
    found = all_needs(ctx, scenarios)
    size = len(RATIOS)
    return {name: found[i * size : (i + 1) * size] for i, name in enumerate(names)}


def _rows(sweeps: dict[str, Sweep]) -> list[list[str]]:
    rows = [["D1/D2", *(f"{SHORT[n]} class {c}, KB/s" for n in sweeps for c in (1, 2))]]
    for i, ratio in enumerate(RATIOS):
        rows.append([f"{ratio:.1f}", *(kb(need) for s in sweeps.values() for need in s[i])])
    return rows


def _spread(sweep: Sweep, cls: int) -> float:
    values = [needs[cls].kb_per_s for needs in sweep]
    return max(values) - min(values)


def fig5(ctx: Context) -> Outcome:
    sweeps = _sweep(ctx, ["fifo"])
    fifo = sweeps["fifo"]
    at_one = fifo[RATIOS.index(1.0)]
    gap = abs(at_one[0].kb_per_s - at_one[1].kb_per_s)
    longer = all(
        (needs[0].kb_per_s > needs[1].kb_per_s) == (ratio < 1)
        for ratio, needs in zip(RATIOS, fifo, strict=True)
        if ratio != 1
    )
    claims = [
        Claim(
            "the classes need the same where their deadlines are equal",
            "robust",
            "the curves cross at x = 1",
            f"{kb(at_one[0])} and {kb(at_one[1])}",
            required(
                "within 3 standard errors and 0.02 KB/s",
                gap <= 3 * (at_one[0].standard_error + at_one[1].standard_error) / 1000 + 0.02,
            ),
        ),
        Claim(
            "the class with the longer deadline needs less, at every ratio",
            "robust",
            "a clear advantage",
            "at every ratio" if longer else "not everywhere",
            as_claimed(longer),
        ),
    ]
    return Outcome(claims, _rows(sweeps), partial(_draw, sweeps))


def fig6(ctx: Context) -> Outcome:
    sweeps = _sweep(ctx, ["static-priority"])
    # At the shortest deadline class 1 mostly expires and class 2 gets the link after all.
    usual = sweeps["static-priority"][1:]
    first, both = ([needs[c].kb_per_s for needs in usual] for c in (0, 1))
    claims = [
        Claim(
            f"class 1 is met at a very low bandwidth, from ratio {RATIOS[1]} on",
            "robust",
            "drawn, no number",
            f"{min(first):.2f} to {max(first):.2f} KB/s",
            below(2.0, max(first)),
        ),
        Claim(
            f"both classes need a lot of bandwidth, from ratio {RATIOS[1]} on",
            "robust",
            "drawn; 3.6 KB/s at the default",
            f"{min(both):.2f} to {max(both):.2f} KB/s",
            above(3.3, min(both)),
        ),
    ]
    return Outcome(claims, _rows(sweeps), partial(_draw, sweeps))


def fig7(ctx: Context) -> Outcome:
    sweeps = _sweep(ctx, ["min-slack", "conveyor-belt", "due"])
    msf, belt, due = sweeps["min-slack"], sweeps["conveyor-belt"], sweeps["due"]
    default = RATIOS.index(0.8)
    long = range(RATIOS.index(0.6), len(RATIOS))
    claims = [
        Claim(
            "MSF meets both classes at about 2.5 KB/s",
            "robust",
            "about 2.5 KB/s",
            f"{kb(msf[default][0])} and {kb(msf[default][1])}",
            below(0.1, *(abs(need.kb_per_s - 2.5) for need in msf[default])),
        ),
        Claim(
            "MSF's need hardly depends on the ratio of the deadlines",
            "robust",
            "nearly a straight line",
            f"varies by {max(_spread(msf[2:], 0), _spread(msf[2:], 1)):.2f} KB/s from ratio 0.6 on",
            below(0.15, max(_spread(msf[2:], 0), _spread(msf[2:], 1))),
        ),
        Claim(
            "a longer deadline of class 1 lowers CB's need for class 1",
            "robust",
            "decreases significantly",
            f"{kb(belt[0][0])} at 0.2, {kb(belt[-1][0])} at 1.8",
            required("by 0.3 KB/s", belt[-1][0].kb_per_s < belt[0][0].kb_per_s - 0.3),
        ),
        Claim(
            "without harm to class 2",
            "published",
            "its performance is not decreased",
            f"{kb(belt[default][1])} at 0.8, {kb(belt[-1][1])} at 1.8",
            required(
                "by at most 0.03 KB/s",
                belt[-1][1].kb_per_s <= belt[default][1].kb_per_s + 0.03,
            ),
        ),
        Claim(
            "CB needs less than MSF for class 1 and more for both",
            "robust",
            "drawn",
            f"{kb(belt[default][0])} and {kb(belt[default][1])} at 0.8",
            as_claimed(
                all(
                    belt[i][0].kb_per_s < msf[i][0].kb_per_s
                    and belt[i][1].kb_per_s > msf[i][1].kb_per_s
                    for i in long
                )
            ),
        ),
        Claim(
            "DUE (ours) needs less than CB for class 1 and for both, at every ratio",
            "robust",
            "not in the text",
            f"{kb(due[default][0])} and {kb(due[default][1])} at 0.8",
            as_claimed(
                all(
                    max(due[i], key=lambda n: n.bytes_per_s).bytes_per_s
                    <= max(belt[i], key=lambda n: n.bytes_per_s).bytes_per_s
                    and due[i][0].bytes_per_s <= belt[i][0].bytes_per_s
                    for i in range(len(RATIOS))
                )
            ),
        ),
    ]
    return Outcome(claims, _rows(sweeps), partial(_draw, sweeps))


def _draw(sweeps: dict[str, Sweep], figure: Figure) -> None:
    axes = figure.subplots()
    for name, sweep in sweeps.items():
        for c, style in ((0, "-o"), (1, "--s")):
            values = [needs[c].kb_per_s for needs in sweep]
            colour = f"C{list(sweeps).index(name)}"
            label = f"{SHORT[name]} class {c + 1}"
            axes.plot(RATIOS, values, style, color=colour, label=label, ms=4)
    axes.set_xlabel("deadline of class 1 over deadline of class 2")
    axes.set_ylabel("required bandwidth, KB/s")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=len(sweeps))


EXPERIMENTS = (
    Experiment("links/fig5", "FIFO: required bandwidth against deadlines", fig5, seeds=12),
    Experiment("links/fig6", "SP: required bandwidth against deadlines", fig6, seeds=12),
    Experiment("links/fig7", "MSF and CB: required bandwidth against deadlines", fig7, seeds=12),
)
