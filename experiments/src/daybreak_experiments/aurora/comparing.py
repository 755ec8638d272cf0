"""Static against dynamic scheduling: Figures 4.2 to 4.6 and 4.14."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model import OVERHEADS
from daybreak.report.text import duration
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.deadlines import (
    BATCH_S,
    TIGHT_S,
    alternating,
    dealt,
    plot_qos,
    poisson,
    run,
    straight,
    table_4_2,
)
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import as_claimed, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
RUN_S = 5.0
SETS = ("light", "mid", "heavy")


class Case(NamedTuple):
    """One run of a sweep: a policy at a point of the x-axis, in a named setting."""

    policy: str
    x: float
    setting: str
    seed: int


# Figures 4.2 and 4.3: ten applications of one box, 0.8 of the capacity.
FEW = 10
RATE_4_2 = 8000.0
TUPLES_4_2 = 100_000


def run_4_2(case: Case) -> tuple[float, Floats, NDArray[np.float32]]:
    """Average QoS; the applications' median latencies; of some tuples, application and latency."""
    network = straight(alternating(FEW, TIGHT_S, 2 * TIGHT_S), depth=1)
    schedule = poisson(FEW, RATE_4_2, TUPLES_4_2, case.seed, BATCH_S)
    report = run(case.policy, network, schedule, OVERHEADS[case.setting], case.seed)
    app, latency = report.outputs.query, report.response_s
    medians = np.array([np.median(latency[app == a]) for a in range(FEW)])
    some = np.column_stack([app, latency])[::20].astype(np.float32)
    return report.utility_per_application, medians, some


def _spread(medians: Floats) -> float:
    """The width of the medians within tight and within loose applications, the larger."""
    return float(max(np.ptp(medians[::2]), np.ptp(medians[1::2])))


def fig_4_2(context: Context) -> Outcome:
    labels = ("Fixed", "SlopeSlack")
    cases = [Case(p, RATE_4_2, o, s) for p in labels for o in SETS for s in context.seeds]
    runs = dict(zip(cases, context.map(run_4_2, cases), strict=True))

    def of(policy: str, setting: str = "mid") -> list[tuple[float, Floats, NDArray[np.float32]]]:
        return [runs[Case(policy, RATE_4_2, setting, s)] for s in context.seeds]

    fixed, slope = ([m for _, m, _ in of(p)] for p in labels)
    closest = [float(np.diff(np.sort(m)).min()) for m in fixed]

    def draw(figure: Figure) -> None:
        for at, p in enumerate(labels):
            axes = figure.add_subplot(1, 2, at + 1)
            some = of(p)[0][2]
            jitter = np.random.default_rng(0).uniform(-0.35, 0.35, len(some))
            axes.plot(some[:, 0] + jitter, some[:, 1] * 1e3, ".", markersize=1.5)
            axes.set_xticks(range(FEW), [f"A{a}" for a in range(FEW)])
            axes.set_ylim(0, 22)
            axes.set_title(f"Figure 4.{at + 2}: {p}", fontsize=9)
            axes.set_ylabel("latency (ms)")

    qos = {(p, o): [q for q, _, _ in of(p, o)] for p in labels for o in SETS}
    return Outcome(
        claims=[
            judged(
                "both reach an average QoS of about 0.99 (0.98 or more), overheads mid", "0.99",
                [a >= 0.98 and b >= 0.98
                 for a, b in zip(qos["Fixed", "mid"], qos["SlopeSlack", "mid"], strict=True)],
                ", ".join(f"{p} {np.mean(qos[p, 'mid']):.3f}" for p in labels),
            ),
            judged(
                "Fixed: ten clusters, the applications' medians at least 1 ms apart",
                "10 clusters", [c >= 1e-3 for c in closest],
                f"closest two {duration(float(np.mean(closest)))} apart",
            ),
            judged(
                "SlopeSlack: the five tight ones overlap, and so do the five loose ones "
                "(their medians spread less than half as much as Fixed's)", "2 x 5 overlapping",
                [_spread(s) < _spread(f) / 2 for s, f in zip(slope, fixed, strict=True)],
                f"spread {duration(float(np.mean([_spread(m) for m in slope])))}, Fixed "
                f"{duration(float(np.mean([_spread(m) for m in fixed])))}",
            ),
            judged(
                "SlopeSlack: every tight application lies below every loose one",
                "two groups", [float(m[::2].max()) < float(m[1::2].min()) for m in slope],
                f"tight up to {duration(float(np.mean([m[::2].max() for m in slope])))}, loose "
                f"from {duration(float(np.mean([m[1::2].min() for m in slope])))}",
            ),
        ],
        table=[
            ["average QoS", *SETS],
            *([p, *(f"{np.mean(qos[p, o]):.3f}" for o in SETS)] for p in labels),
        ],
        draw=draw,
        notes=[
            ("Poisson arrivals in batches of 20 ms. Dealt in rotation, every queue would be "
            "equally long at this rate, all p-tuples would tie, and SlopeSlack would keep to the "
            "index."),
        ],
    )  # fmt: skip


