"""Overload: Figures 4.16 to 4.22, Tables 4.6 and 4.7."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model import NS_PER_S, OVERHEADS
from daybreak.report.text import count
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.randomness import generator_for
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.deadlines import BATCH_S, periodic, run, table_4_2
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import close, near

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
LIGHT = OVERHEADS["light"]
APPS = 20
PUSHED = ("FixedPush", "SlopeSlackPush")

# Table 4.6: every application has 50 tuples/s, and some tight ones share 951 more.
BASE_PER_S, MORE_PER_S = 50.0, 951.0
RUN_S = 10.0
TRAINS = (1, 2, 5)
#: How many applications are overloaded: one, and as many as a list is long.
HOT = (1, 10)


class Overloaded(NamedTuple):
    policy: str
    hot: int
    train: int
    seed: int


def run_4_6(case: Overloaded) -> tuple[float, float, Floats]:
    """Average QoS, average QoS per tuple, and of some tuples, application and latency."""
    # Even applications are tight; Fixed prefers the first of them.
    hot = range(0, 2 * case.hot, 2)
    rates = [BASE_PER_S + (MORE_PER_S / case.hot if a in hot else 0.0) for a in range(APPS)]
    schedule = periodic(rates, RUN_S, case.seed)
    report = run(case.policy, table_4_2(), schedule, LIGHT, case.seed, train=case.train)
    some = np.column_stack([report.outputs.query, report.response_s])[::5]
    return report.utility_per_application, float(report.utility.mean()), some


def table_4_6(context: Context) -> Outcome:
    seeds = context.seeds
    cases = [Overloaded(p, 1, 0, s) for p in PUSHED for s in seeds]
    cases += [Overloaded("FixedPush", h, t, s) for h in HOT for t in TRAINS for s in seeds]
    cases += [Overloaded(p, 10, 0, s) for p in PUSHED for s in seeds]
    runs = dict(zip(cases, context.map(run_4_6, cases), strict=True))

    def of(policy: str, hot: int = 1, train: int = 0, column: int = 0) -> list[float]:
        return [float(runs[Overloaded(policy, hot, train, s)][column]) for s in seeds]

    def both(policy: str, hot: int = 1, train: int = 0) -> str:
        values = [np.mean(of(policy, hot, train, c)) for c in (0, 1)]
        return f"{values[0]:.3f}, per tuple {values[1]:.3f}"

    helped = {
        h: [[a - b for a, b in zip(of("FixedPush", h, t), of("FixedPush", h), strict=True)]
            for t in TRAINS]
        for h in HOT
    }  # fmt: skip

    def draw(figure: Figure) -> None:
        for panel, p in enumerate(PUSHED):
            axes = figure.add_subplot(1, 2, panel + 1)
            some = runs[Overloaded(p, 1, 0, seeds[0])][2]
            jitter = np.random.default_rng(0).uniform(-0.35, 0.35, len(some))
            axes.plot(some[:, 0] + jitter, some[:, 1], ".", markersize=1.5)
            axes.set_yscale("log")
            axes.axhline(0.01, color="C1", linewidth=1)
            axes.axhline(2.0, color="C2", linewidth=1)
            axes.set_title(f"Figure 4.{16 + panel}: {p}, A0 overloaded", fontsize=9)
            axes.set_xlabel("application (lines: deadlines, even and odd)", fontsize=8)
            axes.set_ylabel("latency (s)")

    average = list(zip(of("SlopeSlackPush"), of("FixedPush"), strict=True))
    each = list(zip(of("SlopeSlackPush", column=1), of("FixedPush", column=1), strict=True))
    return Outcome(
        claims=[
            judged(
                "average QoS: SlopeSlackPush above FixedPush", ".898 against .653",
                [s > f for s, f in average],
                "{:.3f} against {:.3f}".format(*np.mean(average, axis=0)),
            ),
            judged(
                "QoS per tuple: FixedPush above SlopeSlackPush", ".741 against .461",
                [f > s for s, f in each],
                "{1:.3f} against {0:.3f}".format(*np.mean(each, axis=0)),
            ),
            judged(
                "one application overloaded: trains of 1, 2 and 5 help FixedPush (average QoS)",
                "small trains help",
                [all(gain[i] > 0 for gain in helped[1]) for i in range(len(seeds))],
                ", ".join(f"{t}: {np.mean(g):+.3f}" for t, g in
                          zip(TRAINS, helped[1], strict=True)),
            ),
            judged(
                "as many overloaded as a list is long: every train helps less than there",
                "not solved",
                [all(ten[i] < one[i] for ten, one in zip(helped[10], helped[1], strict=True))
                 for i in range(len(seeds))],
                ", ".join(f"{t}: {np.mean(g):+.3f}" for t, g in
                          zip(TRAINS, helped[10], strict=True)),
            ),
            Claim(
                "average QoS and QoS per tuple: FixedPush; SlopeSlackPush", "published",
                ".653, .741; .898, .461; an oracle .645, .555; .849, .449",
                "; ".join(both(p) for p in PUSHED),
                near(
                    (0.653, 0.741, 0.898, 0.461),
                    [float(np.mean(of(p, column=c))) for p in PUSHED for c in (0, 1)],
                    by=0.02,
                ),
            ),
        ],
        table=[
            ["policy", "overloaded", "train", "average QoS", "QoS per tuple"],
            *(
                [p, str(h), str(t or "whole queue"),
                 *(f"{np.mean(of(p, h, t, c)):.3f}" for c in (0, 1))]
                for p, h, t in dict.fromkeys((c.policy, c.hot, c.train) for c in cases)
            ),
        ],
        draw=draw,
        notes=[
            ("Periodic arrivals with random phases, overheads light, path ect, lists of 10, 10 s: "
            "50 tuples/s for each of 20 applications, and 951/s more on A0, or shared by the ten "
            "tight ones. Outside such settings the double inequality is fragile."),
        ],
    )  # fmt: skip


# Figures 4.18 to 4.22 and Table 4.7.
CAPACITY_PER_S = 2000.0
PHASES = ((0.6, 40_000), (1.3, 15_000))
TUPLES = 200_000
PRINTED_4_7 = {
    "FixedPush": (41_965, 3_073, 8_221, 146_741),
    "SlopeSlackPush": (25_596, 19_426, 7_513, 147_465),
}
WINDOW = 1000


def fluctuating(seed: int, tuples: int = TUPLES) -> tuple[ArrivalSchedule, NDArray[np.bool_]]:
    """Batches dealt in rotation at a rate that changes, and which tuples came during overload.

    A batch in which the phase changes counts as of the phase in which it began.
    """
    factors = np.array([factor for factor, _ in PHASES])
    factor = np.resize(np.repeat(factors, [length for _, length in PHASES]), tuples)
    random = generator_for(seed, "rotation")
    turn = random.permutation(APPS).astype(np.int32)
    at_s = np.cumsum(1 / (CAPACITY_PER_S * factor)) + random.random() * BATCH_S
    at_ns = np.rint(np.ceil(at_s / BATCH_S) * BATCH_S * NS_PER_S).astype(np.int64)
    first = np.searchsorted(at_ns, at_ns)
    return ArrivalSchedule(at_ns, turn[np.arange(tuples) % APPS]), factor[first] > 1


class Fluctuation(NamedTuple):
    """What one run came to."""

    average: float
    #: Missed and made, for tuples generated in overload and in underload (Table 4.7).
    counts: tuple[int, int, int, int]
    #: Share missed of tuples generated in overload: tight and loose applications.
    missed_tight: float
    missed_loose: float
    #: By application and (overload, underload): deadlines missed (Figures 4.20 to 4.22).
    per_app: NDArray[np.int64]
    #: Mean QoS of every thousand tuples, in order of output (Figure 4.19).
    recent: Floats


def run_4_18(case: tuple[str, int]) -> Fluctuation:
    policy, seed = case
    schedule, overload = fluctuating(seed)
    report = run(policy, table_4_2(), schedule, OVERHEADS["mid"], seed)
    outputs = report.outputs
    hot = overload[np.searchsorted(schedule.at_ns, outputs.arrival_ns)]
    missed = report.utility < 1.0
    loose = outputs.query % 2 == 1
    per_app = np.array(
        [[int((missed & (outputs.query == a) & (hot == h)).sum()) for h in (True, False)]
         for a in range(APPS)]
    )  # fmt: skip
    in_order = report.utility[np.argsort(outputs.departure_ns, kind="stable")]
    whole = len(in_order) // WINDOW * WINDOW
    return Fluctuation(
        report.utility_per_application,
        (int((missed & hot).sum()), int((~missed & hot).sum()),
         int((missed & ~hot).sum()), int((~missed & ~hot).sum())),
        float(missed[hot & ~loose].mean()), float(missed[hot & loose].mean()),
        per_app, in_order[:whole].reshape(-1, WINDOW).mean(axis=1),
    )  # fmt: skip


def fig_4_18(context: Context) -> Outcome:
    seeds = context.seeds
    cases = [(p, s) for p in PUSHED for s in seeds]
    runs = dict(zip(cases, context.map(run_4_18, cases), strict=True))
    fixed, slope = ([runs[p, s] for s in seeds] for p in PUSHED)
    counts = {p: np.mean([runs[p, s].counts for s in seeds], axis=0).astype(int) for p in PUSHED}

    def draw(figure: Figure) -> None:
        upper, lower = figure.subplots(2, 2)
        for p in PUSHED:
            recent = runs[p, seeds[0]].recent
            x = np.arange(1, len(recent) + 1) * WINDOW / 1000
            upper[0].plot(x, np.cumsum(recent) / np.arange(1, len(recent) + 1), label=p)
            upper[1].plot(x, recent, linewidth=1)
        for axes, title in zip(upper, ("4.18: running average", "4.19: recent"), strict=True):
            axes.set_title(f"Figure {title}", fontsize=8)
            axes.set_xlabel("tuples output (thousands)", fontsize=8)
            axes.set_ylabel("QoS", fontsize=8)
            axes.set_ylim(0, 1.05)
        upper[0].legend(fontsize=7, loc="lower right")
        highest = max(int(runs[p, seeds[0]].per_app.sum(axis=1).max()) for p in PUSHED)
        for axes, p in zip(lower, PUSHED, strict=True):
            hot, cool = runs[p, seeds[0]].per_app.T
            axes.bar(range(APPS), hot, label="generated in overload")
            axes.bar(range(APPS), cool, bottom=hot, label="in underload")
            axes.set_ylim(0, highest * 1.35)
            axes.set_title(f"Figures 4.20 to 4.22: {p}", fontsize=8)
            axes.set_xlabel("application (even: tight)", fontsize=8)
            axes.set_ylabel("deadlines missed", fontsize=8)
            axes.legend(fontsize=7, loc="upper right", ncols=2)

    averages = [float(np.mean([r.average for r in rs])) for rs in (slope, fixed)]
    return Outcome(
        claims=[
            judged(
                "average QoS: SlopeSlackPush above FixedPush", ".81 against .70",
                [s.average > f.average for s, f in zip(slope, fixed, strict=True)],
                "{:.3f} against {:.3f}".format(*averages),
            ),
            judged(
                "of tuples generated in overload SlopeSlackPush loses a smaller share of the loose "
                "applications than of the tight ones", "protects the loose ones",
                [s.missed_loose < s.missed_tight for s in slope],
                f"{np.mean([s.missed_loose for s in slope]):.1%} of loose, "
                f"{np.mean([s.missed_tight for s in slope]):.1%} of tight",
            ),
            judged(
                "it loses fewer of the loose ones than FixedPush does", "fewer",
                [s.missed_loose < f.missed_loose for s, f in zip(slope, fixed, strict=True)],
                f"{np.mean([s.missed_loose for s in slope]):.1%} against "
                f"{np.mean([f.missed_loose for f in fixed]):.1%}",
            ),
            *(
                Claim(
                    f"Table 4.7, {p}: overload missed, made, underload missed, made", "published",
                    ", ".join(map(count, PRINTED_4_7[p])),
                    ", ".join(map(count, counts[p].tolist())),
                    close(PRINTED_4_7[p], counts[p].tolist()),
                )
                for p in PUSHED
            ),
        ],
        table=[
            ["policy", "average QoS", "overload missed", "made", "underload missed", "made"],
            *([p, f"{a:.3f}", *map(count, counts[p].tolist())]
              for p, a in zip(PUSHED[::-1], averages, strict=True)),
        ],
        draw=draw,
        notes=[
            ("1200 tuples/s for 40 000 tuples, then 2600 for 15 000, in turn, in batches of 20 ms "
            "dealt in rotation, 200 000 in all (as many as Table 4.7 counts; the text speaks of "
            "500 000); overheads mid, path ect, lists of 10."),
        ],
    )  # fmt: skip


OVERLOAD = (
    Experiment("aurora/table4.6", "sustained overload (Figures 4.16, 4.17, Table 4.6)", table_4_6),
    Experiment("aurora/fig4.18", "fluctuating load (Figures 4.18 to 4.22, Table 4.7)", fig_4_18),
)
