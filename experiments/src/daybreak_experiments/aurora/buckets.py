"""Approximation by buckets: Figures 4.12, 4.13, 4.15, 4.25 and 4.26, Table 4.5."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daybreak.model import OVERHEADS, Network
from daybreak.simulation.randomness import random_for
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.deadlines import (
    BATCH_S,
    PUSH,
    alternating,
    dealt,
    periodic,
    plot_qos,
    run,
    scheduling_share,
    steep,
    straight,
    sustained,
)
from daybreak_experiments.aurora.trees import application_trees
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed, near, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Figures 4.12 and 4.13: 200 applications of five boxes; the text omits the rest.
APPS_4_12 = 200
RATE_4_12, BATCH_4_12_S = 1400.0, 0.2
TUPLES_4_12 = 7000
DEADLINES_4_12_S = (0.01, 0.2)
SIZE_4_12 = 50
PARTITIONS = (1, 2, 5, 10, 20, 30, 50, 100, 150, 200, 260, 320)
OVERHEADS_4_12 = replace(OVERHEADS["mid"], compare_ns=1_000)


class Sized(NamedTuple):
    """A run with so many partitions; none of them is SlopeSlack itself."""

    partitions: int
    seed: int


def run_4_12(case: Sized) -> tuple[float, float]:
    """Average QoS, and the share of busy time spent scheduling."""
    random = random_for(case.seed, "deadlines")
    network = straight([random.uniform(*DEADLINES_4_12_S) for _ in range(APPS_4_12)])
    schedule = dealt(APPS_4_12, RATE_4_12, TUPLES_4_12, case.seed, BATCH_4_12_S)
    label = "Bucketing" if case.partitions else "SlopeSlack"
    params = {"partitions": case.partitions} if case.partitions else {}
    report = run(label, network, schedule, OVERHEADS_4_12, case.seed,
                 schedule_size=SIZE_4_12, **params)  # fmt: skip
    return report.utility_per_application, scheduling_share(report)


def fig_4_12(context: Context) -> Outcome:
    cases = [Sized(p, s) for p in (0, *PARTITIONS) for s in context.seeds]
    runs = dict(zip(cases, context.map(run_4_12, cases), strict=True))
    found = np.array([[runs[Sized(p, s)] for p in PARTITIONS] for s in context.seeds])
    exact = np.array([runs[Sized(0, s)] for s in context.seeds])
    qos, share = found[:, :, 0].mean(axis=0), found[:, :, 1].mean(axis=0)
    exact_qos, exact_share = exact.mean(axis=0)
    best = int(np.argmax(qos))
    above = np.flatnonzero(qos >= exact_qos)
    crossing = PARTITIONS[int(above[-1])] if len(above) else 0

    def draw(figure: Figure) -> None:
        for panel, (values, line, what) in enumerate(
            ((qos, exact_qos, "average QoS"), (share, exact_share, "scheduling / busy time"))
        ):
            axes = figure.add_subplot(1, 2, panel + 1)
            axes.plot(PARTITIONS, values, marker="o", markersize=4, label="Bucketing")
            axes.axhline(line, color="C1", linestyle="--", label="SlopeSlack")
            axes.set_xlabel("partitions per dimension")
            axes.set_ylabel(what)
            axes.set_ylim(bottom=0)
            axes.set_title(f"Figure 4.{12 + panel}", fontsize=9)
            axes.legend(loc="lower right")

    plateau = PARTITIONS.index(20)
    return Outcome(
        claims=[
            judged(
                "QoS rises from one bucket to 20 partitions", "0.427 to 0.85",
                [bool(q[plateau] > q[0]) for q in found[:, :, 0]],
                f"{qos[0]:.3f} to {qos[plateau]:.3f}",
            ),
            judged(
                "it declines from there to the most partitions", "falls below SlopeSlack at 260",
                [bool(q[-1] < q[plateau]) for q in found[:, :, 0]],
                f"{qos[plateau]:.3f} to {qos[-1]:.3f} at {PARTITIONS[-1]}",
            ),
            judged(
                "scheduling overhead rises from 30 partitions on", "rises",
                [bool((np.diff(s[PARTITIONS.index(30):]) > 0).all()) for s in found[:, :, 1]],
                f"{share[PARTITIONS.index(30)]:.1%} to {share[-1]:.1%}",
            ),
            judged(
                "with 20 partitions bucketing is above SlopeSlack", "0.85 against 0.796",
                [bool(q[plateau] > e) for q, e in zip(found[:, :, 0], exact[:, 0], strict=True)],
                f"{qos[plateau]:.3f} against {exact_qos:.3f}",
            ),
            Claim(
                "SlopeSlack, 1 bucket, 20 partitions, last partitions above SlopeSlack",
                "published", ".796, .427, .85, ~260; an oracle .792, .534, .848, ~260",
                f"{exact_qos:.3f}, {qos[0]:.3f}, {qos[plateau]:.3f}, {crossing}",
                required(
                    "QoS within 0.02 of the text's, 200 to 320 partitions",
                    abs(exact_qos - 0.796) < 0.02, abs(qos[0] - 0.427) < 0.02,
                    abs(qos[plateau] - 0.85) < 0.02, 200 <= crossing <= 320,
                ),
            ),
            Claim(
                "partitions at the best QoS", "published", "20",
                f"{PARTITIONS[best]} ({qos[best]:.3f})", as_claimed(PARTITIONS[best] == 20),
            ),
        ],
        table=[
            ["partitions", "average QoS", "scheduling"],
            ["SlopeSlack", f"{exact_qos:.3f}", f"{exact_share:.1%}"],
            *([str(p), f"{qos[i]:.3f}", f"{share[i]:.1%}"] for i, p in enumerate(PARTITIONS)),
        ],
        draw=draw,
        notes=[
            ("The text omits the setting: deadlines are drawn from 0.01 to 0.2 s, 1400 tuples/s "
            "are dealt in rotation and handed over in batches of 0.2 s, lists hold 50 boxes; "
            "overheads mid, but 1 µs per comparison."),
        ],
    )  # fmt: skip


# Figure 4.15 and Table 4.5: 1000 applications of ten boxes of 5 µs.
RATES_4_15 = (3500.0, 4000.0, 4300.0, 4400.0, 4500.0, 4600.0, 4700.0)
RATE_4_5 = 4000.0
DEADLINES_4_15_S = (0.075, 0.15, 0.225, 0.3)
RUN_4_15_S = 5.0
LARGE = {"schedule_size": 300}
SETS = ("light", "mid", "heavy")
PRINTED_SHARES = {"BucketingPush": "4 %", "FixedPush": "7.5 %", "SlopeSlackPush": "16 %"}


class Case(NamedTuple):
    policy: str
    x: float
    setting: str
    seed: int


def run_4_15(case: Case) -> tuple[float, float]:
    """Average QoS, and the share of the run's time spent scheduling."""
    network = straight(alternating(1000, *DEADLINES_4_15_S), depth=10, cost_ns=5_000)
    schedule = periodic([case.x / 1000] * 1000, RUN_4_15_S, case.seed, spread=0.0)
    overheads = replace(OVERHEADS[case.setting], box_call_ns=16_000)
    params = {"partitions": 50} if case.policy == "BucketingPush" else {}
    report = run(case.policy, network, schedule, overheads, case.seed, **LARGE, **params)
    return report.utility_per_application, report.spent.scheduling_ns / report.spent.total_ns