# Figure 4.4, and 4.14(a) and (b): Table 4.2's network, as deep as printed and four times as deep.
RATES = (1000.0, 1200.0, 1400.0, 1600.0, 1800.0, 1900.0)
HIGH = 1800.0
BOX_AT_A_TIME = ("Fixed", "SlopeSlack")
PUSHED = ("FixedPush", "SlopeSlackPush")


def run_4_4(case: Case) -> float:
    """Settings: ``batched`` and ``poisson``, and ``deep`` for batched with twenty boxes each."""
    network = table_4_2(20 if case.setting == "deep" else 5)
    tuples = int(case.x * RUN_S)
    if case.setting == "poisson":
        schedule = poisson(20, case.x, tuples, case.seed)
    else:
        schedule = dealt(20, case.x, tuples, case.seed, BATCH_S)
    report = run(case.policy, network, schedule, OVERHEADS["mid"], case.seed)
    return report.utility_per_application


def _sweep(
    context: Context, labels: tuple[str, ...], settings: tuple[str, ...]
) -> dict[tuple[str, str], Floats]:
    """By policy and setting: a row per seed, a column per rate."""
    cases = [
        Case(p, x, how, s) for how in settings for p in labels for x in RATES for s in context.seeds
    ]
    runs = dict(zip(cases, context.map(run_4_4, cases), strict=True))
    return {
        (p, how): np.array([[runs[Case(p, x, how, s)] for x in RATES] for s in context.seeds])
        for how in settings
        for p in labels
    }


def _curves(
    qos: Mapping[tuple[str, str], Floats], how: str, labels: tuple[str, ...]
) -> dict[str, list[float]]:
    return {p: qos[p, how].mean(axis=0).tolist() for p in labels}


def fig_4_4(context: Context) -> Outcome:
    labels = ("Round-Robin", *BOX_AT_A_TIME)
    settings = ("batched", "poisson")
    qos = _sweep(context, labels, settings)
    at = RATES.index(HIGH)
    seeds = range(len(context.seeds))

    def high(policy: str, seed: int) -> float:
        return float(qos[policy, "batched"][seed, at])

    def draw(figure: Figure) -> None:
        for panel, how in enumerate(settings):
            axes = figure.add_subplot(1, 2, panel + 1)
            plot_qos(axes, RATES, _curves(qos, how, labels))
            axes.set_title("20 ms batches, in rotation" if panel == 0 else "Poisson", fontsize=9)
            axes.set_xlabel("input rate (tuples/s)")
            axes.legend(loc="lower left")

    least = min(float((qos[p, how] - qos["Round-Robin", how]).min())
                for p in BOX_AT_A_TIME for how in settings)  # fmt: skip
    margin = float((qos["Fixed", "batched"] - qos["SlopeSlack", "batched"]).min())
    means = {p: float(qos[p, "batched"][:, at].mean()) for p in labels}
    return Outcome(
        claims=[
            judged(
                "QoS-aware is never more than 0.01 below Round-Robin, at any rate and arrivals",
                "far above it",
                [all((qos[p, how][i] >= qos["Round-Robin", how][i] - 0.01).all()
                     for p in BOX_AT_A_TIME for how in settings) for i in seeds],
                f"at worst {least:+.3f}",
            ),
            judged(
                "with batched arrivals both are strictly above Round-Robin at 1800/s", "above",
                [min(high(p, i) for p in BOX_AT_A_TIME) > high("Round-Robin", i) for i in seeds],
                ", ".join(f"{p} {v:.2f}" for p, v in means.items()),
            ),
            judged(
                "Fixed >= SlopeSlack box-at-a-time, batched, at every rate (to 0.01)",
                "Fixed beats SlopeSlack",
                [bool((qos["Fixed", "batched"][i] >= qos["SlopeSlack", "batched"][i] - 0.01).all())
                 for i in seeds],
                f"at least {margin:+.3f}",
            ),
            Claim(
                "at 1800/s: Round-Robin, SlopeSlack, Fixed", "published",
                "no numbers; an oracle .50, .53, .97",
                ", ".join(f"{means[p]:.2f}" for p in ("Round-Robin", "SlopeSlack", "Fixed")),
                required(
                    "within 0.05 of the oracle's",
                    *(abs(means[p] - x) < 0.05 for p, x in
                      (("Round-Robin", 0.50), ("SlopeSlack", 0.53), ("Fixed", 0.97))),
                ),
            ),
        ],
        table=[
            ["tuples/s", *(f"{p}, {how}" for how in settings for p in labels)],
            *(
                [f"{x:.0f}", *(f"{qos[p, how][:, i].mean():.3f}" for how in settings
                               for p in labels)]
                for i, x in enumerate(RATES)
            ),
        ],
        draw=draw,
        notes=["Overheads: mid; lists of 10 (Round-Robin: all). Ideal capacity: 2000 tuples/s."],
    )  # fmt: skip


