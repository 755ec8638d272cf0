"""The testbed of fas-mcq-paper, section 6: queries, streams, overheads, and one run on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from daybreak.model import Arrivals, Network, Overheads, Query, Stream, chain
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule, Instants, draw, load_scale
from daybreak.simulation.randomness import generator_for
from daybreak.simulation.simulate import simulate

#: K, the cost of the cheapest operator. The unit of time is arbitrary.
K_NS = 1_000
#: Selectivities are drawn from so many evenly spaced values in [0.1, 1.0].
LEVELS = np.linspace(1.0, 0.1, 91)


@dataclass(frozen=True)
class Setting:
    """One point of a figure. The defaults are the paper's, except for ``tuples``."""

    policy: str = "fas-mcq"
    beta: float = 1.0
    utilisation: float = 0.95
    seed: int = 1
    queries: int = 250
    streams: int = 10
    bursty: int = 5
    #: Tuples per stream; the paper has 10 000.
    tuples: int = 10_000
    zipf: float = 0.0
    equal_costs: bool = False
    #: Cost of a scheduling point with news, in cheapest operators; FAS-MCQ alone pays it.
    calendar: float = 1.0
    #: Recorded arrivals, one file per stream, in place of the synthetic ones; a window of
    #: them with ``tuples`` arrivals in all is taken where the seed says.
    traces: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Point:
    """What one run came to."""

    staleness: float
    response_s: float


def measure(setting: Setting) -> Point:
    """Runs one setting and keeps its two averages."""
    report = run(setting)
    return Point(report.overall_staleness, report.overall().mean_s)


def run(setting: Setting) -> RunReport:
    """One run: same seed, same queries, arrivals and fates, whatever the policy."""
    network = testbed(setting)
    paid = K_NS * setting.calendar if setting.policy == "fas-mcq" else 0
    return simulate(
        network,
        policy_of(setting),
        arrivals(setting, network),
        overheads=Overheads(fixed_ns=round(paid)),
        seed=setting.seed,
    )


def policy_of(setting: Setting) -> BasePolicy:
    """Every policy runs whole queries, one update at a time."""
    if setting.policy == "fas-mcq":
        return make_policy_with("fas-mcq", drain="one", beta=setting.beta)
    if setting.policy == "rb-mcq":
        return make_policy_with("rb-mcq", drain="one")
    return make_policy_with(setting.policy, level="query", train=1)


def testbed(setting: Setting) -> Network:
    """Queries of two predicates and a projection, dealt evenly to the streams."""
    random = generator_for(setting.seed, "fas/queries")
    ranks = np.arange(1, len(LEVELS) + 1, dtype=float) ** -setting.zipf
    passes = random.choice(LEVELS, size=setting.queries, p=ranks / ranks.sum())
    costs = K_NS * 2 ** random.integers(0, 3, size=setting.queries)
    if setting.equal_costs:
        costs[:] = K_NS
    boxes = [
        b
        for q in range(setting.queries)
        for b in chain(
            f"q{q}",
            f"s{q % setting.streams}",
            [int(costs[q])] * 3,
            [float(passes[q])] * 2 + [1.0],
        )
    ]
    return Network(
        streams=[
            Stream(name=f"s{s}", arrivals=_process(setting, s)) for s in range(setting.streams)
        ],
        boxes=boxes,
        queries=[Query(name=f"q{q}", output=f"q{q}.3") for q in range(setting.queries)],
    )


def _process(setting: Setting, stream: int) -> Arrivals:
    if setting.traces:
        return Arrivals(process="trace", trace=str(setting.traces[stream]))
    # Any rate will do, the same for all: it is scaled to the utilisation.
    return Arrivals(rate_per_s=1.0, burst=10 if stream < setting.bursty else 1)


def arrivals(setting: Setting, network: Network) -> ArrivalSchedule:
    """Arrivals whose total expected work is the utilisation's share of the time they take."""
    return ArrivalSchedule.merge(
        _recorded(setting, network) if setting.traces else _synthetic(setting, network)
    )


def _synthetic(setting: Setting, network: Network) -> list[Instants]:
    """Exactly ``tuples`` arrivals per stream."""
    scale = load_scale(network, setting.utilisation, workers=1)
    per_stream = []
    for s, stream in enumerate(network.streams):
        process = _process(setting, s)
        random = generator_for(setting.seed, f"arrivals/{stream.name}")
        # Long enough for the wanted number with certainty; bursts are made after the cut.
        span_s = (setting.tuples + 10 * setting.tuples**0.5 + 100) / scale
        single = draw(replace(process, burst=1), span_s, random, scale)[: setting.tuples]
        per_stream.append(single[np.arange(len(single)) // process.burst * process.burst])
    return per_stream


def _recorded(setting: Setting, network: Network) -> list[Instants]:
    """A window of the traces, its time stretched to give the utilisation.

    The paper scales the costs instead, by K; the ratio is what counts.
    """
    random = generator_for(setting.seed, "fas/window")
    whole = [draw(_process(setting, s), inf, random) for s in range(len(network.streams))]
    length_ns = min(int(at[-1]) for at in whole)
    span_ns = int(setting.tuples / sum(len(at) / int(at[-1]) for at in whole))
    start_ns = int(random.integers(0, max(length_ns - span_ns, 1)))
    window = [at[(at >= start_ns) & (at < start_ns + span_ns)] - start_ns for at in whole]
    work_ns = sum(len(at) * network.total_cost_ns(s) for s, at in enumerate(window))
    return [(at * (work_ns / setting.utilisation / span_ns)).astype(np.int64) for at in window]
