"""Runs a workload as jobs in virtual time, and measures what its answers were worth.

The engine is the one that runs queries on Spark, and it learns what jobs cost as it does there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daybreak.engine.core import Settings
from daybreak.engine.drive import NEVER
from daybreak.engine.engine import Engine
from daybreak.engine.state import JobState
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy, Cell, JobCost
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.jobs import Delivery, ReplayedQueries, VirtualDriver
from daybreak.simulation.randomness import generator_for
from daybreak.simulation.simulate import collector_paused
from daybreak_experiments.planned.workloads import Workload

#: One tuple in so many gives a row.
PASSES = 100
#: Changes what a policy is shown of a cell's costs: from its first query, the true cost and what
#: the engine has learned.
Shown = Callable[[int, JobCost, JobCost], JobCost]


def learned(_query: int, _true: JobCost, known: JobCost) -> JobCost:
    return known


def exact(_query: int, true: JobCost, _known: JobCost) -> JobCost:
    return true


def steady(_at_s: float) -> float:
    return 1.0


@dataclass(frozen=True)
class Case:
    """One run: what is offered, to how many workers, and which part of it is measured."""

    workload: Workload
    load: float
    workers: int = 2
    seed: int = 1
    warm_s: float = 15.0
    measured_s: float = 40.0
    #: Arrivals continue for so long, so that what is measured may still be answered.
    after_s: float = 30.0
    #: The rate is multiplied by this at each time.
    factor: Callable[[float], float] = steady
    #: Relative noise of what jobs cost.
    noise: float = 0.1
    shown: Shown = learned


class Measured(NamedTuple):
    """What became of all (query, tuple) pairs that arrived in the measured time."""

    #: Sum of w U over sum of w; what is not answered is worth nothing.
    utility: float
    answered: float
    #: Of the most important class; infinite if too few are answered.
    p95_s: float
    #: Share of the workers' time.
    busy: float
    report: RunReport


class _Costs:
    """What jobs of one cell cost: as declared, and a little more or less each time."""

    def __init__(self, cost: JobCost, noise: float, seed: int, name: str) -> None:
        self._cost = cost
        random = generator_for(seed, f"costs/{name}")
        self._off = np.exp(random.normal(0.0, noise, 997) - noise**2 / 2).tolist()

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        return round(self._cost.of(tuples, riders) * float(self._off[job % len(self._off)]))


def run(case: Case, policy: BasePolicy) -> Measured:
    """One run from an empty system."""
    work, network = case.workload, case.workload.network
    end_s = case.warm_s + case.measured_s + case.after_s
    rate_per_s = work.rate_per_s(case.load, case.workers)
    deliveries = work.deliveries(rate_per_s, end_s, case.seed, case.factor)
    queries = _queries(case, deliveries)
    state = JobState(network, case.workers)
    engine = Engine(
        state, queries.facts(network), queries.inboxes(), policy,
        Settings(seed=case.seed, rider_bound_ns=100_000_000),
    )  # fmt: skip
    known = state.cells_now

    def shown() -> list[Cell]:
        return [
            c._replace(cost=case.shown(c.queries[0], work.queries[c.queries[0]].cost, c.cost))
            for c in known()
        ]

    state.cells_now = shown
    monitor = Monitor(network, sample_every_ns=NEVER)
    accounts = Accounts(engine, monitor)
    driver = VirtualDriver(engine, accounts, queries, deliveries, end_ns=round(end_s * NS_PER_S))
    with collector_paused():
        driver.run()
    report = monitor.report(
        engine.look(), driver.now_ns(), case.workers + 1, engine.view.policy.report(0)
    )
    return _measured(case, report, deliveries)


def _queries(case: Case, deliveries: Sequence[Delivery]) -> ReplayedQueries:
    declared = case.workload.queries
    tuples = sum(d.item.tuples for d in deliveries)
    kinds: list[Hashable] = [(q.cls, q.together or q.name) for q in declared]
    costs: dict[Hashable, _Costs] = {}
    for kind, q in zip(kinds, declared, strict=True):
        costs.setdefault(kind, _Costs(q.cost, case.noise, case.seed, str(kind)))
    return ReplayedQueries(
        share_keys=[q.together or None for q in declared],
        windows=[q.slide_s > 0 for q in declared],
        kinds=kinds,
        costs=costs.__getitem__,
        passing=[np.arange(PASSES // 2, tuples, PASSES)] * len(declared),
        job_kinds=[q.kind for q in declared],
        slides_ns=[round(q.slide_s * NS_PER_S) for q in declared],
    )


def _measured(case: Case, report: RunReport, deliveries: Sequence[Delivery]) -> Measured:
    from_ns = round(case.warm_s * NS_PER_S)
    until_ns = round((case.warm_s + case.measured_s) * NS_PER_S)
    cls = np.array(report.query_class)
    weight = np.array(report.priorities)[cls] * np.array(report.weights)
    important = cls == int(np.argmax(report.priorities))
    came = np.zeros(len(weight))
    for d in deliveries:
        if from_ns <= d.item.arrival_ns < until_ns:
            came[list(d.boxes)] += d.item.tuples
    o = report.outputs
    mine = (o.arrival_ns >= from_ns) & (o.arrival_ns < until_ns)
    query, tuples = o.query[mine], o.tuples[mine]
    gained = float((weight[query] * np.nan_to_num(report.utility[mine]) * tuples).sum())
    urgent = important[query]
    late_s = report.response_s[mine][urgent]
    order = np.argsort(late_s)
    answered = np.cumsum(tuples[urgent][order])
    place = int(np.searchsorted(answered, 0.95 * came[important].sum()))
    return Measured(
        utility=gained / float((weight * came).sum()),
        answered=float(tuples.sum()) / float(came.sum()),
        p95_s=float(late_s[order][place]) if place < len(order) else float("inf"),
        busy=report.spent.work_ns / (report.spent.wall_ns * case.workers),
        report=report,
    )