def fig_4_14(context: Context) -> Outcome:
    labels = (*BOX_AT_A_TIME, *PUSHED)
    qos = _sweep(context, labels, ("batched", "deep"))
    at = RATES.index(HIGH)
    mean = {key: float(values[:, at].mean()) for key, values in qos.items()}
    #: Of each seed and policy, over all rates.
    total = {key: values.mean(axis=1) for key, values in qos.items()}
    gain = {
        box: total[push, "batched"] - total[box, "batched"]
        for box, push in zip(BOX_AT_A_TIME, PUSHED, strict=True)
    }
    loss = {p: total[p, "batched"] - total[p, "deep"] for p in labels}

    def draw(figure: Figure) -> None:
        for panel, (how, title) in enumerate(
            (("batched", "(a) 20 x 5 boxes of 0.1 ms"), ("deep", "(b) 20 x 20 boxes of 25 µs"))
        ):
            axes = figure.add_subplot(1, 2, panel + 1)
            plot_qos(axes, RATES, _curves(qos, how, labels))
            axes.set_title(title, fontsize=9)
            axes.set_xlabel("input rate (tuples/s)")
            axes.legend(loc="lower left", fontsize=8)

    return Outcome(
        claims=[
            judged(
                "push-through helps SlopeSlack more than Fixed (mean QoS over the rates)",
                "SlopeSlack most", list(gain["SlopeSlack"] > gain["Fixed"]),
                ", ".join(f"{p} {g.mean():+.3f}" for p, g in gain.items()),
            ),
            judged(
                "box-at-a-time loses more with depth than push-through does",
                "push-through similar in both, box-at-a-time not",
                [min(loss[p][i] for p in BOX_AT_A_TIME) > max(loss[p][i] for p in PUSHED)
                 for i in range(len(context.seeds))],
                ", ".join(f"{p} {v.mean():+.3f}" for p, v in loss.items()),
            ),
            Claim(
                "at 1800/s: FixedPush, SlopeSlackPush", "published",
                "no numbers; an oracle .998, .999",
                ", ".join(f"{mean[p, 'batched']:.3f}" for p in PUSHED),
                required(
                    "within 0.01 of the oracle's",
                    *(abs(mean[p, "batched"] - 0.998) < 0.01 for p in PUSHED),
                ),
            ),
        ],
        table=[
            ["tuples/s", *(f"{p}, {d}" for d in ("5", "20") for p in labels)],
            *(
                [f"{x:.0f}", *(f"{qos[p, how][:, i].mean():.3f}" for how in ("batched", "deep")
                               for p in labels)]
                for i, x in enumerate(RATES)
            ),
        ],
        draw=draw,
        notes=["Overheads: mid; 20 ms batches in rotation; lists of 10."],
    )  # fmt: skip


# Figures 4.5 and 4.6: how long a list is.
SIZES = (1, 2, 5, 10, 20, 50, 100)
RATE_4_5 = 1200.0


def run_4_5(case: Case) -> tuple[float, float]:
    """Seconds spent scheduling, and average QoS."""
    schedule = dealt(20, RATE_4_5, int(RATE_4_5 * RUN_S), case.seed, BATCH_S)
    report = run(
        case.policy, table_4_2(), schedule, OVERHEADS[case.setting], case.seed,
        schedule_size=int(case.x),
    )  # fmt: skip
    return report.spent.scheduling_ns / 1e9, report.utility_per_application


