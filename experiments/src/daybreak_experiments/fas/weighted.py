"""Weighted freshness (section 4.4, equation 12), which the paper derives and does not measure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daybreak.model import Network, Overheads
from daybreak.model.weights import weights_by_subscribers
from daybreak.simulation.randomness import generator_for
from daybreak.simulation.simulate import simulate
from daybreak_experiments.core import Claim, Context, Experiment, Note, Outcome
from daybreak_experiments.fas.sweep import TUPLES
from daybreak_experiments.fas.testbed import K_NS, Setting, arrivals, policy_of, testbed
from daybreak_experiments.rules import above, below, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UTILISATIONS = (0.8, 0.95)
#: Subscribers of the queries: so many at most, falling with the rank by this power.
SUBSCRIBERS, SKEW = 1000, 1.0
#: The queries that count most, and those that count least.
TOP = 25


@dataclass(frozen=True, slots=True)
class Case:
    utilisation: float
    #: Whether the policy is given the weights; they are measured by either way.
    told: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Seen:
    weighted: float
    plain: float
    #: Mean staleness of the queries of largest and of smallest weight.
    top: float
    rest: float


def weights(queries: int, seed: int) -> NDArray[np.float64]:
    """By popularity: some queries have many subscribers, most have few."""
    ranks = generator_for(seed, "fas/weights").permutation(queries) + 1
    counts = {q: max(1, round(SUBSCRIBERS / int(r) ** SKEW)) for q, r in enumerate(ranks)}
    return np.array(list(weights_by_subscribers(counts).values()))


def measure(case: Case) -> Seen:
    setting = Setting(utilisation=case.utilisation, seed=case.seed, tuples=TUPLES)
    network, counted = testbed(setting), weights(setting.queries, case.seed)
    if case.told:
        network = Network(
            streams=network.streams,
            boxes=network.boxes,
            queries=[
                replace(q, weight=float(w)) for q, w in zip(network.queries, counted, strict=True)
            ],
        )
    report = simulate(
        network,
        policy_of(setting),
        arrivals(setting, network),
        overheads=Overheads(fixed_ns=K_NS),
        seed=case.seed,
    )
    stale, order = report.staleness, np.argsort(-counted, kind="stable")
    return Seen(
        weighted=float(np.average(stale, weights=counted)),
        plain=float(np.mean(stale)),
        top=float(np.mean(stale[order[:TOP]])),
        rest=float(np.mean(stale[order[TOP:]])),
    )


def run(context: Context) -> Outcome:
    cases = [
        Case(u, told, s) for u in UTILISATIONS for told in (False, True) for s in context.seeds
    ]
    found = dict(zip(cases, context.map(measure, cases), strict=True))

    def pairs(u: float) -> list[tuple[Seen, Seen]]:
        """Without and with weights, by seed."""
        return [(found[Case(u, False, s)], found[Case(u, True, s)]) for s in context.seeds]

    saved = {u: [1 - b.weighted / a.weighted for a, b in pairs(u)] for u in UTILISATIONS}
    first = [b.top / a.top for u in UTILISATIONS for a, b in pairs(u)]
    price = [b.plain / a.plain - 1 for u in UTILISATIONS for a, b in pairs(u)]
    gap = [a.top / a.rest for u in UTILISATIONS for a, _ in pairs(u)]
    rows = [["utilisation", "weights", "weighted staleness", "plain", f"top {TOP}", "the others"]]
    for u in UTILISATIONS:
        for label, i in (("not given", 0), ("given", 1)):
            seen = [p[i] for p in pairs(u)]
            columns = [[getattr(x, n) for x in seen] for n in ("weighted", "plain", "top", "rest")]
            rows.append([f"{u:g}", label, *(f"{np.mean(c):.2%}" for c in columns)])

    def draw(figure: Figure) -> None:
        axes = figure.add_subplot()
        places = np.arange(len(UTILISATIONS))
        for shift, label, i in ((-0.2, "weights not given", 0), (0.2, "weights given", 1)):
            means = [100 * np.mean([p[i].weighted for p in pairs(u)]) for u in UTILISATIONS]
            axes.bar(places + shift, means, 0.38, label=label)
        axes.set_xticks(places, [f"{u:g}" for u in UTILISATIONS])
        axes.set_xlabel("utilisation")
        axes.set_ylabel("weighted staleness (%)")
        axes.legend()

    return Outcome(
        claims=[
            *(
                Claim(
                    f"at {u:g}, weighted FAS-MCQ has the lower weighted staleness",
                    "robust",
                    "maximises weighted freshness",
                    f"{min(saved[u]):.0%} to {max(saved[u]):.0%} lower",
                    above(0, *saved[u]),
                )
                for u in UTILISATIONS
            ),
            Claim(
                f"the {TOP} queries of largest weight are fresher than without weights",
                "robust",
                "more important, fresher",
                f"{min(first):.2f} to {max(first):.2f} of the staleness without weights",
                below(1, *first),
            ),
            Claim(
                "what that costs in plain staleness is less than what it saves in weighted",
                "robust",
                "-",
                f"{min(price):+.1%} to {max(price):+.1%} in plain staleness",
                required(
                    "with every seed",
                    *(
                        p < s
                        for p, s in zip(price, chain.from_iterable(saved.values()), strict=True)
                    ),
                ),
            ),
            Note(
                "without weights, staleness of the same queries over that of the others",
                f"{min(gap):.2f} to {max(gap):.2f}",
            ),
        ],
        table=rows,
        draw=draw,
        notes=[
            (
                f"250 queries with up to {SUBSCRIBERS} subscribers each, falling with their rank "
                f"(Zipf {SKEW:g}); a query's weight is its subscribers by the largest number. Both "
                "runs of a seed see the same queries, arrivals and fates."
            )
        ],
    )


EXPERIMENTS = (Experiment("fas/weighted", "weighted freshness (section 4.4, eq. 12)", run, 3),)