def fig_4_15(context: Context) -> Outcome:
    seeds = context.seeds
    cases = [Case(p, x, "heavy", s) for p in PUSH for x in RATES_4_15 for s in seeds]
    cases += [Case(p, RATE_4_5, o, s) for p in PUSH for o in ("light", "mid") for s in seeds]
    runs = dict(zip(cases, context.map(run_4_15, cases), strict=True))
    qos = {
        p: np.array([[runs[Case(p, x, "heavy", s)][0] for x in RATES_4_15] for s in seeds])
        for p in PUSH
    }
    held = {p: [sustained(RATES_4_15, row) for row in rows.tolist()] for p, rows in qos.items()}
    share = {
        (p, o): np.array([runs[Case(p, RATE_4_5, o, s)][1] for s in seeds])
        for p in PUSH
        for o in SETS
    }
    fixed, slope, bucketing = PUSH

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        plot_qos(axes, RATES_4_15, {p: qos[p].mean(axis=0).tolist() for p in PUSH})
        axes.set_xlabel("input rate (tuples/s)")
        axes.legend(loc="lower left")

    return Outcome(
        claims=[
            *(
                judged(
                    f"scheduling at 4000/s: Bucketing < Fixed < SlopeSlack, overheads {o}",
                    "4 % < 7.5 % < 16 %",
                    list((share[bucketing, o] < share[fixed, o])
                         & (share[fixed, o] < share[slope, o])),
                    " < ".join(f"{share[p, o].mean():.1%}" for p in (bucketing, fixed, slope)),
                )
                for o in SETS
            ),
            judged(
                "sustained rate: Bucketing above Fixed, and Fixed not below SlopeSlack",
                "4500, 3500, 3500 /s",
                [b > f >= s for b, f, s in
                 zip(held[bucketing], held[fixed], held[slope], strict=True)],
                ", ".join(f"{p} {np.mean(held[p]):.0f}" for p in (bucketing, fixed, slope)),
            ),
            Claim(
                "shares at 4000/s, overheads heavy", "published",
                ", ".join(f"{p} {v}" for p, v in PRINTED_SHARES.items()),
                ", ".join(f"{p} {share[p, 'heavy'].mean():.1%}" for p in PRINTED_SHARES),
                near(
                    (0.04, 0.075, 0.16),
                    [float(share[p, "heavy"].mean()) for p in (bucketing, fixed, slope)],
                    by=0.01,
                ),
            ),
        ],
        table=[
            ["tuples/s", *PUSH],
            *(
                [f"{x:.0f}", *(f"{qos[p][:, i].mean():.3f}" for p in PUSH)]
                for i, x in enumerate(RATES_4_15)
            ),
            *([f"scheduling, {o}", *(f"{share[p, o].mean():.1%}" for p in PUSH)] for o in SETS),
        ],
        draw=draw,
        notes=[
            ("Periodic arrivals in step, so nothing is random: 1000 tuples come together, which "
            "is what the deadlines are made for (a quarter of the applications is due in every "
            "quarter of 0.3 s). With random phases queues stay short, and no scheduler costs much. "
            "Lists of 300, 50 partitions, 16 µs per box call. Sustained is the highest rate up to "
            "which the average QoS stays at 0.99, with overheads heavy, the named set nearest to "
            "the printed shares."),
        ],
    )  # fmt: skip


