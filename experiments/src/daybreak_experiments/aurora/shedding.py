"""Load shedding (named in section 5.2): by utility lost per CPU time saved, uniform, or none."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from daybreak.engine.shedding import Input, drop_fractions
from daybreak.model import OVERHEADS, Network, QoSGraph, Query, Stream, chain
from daybreak.model.shedding import SheddingParams
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.overload import overload
from daybreak.simulation.randomness import random_for
from daybreak.simulation.simulate import simulate
from daybreak_experiments.aurora.batching import judged
from daybreak_experiments.aurora.trees import ANY_RATE, offered
from daybreak_experiments.core import Claim, Context, Experiment, Outcome
from daybreak_experiments.rules import above, required

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUERIES, ARRIVALS = 20, 8000
#: CPU time per tuple of a query, drawn evenly over its logarithm.
COST_NS = (100_000, 2_500_000)
DEADLINE_S = (0.1, 0.5)
LOADS = (0.7, 1.3, 2.0)
OVERLOADS = LOADS[1:]
POLICIES = ("fcfs", "fixed-priority")
WAYS: Mapping[str, SheddingParams | None] = {
    "none": None,
    "uniform": SheddingParams(by="uniform"),
    "by utility": SheddingParams(),
}


class Case(NamedTuple):
    policy: str
    load: float
    way: str
    seed: int


class Measured(NamedTuple):
    #: Utility of all results, over the number of tuples that arrived.
    utility: float
    dropped: float
    capacity_overload: float


def queries_of_unequal_cost(seed: int) -> Network:
    random = random_for(seed, "shedding experiment")
    low, high = (math.log(c) for c in COST_NS)
    boxes, queries = [], []
    for i in range(QUERIES):
        each_ns = round(math.exp(random.uniform(low, high)) / 3)
        boxes += chain(f"q{i}", f"s{i}", [each_ns] * 3)
        qos = QoSGraph.deadline(random.uniform(*DEADLINE_S))
        queries.append(Query(name=f"q{i}", output=f"q{i}.3", qos=qos))
    streams = [Stream(name=f"s{i}", arrivals=ANY_RATE) for i in range(QUERIES)]
    return Network(streams=streams, boxes=boxes, queries=queries)


def run_shedding(case: Case) -> Measured:
    network = queries_of_unequal_cost(case.seed)
    schedule = offered(network, case.load, ARRIVALS, case.seed)
    report = simulate(
        network, make_policy_with(case.policy), schedule, overheads=OVERHEADS["mid"],
        seed=case.seed, shedding=WAYS[case.way],
    )  # fmt: skip
    arrivals = len(schedule)
    return Measured(
        float(report.utility.sum()) / arrivals,
        sum(report.dropped) / arrivals,
        overload(report).share("capacity"),
    )


def best_possible(load: float, seed: int) -> float:
    """Share of tuples kept if a processor without overheads were filled with the most worth."""
    network = queries_of_unequal_cost(seed)
    costs_s = [network.total_cost_ns(s) / 1e9 for s in range(QUERIES)]
    inputs = [Input(load / sum(costs_s), c, 1.0) for c in costs_s]
    return 1.0 - float(np.mean(drop_fractions(inputs, 1.0)))


def shedding(context: Context) -> Outcome:
    cases = [Case(p, x, w, s) for p in POLICIES for x in LOADS for w in WAYS for s in context.seeds]
    runs = dict(zip(cases, context.map(run_shedding, cases), strict=True))
    bound = {x: float(np.mean([best_possible(x, s) for s in context.seeds])) for x in LOADS}

    def mean(p: str, x: float, w: str, field: str = "utility") -> float:
        return float(np.mean([getattr(runs[Case(p, x, w, s)], field) for s in context.seeds]))

    def more(way: str, than: str) -> list[bool]:
        """For each seed: under every policy and overload."""
        return [
            all(
                runs[Case(p, x, way, s)].utility > runs[Case(p, x, than, s)].utility
                for p in POLICIES for x in OVERLOADS
            )
            for s in context.seeds
        ]  # fmt: skip

    def shown(*ways: str) -> str:
        return "; ".join(
            f"{p} at {x}: " + " against ".join(f"{mean(p, x, w):.3f}" for w in ways)
            for p in POLICIES for x in OVERLOADS
        )  # fmt: skip

    def draw(figure: Figure) -> None:
        both = figure.subplots(1, 2, sharey=True)
        for axes, p in zip(both, POLICIES, strict=True):
            for w, style in zip(WAYS, ("o:", "s--", "o-"), strict=True):
                axes.plot(LOADS, [mean(p, x, w) for x in LOADS], style, label=f"shedding: {w}")
            axes.plot(LOADS, [bound[x] for x in LOADS], color="C7", linewidth=1, label="bound")
            axes.set_title(p, fontsize=9)
            axes.set_xlabel("offered load")
            axes.set_ylim(0, 1.05)
        both[0].set_ylabel("utility per tuple that arrived")
        both[0].legend()

    calm = [
        all(
            runs[Case(p, LOADS[0], w, s)] == runs[Case(p, LOADS[0], "none", s)]
            for p in POLICIES for w in WAYS
        )
        for s in context.seeds
    ]  # fmt: skip
    return Outcome(
        claims=[
            judged("at load 0.7 nothing is dropped and nothing changes", "underload", calm,
                   f"{mean(POLICIES[0], LOADS[0], 'by utility', 'dropped'):.0%} dropped"),
            judged("under overload, shedding by utility brings more utility than none",
                   "least degrades QoS", more("by utility", "none"), shown("by utility", "none")),
            judged("and more than dropping the same share everywhere", "least degrades QoS",
                   more("by utility", "uniform"), shown("by utility", "uniform")),
            Claim("uniform shedding brings more utility than none", "published", "not measured",
                  shown("uniform", "none"), required("with every seed", *more("uniform", "none"))),
            Claim("share of the most utility possible at load 2", "published", "not measured",
                  ", ".join(f"{p} {mean(p, 2.0, 'by utility') / bound[2.0]:.0%}" for p in POLICIES),
                  above(0.9, *(mean(p, 2.0, "by utility") / bound[2.0] for p in POLICIES))),
        ],
        table=[
            ["policy", "load", "shedding", "utility per arrival", "dropped", "capacity overload"],
            *(
                [p, f"{x}", w, f"{mean(p, x, w):.3f}", f"{mean(p, x, w, 'dropped'):.0%}",
                 f"{mean(p, x, w, 'capacity_overload'):.0%} of the run"]
                for p in POLICIES for x in LOADS for w in WAYS
            ),
        ],
        draw=draw,
        notes=[
            ("20 chains of three boxes, 0.1 to 2.5 ms of work per tuple, deadlines of 0.1 to 0.5 "
             "s, equal rates, overheads mid. A dropped tuple counts as utility 0. The bound fills "
             "the processor with the cheapest tuples, all on time, without overheads. The text "
             "names load shedding and leaves it to another paper: the numbers are ours alone."),
        ],
    )  # fmt: skip


SHEDDING = (Experiment("aurora/shedding", "load shedding: by utility, uniform or none", shedding),)
