"""Section 6.3.3: two applications that overlap, run as one with a combined QoS graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model import OVERHEADS, Network
from daybreak.policies.registry import make_policy_with
from daybreak.report.text import duration
from daybreak.simulation.simulate import simulate
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.overlap import FAN_OUT, overlapping
from daybreak_experiments.aurora.trees import offered
from daybreak_experiments.core import Claim, Context, Experiment, Line, Outcome
from daybreak_experiments.rules import required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = 3
#: Subtrees of an application's nine that it shares with the other of its pair.
SHARED = (3, 6, 9)
LOAD = 0.9
ARRIVALS = 4000
CHOICES: Mapping[str, dict[str, Any]] = {
    "apart": {"superboxes": "applications"},
    "composites": {"superboxes": "composites", "overlap": 0.25},
}
WORKERS = (1, 2)


class Case(NamedTuple):
    choice: str
    shared: int
    workers: int
    seed: int


def pairs(shared: int, seed: int) -> Network:
    """Applications of which each overlaps with one other; deadlines within a pair differ."""
    parts = [overlapping(2, shared, 1000 * seed + i, prefix=f"p{i} ") for i in range(PAIRS)]
    return Network(
        streams=[s for p in parts for s in p.streams],
        boxes=[b for p in parts for b in p.boxes],
        queries=[q for p in parts for q in p.queries],
    )


def measure(case: Case) -> tuple[float, float, float]:
    """Average QoS, scheduling per arrival and mean latency (s)."""
    network = pairs(case.shared, case.seed)
    schedule = offered(network, LOAD * case.workers, ARRIVALS, case.seed)
    policy = make_policy_with("superbox", traversal="mc", priority="qos", **CHOICES[case.choice])
    report = simulate(
        network, policy, schedule, overheads=OVERHEADS["mid"], workers=case.workers, seed=case.seed
    )
    scheduling_s = report.spent.scheduling_ns / 1e9 / len(schedule)
    return report.utility_per_application, scheduling_s, float(report.response_s.mean())


def compositing(context: Context) -> Outcome:
    cases = [
        Case(c, k, w, s) for w in WORKERS for k in SHARED for c in CHOICES for s in context.seeds
    ]
    results = context.map(measure, cases)
    shape = (len(WORKERS), len(SHARED), len(CHOICES), len(context.seeds), 3)
    found: NDArray[np.float64] = np.array(results).reshape(shape)
    qos, scheduling, latency = (found[..., i] for i in range(3))
    rows = [["workers", "shared", "applications", "average QoS", "scheduling", "mean latency"]]
    for i, w in enumerate(WORKERS):
        for j, k in enumerate(SHARED):
            for c, choice in enumerate(CHOICES):
                at = (i, j, c)
                rows.append(
                    [
                        str(w), f"{k / FAN_OUT**2:.0%}", choice, f"{qos[at].mean():.3f}",
                        duration(float(scheduling[at].mean())),
                        duration(float(latency[at].mean())),
                    ]
                )  # fmt: skip

    def draw(figure: Figure) -> None:
        for axes, i in zip(figure.subplots(1, len(WORKERS), sharey=True), range(2), strict=True):
            for c, choice in enumerate(CHOICES):
                shares = [100 * k / FAN_OUT**2 for k in SHARED]
                axes.plot(shares, qos[i, :, c].mean(axis=-1), "o-", label=choice)
            axes.set_xlabel("boxes shared within a pair (%)")
            axes.set_title(f"{WORKERS[i]} worker{'s' * i}")
        figure.axes[0].set_ylabel("average QoS")
        figure.axes[0].legend()

    return Outcome(_claims(qos, scheduling), rows, draw, NOTES)


def _claims(qos: NDArray[np.float64], scheduling: NDArray[np.float64]) -> list[Line]:
    apart, together = qos[:, :, 0], qos[:, :, 1]
    cheaper = scheduling[:, :, 1] < scheduling[:, :, 0]
    return [
        judged(
            "a composite takes less scheduling than its applications apart",
            "not measured",
            [bool(cheaper[..., s].all()) for s in range(cheaper.shape[-1])],
            f"x {(scheduling[:, :, 1] / scheduling[:, :, 0]).mean():.2f} on average",
        ),
        *(
            Claim(
                f"{w} worker{'s' * i}: run together, they reach the better average QoS",
                "published",
                "proposed, not measured",
                ", ".join(
                    f"{together[i, j].mean():.3f} against {apart[i, j].mean():.3f} at "
                    f"{k / FAN_OUT**2:.0%}"
                    for j, k in enumerate(SHARED)
                ),
                required(
                    "over the seeds' mean, at every overlap",
                    *(together[i].mean(axis=-1) > apart[i].mean(axis=-1)),
                ),
            )
            for i, w in enumerate(WORKERS)
        ),
    ]


NOTES = (
    (
        f"{PAIRS} pairs of applications of 80 boxes each, offered load {LOAD:g} of the workers, "
        "overheads mid, boxes in order MC, the superbox first that loses most utility by its own "
        "graph. A composite's graph is the mean of its applications' graphs."
    ),
)
COMPOSITING = (
    Experiment(
        "aurora/section6.3.3", "two applications that overlap, run as one", compositing, seeds=5
    ),
)