# Figures 4.25 and 4.26: ten trees of eight inputs, or eighty chains; paths of four boxes.
RATES_4_25 = (1800.0, 2000.0, 2100.0, 2200.0, 2300.0, 2400.0)
DEADLINES_4_25_S = (0.04, 3.04)
SHAPES = ("fan-out", "straight")
INPUTS = 80
RUN_4_25_S = 5.0


def fan_out_trees() -> Network:
    trees = application_trees(10, 1, fan_out=2, depth=4, cost_ns=lambda _random: 100_000)
    deadlines = alternating(10, *DEADLINES_4_25_S)
    queries = [replace(q, qos=steep(d)) for q, d in zip(trees.queries, deadlines, strict=True)]
    return Network(streams=trees.streams, boxes=trees.boxes, queries=queries)


def run_4_25(case: Case) -> float:
    if case.setting == "fan-out":
        network = fan_out_trees()
    else:
        network = straight(alternating(INPUTS, *DEADLINES_4_25_S), depth=4)
    schedule = dealt(INPUTS, case.x, int(case.x * RUN_4_25_S), case.seed, BATCH_S)
    report = run(case.policy, network, schedule, OVERHEADS["mid"], case.seed)
    return report.utility_per_application


def fig_4_25(context: Context) -> Outcome:
    seeds = context.seeds
    cases = [Case(p, x, how, s) for how in SHAPES for p in PUSH for x in RATES_4_25 for s in seeds]
    runs = dict(zip(cases, context.map(run_4_25, cases), strict=True))
    qos = {
        (p, how): np.array([[runs[Case(p, x, how, s)] for x in RATES_4_25] for s in seeds])
        for how in SHAPES
        for p in PUSH
    }
    held = {key: [sustained(RATES_4_25, r) for r in rows.tolist()] for key, rows in qos.items()}
    apart = {p: np.abs(qos[p, "fan-out"] - qos[p, "straight"]).mean(axis=1) for p in PUSH}

    def draw(figure: Figure) -> None:
        for panel, how in enumerate(SHAPES):
            axes = figure.add_subplot(1, 2, panel + 1)
            plot_qos(axes, RATES_4_25, {p: qos[p, how].mean(axis=0).tolist() for p in PUSH})
            axes.set_title(f"Figure 4.{25 + panel}: {how}", fontsize=9)
            axes.set_xlabel("input rate (tuples/s)")
            axes.legend(loc="lower left")

    return Outcome(
        claims=[
            *(
                judged(
                    f"{p}: fan-out and straight behave alike (QoS within 0.05 in the mean over "
                    "the rates, sustained rates one step apart at most)", "essentially the same",
                    [apart[p][i] <= 0.05
                     and abs(held[p, "fan-out"][i] - held[p, "straight"][i]) <= 100
                     for i in range(len(seeds))],
                    f"{apart[p].mean():.3f} apart; sustained "
                    + ", ".join(f"{how} {np.mean(held[p, how]):.0f}" for how in SHAPES),
                )
                for p in PUSH
            ),
            *(
                judged(
                    f"{how}: bucketing sustains most", "a higher load than both others",
                    [held["BucketingPush", how][i] >= max(held[p, how][i] for p in PUSH)
                     for i in range(len(seeds))],
                    ", ".join(f"{p} {np.mean(held[p, how]):.0f}" for p in PUSH),
                )
                for how in SHAPES
            ),
        ],
        table=[
            ["tuples/s", *(f"{p}, {how}" for how in SHAPES for p in PUSH)],
            *(
                [f"{x:.0f}", *(f"{qos[p, how][:, i].mean():.3f}" for how in SHAPES for p in PUSH)]
                for i, x in enumerate(RATES_4_25)
            ),
        ],
        draw=draw,
        notes=[
            ("Boxes of 0.1 ms (ideal capacity 2500 tuples/s), overheads mid, 20 ms batches in "
            "rotation, lists of 10, 50 partitions. The text names neither costs nor sizes."),
        ],
    )  # fmt: skip


BUCKETS = (
    Experiment("aurora/fig4.12", "buckets: QoS and overhead (Figures 4.12, 4.13)", fig_4_12),
    Experiment(
        "aurora/fig4.15", "a network of 10 000 boxes (Figure 4.15, Table 4.5)", fig_4_15, seeds=1
    ),
    Experiment("aurora/fig4.25", "fan-out and straight queries (Figures 4.25, 4.26)", fig_4_25),
)
