"""Section 6.3.7: boxes that wait for a disk or a service, and whether they yield the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model import OVERHEADS, Box, Network, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.report.text import duration
from daybreak.simulation.randomness import random_for
from daybreak.simulation.simulate import simulate
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.trees import ANY_RATE, offered
from daybreak_experiments.core import Context, Experiment, Note, Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

APPLICATIONS, DEPTH = 20, 4
#: So many applications ask a database with their second box; a call takes so long to answer.
ASKING = 4
WAIT_NS = 5_000_000
COST_NS = (100_000, 1_000_000)
LOAD = 0.7
ARRIVALS = 4000
POLICIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "superboxes": ("superbox", {"superboxes": "applications", "traversal": "mc"}),
    "box at a time": ("round-robin", {}),
}
#: What a worker does while a box waits; two that block stand for one more thread.
WAYS: Mapping[str, dict[str, Any]] = {
    "blocks": {"yields": False},
    "blocks, two workers": {"yields": False, "workers": 2},
    "yields": {"yields": True},
}


class Case(NamedTuple):
    policy: str
    way: str
    seed: int


def applications(seed: int) -> Network:
    """Chains of boxes of 0.1 to 1 ms; in some of them one box waits."""
    random = random_for(seed, "waiting")
    boxes = []
    for a in range(APPLICATIONS):
        for d in range(DEPTH):
            source = f"a{a}.{d - 1}" if d else f"a{a} in"
            waits = WAIT_NS if a < ASKING and d == 1 else 0
            cost_ns = random.randint(*COST_NS)
            boxes.append(Box(name=f"a{a}.{d}", inputs=(source,), cost_ns=cost_ns, wait_ns=waits))
    return Network(
        streams=[Stream(name=f"a{a} in", arrivals=ANY_RATE) for a in range(APPLICATIONS)],
        boxes=boxes,
        queries=[Query(name=f"a{a}", output=f"a{a}.{DEPTH - 1}") for a in range(APPLICATIONS)],
    )


def measure(case: Case) -> tuple[float, float, float]:
    """Mean latency of applications that ask and of the others (s), and time to finish all."""
    network = applications(case.seed)
    schedule = offered(network, LOAD, ARRIVALS, case.seed)
    name, params = POLICIES[case.policy]
    report = simulate(
        network,
        make_policy_with(name, **params),
        schedule,
        overheads=OVERHEADS["light"],
        seed=case.seed,
        **WAYS[case.way],
    )
    asks = report.outputs.query < ASKING
    last_s = int(schedule.at_ns[-1]) / 1e9
    return (
        float(report.response_s[asks].mean()),
        float(report.response_s[~asks].mean()),
        report.duration_s / last_s,
    )


def waiting(context: Context) -> Outcome:
    cases = [Case(p, w, s) for p in POLICIES for w in WAYS for s in context.seeds]
    results = context.map(measure, cases)
    shape = (len(POLICIES), len(WAYS), len(context.seeds), 3)
    found: NDArray[np.float64] = np.array(results).reshape(shape)
    way = list(WAYS).index
    rows = [["policy", "a worker that waits", "asking", "others", "time to finish / input"]]
    for i, policy in enumerate(POLICIES):
        for w in WAYS:
            asking, others, finished = found[i, way(w)].mean(axis=0)
            shown = [duration(float(asking)), duration(float(others)), f"{finished:.2f}"]
            rows.append([policy, w, *shown])
    blocked, two, yielding = (found[:, way(w)] for w in WAYS)
    gain = blocked[..., :2] / yielding[..., :2]

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        places = np.arange(len(POLICIES) * 2)
        labels = [f"{p},\n{kind}" for p in POLICIES for kind in ("asking", "others")]
        for k, w in enumerate(WAYS):
            values = found[:, way(w), :, :2].mean(axis=1).ravel() * 1e3
            axes.bar(places + (k - 1) * 0.27, values, 0.25, label=w)
        axes.set_xticks(places, labels)
        axes.set_yscale("log")
        axes.set_ylabel("mean latency (ms)")
        axes.legend()

    return Outcome(
        claims=[
            judged(
                "where a waiting box yields, the other applications are faster",
                "must yield the CPU",
                [bool((gain[:, s, 1] > 1).all()) for s in range(gain.shape[1])],
                f"x {gain[..., 1].min():.1f} to {gain[..., 1].max():.1f}",
            ),
            judged(
                "and so are the applications that wait",
                "must yield the CPU",
                [bool((gain[:, s, 0] > 1).all()) for s in range(gain.shape[1])],
                f"x {gain[..., 0].min():.1f} to {gain[..., 0].max():.1f}",
            ),
            Note(
                "the others' latency with a second worker that takes over, and with yielding",
                ", ".join(
                    f"{p}: {duration(float(two[i, :, 1].mean()))} and "
                    f"{duration(float(yielding[i, :, 1].mean()))}"
                    for i, p in enumerate(POLICIES)
                ),
            ),
            Note(
                "share of the time that one worker would need for work and waits together",
                f"{_with_waits(context.seeds[0]):.2f}",
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            (
                f"{APPLICATIONS} chains of {DEPTH} boxes of 0.1 to 1 ms, offered load {LOAD:g} of "
                f"one worker. The second box of {ASKING} of them gets its answer "
                f"{WAIT_NS / 1e6:g} ms after a call, however many tuples the call has. Two workers "
                "have two CPUs here: they bound what a second thread on one CPU could do."
            )
        ],
    )


def _with_waits(seed: int) -> float:
    """Load of one worker if every tuple that asks were a call of its own."""
    network = applications(seed)
    work_ns = sum(b.cost_ns for b in network.boxes)
    return LOAD * (work_ns + ASKING * WAIT_NS) / work_ns


WAITING = (
    Experiment("aurora/section6.3.7", "boxes that wait for I/O, and yield", waiting, seeds=5),
)
