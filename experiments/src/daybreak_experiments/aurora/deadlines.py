"""The testbed of chapter 4: straight applications with deadlines, and how tuples reach them.

Table 4.2: 20 applications of five boxes, 0.1 ms per box, deadlines of 10 ms and 2 s in turn; the
QoS falls to nothing within 0.1 ms after a deadline. Average QoS is the mean over applications
of the mean over their tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model import NS_PER_S, Box, Network, Overheads, QoSGraph, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.randomness import generator_for
from daybreak.simulation.simulate import simulate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TIGHT_S, LOOSE_S = 0.01, 2.0
#: From a deadline to no QoS at all.
FALL_S = 1e-4
COST_NS = 100_000
BATCH_S = 0.02

#: Policies as the figures call them; lists of 10 unless an experiment says otherwise.
POLICIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "Round-Robin": ("round-robin", {}),
    "Fixed": ("fixed-priority", {"schedule_size": 10}),
    "SlopeSlack": ("slope-slack", {"schedule_size": 10}),
    "Bucketing": ("bucketing", {"schedule_size": 10}),
    "FixedPush": ("fixed-priority-push", {"schedule_size": 10}),
    "SlopeSlackPush": ("slope-slack-push", {"schedule_size": 10}),
    "BucketingPush": ("bucketing-push", {"schedule_size": 10}),
}
PUSH = ("FixedPush", "SlopeSlackPush", "BucketingPush")


def steep(deadline_s: float) -> QoSGraph:
    return QoSGraph.deadline(deadline_s, deadline_s + FALL_S)


def straight(deadlines_s: Sequence[float], depth: int = 5, cost_ns: int = COST_NS) -> Network:
    """An application per deadline: A0, A1, ..., each a chain of boxes."""
    apps = [f"A{i}" for i in range(len(deadlines_s))]
    return Network(
        streams=[Stream(name=f"in {a}") for a in apps],
        boxes=[
            Box(name=f"{a}.{k}", inputs=(f"{a}.{k - 1}" if k > 1 else f"in {a}",), cost_ns=cost_ns)
            for a in apps
            for k in range(1, depth + 1)
        ],
        queries=[
            Query(name=a, output=f"{a}.{depth}", qos=steep(d))
            for a, d in zip(apps, deadlines_s, strict=True)
        ],
    )  # fmt: skip


def alternating(apps: int, *deadlines_s: float) -> list[float]:
    """The deadlines in turn: with two, even applications have the first."""
    return [deadlines_s[i % len(deadlines_s)] for i in range(apps)]


def table_4_2(depth: int = 5) -> Network:
    """As deep as asked; the work per tuple stays the same."""
    return straight(alternating(20, TIGHT_S, LOOSE_S), depth, COST_NS * 5 // depth)


def dealt(inputs: int, rate_per_s: float, tuples: int, seed: int, batch_s: float = 0.0) -> (
    ArrivalSchedule
):  # fmt: skip
    """Tuples at even distances, dealt to the inputs in rotation, and handed over in batches.

    The seed draws the order of the rotation and where it begins.
    """
    random = generator_for(seed, "rotation")
    turn = random.permutation(inputs).astype(np.int32)
    at_s = (np.arange(tuples, dtype=np.float64) + random.random()) / np.float64(rate_per_s)
    return _delivered(at_s, turn[np.arange(tuples) % inputs], batch_s)


def poisson(inputs: int, rate_per_s: float, tuples: int, seed: int, batch_s: float = 0.0) -> (
    ArrivalSchedule
):  # fmt: skip
    """A Poisson process of so many tuples per second in all, each for a random input."""
    random = generator_for(seed, "poisson")
    at_s = np.cumsum(random.exponential(1 / rate_per_s, tuples))
    return _delivered(at_s, random.integers(inputs, size=tuples, dtype=np.int32), batch_s)


def periodic(
    rates_per_s: Sequence[float], duration_s: float, seed: int, spread: float = 1.0
) -> ArrivalSchedule:
    """Every input has its own period, and begins at random within a part of the first one.

    With a spread of 0 all inputs are in step.
    """
    random = generator_for(seed, "offsets")
    parts: list[NDArray[np.int64]] = []
    for rate in rates_per_s:
        at = (np.arange(int(duration_s * rate)) + spread * random.random()) / rate * NS_PER_S
        parts.append(np.rint(at).astype(np.int64))
    return ArrivalSchedule.merge(parts)


def _delivered(
    at_s: NDArray[np.float64], stream: NDArray[np.int32], batch_s: float
) -> ArrivalSchedule:
    if batch_s:
        at_s = np.ceil(at_s / batch_s) * batch_s
    return ArrivalSchedule(np.rint(at_s * NS_PER_S).astype(np.int64), stream)


def run(
    label: str, network: Network, schedule: ArrivalSchedule, overheads: Overheads, seed: int,
    **params: Any,
) -> RunReport:  # fmt: skip
    name, usual = POLICIES[label]
    policy = make_policy_with(name, **{**usual, **params})
    return simulate(network, policy, schedule, overheads=overheads, seed=seed)


def scheduling_share(report: RunReport) -> float:
    """Of the time that was not idle."""
    busy_ns = report.spent.total_ns - report.spent.idle_ns
    return report.spent.scheduling_ns / max(busy_ns, 1)


def sustained(rates_per_s: Sequence[float], qos: Sequence[float], least: float = 0.99) -> float:
    """The highest rate up to which the average QoS stays almost perfect; 0 if none does."""
    held = 0.0
    for rate, value in zip(rates_per_s, qos, strict=True):
        if value < least:
            break
        held = rate
    return held


def plot_qos(axes: Axes, x: Sequence[float], curves: Mapping[str, Sequence[float]]) -> None:
    for (label, values), mark in zip(curves.items(), "osx^vD+*", strict=False):
        axes.plot(x, values, marker=mark, markersize=4, label=label)
    axes.set_ylabel("average QoS")
    axes.set_ylim(-0.03, 1.05)