def fig_4_5(context: Context) -> Outcome:
    sets = ("mid", "heavy")
    cases = [
        Case(p, x, o, s) for p in BOX_AT_A_TIME for o in sets for x in SIZES for s in context.seeds
    ]
    runs = dict(zip(cases, context.map(run_4_5, cases), strict=True))
    #: By policy and overheads: seeds x sizes x (time, QoS).
    found = {
        (p, o): np.array([[runs[Case(p, x, o, s)] for x in SIZES] for s in context.seeds])
        for p in BOX_AT_A_TIME
        for o in sets
    }
    ten = SIZES.index(10)
    coarse = [i for i, x in enumerate(SIZES) if x >= 20]

    def mean(p: str, o: str, column: int) -> list[float]:
        return [float(v) for v in found[p, o][:, :, column].mean(axis=0)]

    def draw(figure: Figure) -> None:
        for panel, what in enumerate(("scheduling (s)", "average QoS")):
            axes = figure.add_subplot(1, 2, panel + 1)
            for o, style in zip(sets, ("-", "--"), strict=True):
                for p, colour in zip(BOX_AT_A_TIME, ("C0", "C1"), strict=True):
                    axes.plot(SIZES, mean(p, o, panel), style, color=colour, marker="o",
                              markersize=4, label=f"{p}, {o}")  # fmt: skip
            axes.set_xscale("log")
            axes.set_xticks(SIZES, [str(x) for x in SIZES])
            axes.set_xlabel("schedule size")
            axes.set_ylabel(what)
            axes.set_title(f"Figure 4.{5 + panel}", fontsize=9)
            if panel == 0:
                axes.legend()

    claims = []
    for p in BOX_AT_A_TIME:
        time_s, qos = found[p, "mid"][:, :, 0], found[p, "mid"][:, :, 1]
        claims += [
            judged(
                f"{p}: time spent scheduling falls from size 1 to 10 to 100", "falls",
                [bool(t[0] > t[ten] > t[-1]) for t in time_s],
                " > ".join(duration(float(time_s[:, i].mean())) for i in (0, ten, -1)),
            ),
            judged(
                f"{p}: size 1 is too dear (QoS below that of size 10)", "very low",
                [bool(q[0] < q[ten]) for q in qos],
                f"{qos[:, 0].mean():.3f} against {qos[:, ten].mean():.3f}",
            ),
            judged(
                f"{p}: sizes of 20 and more are too coarse (QoS below that of size 10)", "lower",
                [bool((q[coarse] < q[ten]).all()) for q in qos],
                f"{qos[:, coarse].mean(axis=0).max():.3f} at most against "
                f"{qos[:, ten].mean():.3f}",
            ),
        ]  # fmt: skip
    best = {
        (p, o): [x for x, q in zip(SIZES, mean(p, o, 1), strict=True)
                 if q > max(mean(p, o, 1)) - 0.001]
        for p in BOX_AT_A_TIME for o in sets
    }  # fmt: skip
    claims.append(
        Claim(
            "size 10 is best, to 0.001", "published", "10",
            ", ".join(f"{p} {o}: {xs}" for (p, o), xs in best.items()),
            as_claimed(all(10 in xs for xs in best.values())),
        )
    )  # fmt: skip
    return Outcome(
        claims=claims,
        table=[
            ["size", *(f"{what}, {p}, {o}" for o in sets for p in BOX_AT_A_TIME
                       for what in ("scheduling", "QoS"))],
            *(
                [str(x), *(text for o in sets for p in BOX_AT_A_TIME for text in
                           (duration(mean(p, o, 0)[i]), f"{mean(p, o, 1)[i]:.3f}"))]
                for i, x in enumerate(SIZES)
            ),
        ],
        draw=draw,
        notes=["1200 tuples/s in batches of 20 ms, in rotation; judged with overheads mid."],
    )  # fmt: skip


COMPARING = (
    Experiment("aurora/fig4.2", "tuple latencies, Fixed and SlopeSlack (Figures 4.2, 4.3)",
               fig_4_2),
    Experiment("aurora/fig4.4", "QoS as load increases", fig_4_4),
    Experiment("aurora/fig4.5", "the schedule's size (Figures 4.5, 4.6)", fig_4_5),
    Experiment("aurora/fig4.14", "pushing tuples through to outputs", fig_4_14),
)  # fmt: skip
