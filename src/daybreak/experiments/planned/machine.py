"""Runs a workload as jobs in virtual time, and measures what its answers were worth."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from daybreak.engine.compositing import Trains
from daybreak.engine.state import SystemState
from daybreak.experiments.planned.workloads import Workload
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy, Cell, JobCost, Plan, Step, Wait
from daybreak.runtime.loop import Loop
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.report import RunReport
from daybreak.simulation.jobs import NEVER, Delivery, Job, JobExecutor, Queries
from daybreak.simulation.randomness import generator_for
from daybreak.simulation.simulate import collector_paused

RIDER_BOUND_NS = 100_000_000
#: Relative noise of what jobs cost.
NOISE = 0.1


class _Costs:
    """What jobs of one cell cost: as declared, and a little more or less each time."""

    def __init__(self, cost: JobCost, noise: float, seed: int, name: str) -> None:
        self._cost = cost
        random = generator_for(seed, f"costs/{name}")
        self._off = np.exp(random.normal(0.0, noise, 997) - noise**2 / 2).tolist()

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        return round(self._cost.of(tuples, riders) * self._off[job % len(self._off)])


class _State(SystemState):
    """Shows the workload's cells, and counts what arrives."""

    def __init__(self, workload: Workload, workers: int, told: Callable[[int], JobCost]) -> None:
        super().__init__(workload.network, workers, rides=True)
        self.counts = [0] * len(workload.queries)
        self._cells = workload.cells
        self._slides = [round(workload.queries[c[0]].slide_s * NS_PER_S) for c in self._cells]
        self._told = told

    @property
    def arrived(self) -> list[int]:
        return self.counts

    @property
    def cells(self) -> list[Cell]:
        return [
            Cell(tuple(c), self._told(c[0]), slide)
            for c, slide in zip(self._cells, self._slides, strict=True)
        ]


class _AnyTrain(Trains):
    """A policy that limits its trains is not limited further."""

    def most(self, cell: int) -> int:
        return NEVER


class _Loop(Loop):
    """Remembers when the policy wants to be asked again."""

    wake_ns = NEVER

    def dispatch(self) -> None:
        self.wake_ns = NEVER
        idle, work = self.idle, self.work
        while idle:
            plan = self.policy.decide(self.executor.now_ns, idle[-1])
            if not isinstance(plan, Plan):
                self.wake_ns = plan.until_ns if isinstance(plan, Wait) else NEVER
                work.clear()
                return
            if not self._mark(plan):
                self._on_completion(plan, idle[-1], 0, self.executor.now_ns)
                continue
            for rider in self.executor.start(idle.pop(), plan, work):
                self.policy.on_boarding(rider, self.executor.now_ns)
            work.clear()


class _Executor(JobExecutor):
    """Wakes the policy, and shows it what arrived."""

    bounded: Trains | None = None

    def advance(self, loop: Loop) -> bool:
        assert isinstance(loop, _Loop)
        at_ns = self._deliveries[self._next].at_ns if self._next < len(self._deliveries) else NEVER
        if loop.wake_ns < min(at_ns, min(self._ends), self._end_ns):
            self.now_ns = max(self.now_ns, loop.wake_ns)
            loop.wake_ns = NEVER
            return True
        return super().advance(loop)

    def _deliver(self, now: int, loop: Loop) -> None:
        begin = self._next
        super()._deliver(now, loop)
        assert isinstance(self._state, _State)
        for _, boxes, item in self._deliveries[begin : self._next]:
            for box in boxes:
                self._state.counts[box] += item.tuples

    def _job(self, step: Step, begins_ns: int) -> Job:
        if self.bounded is None:
            self.bounded = self._compositor.trains
            self.any = _AnyTrain()
        free = step.limit is not None
        self._compositor.trains = self.any if free else self.bounded
        self._compositor.bound_ns = NEVER if free else RIDER_BOUND_NS
        return super()._job(step, begins_ns)


@dataclass(frozen=True)
class Case:
    """One run: what is offered, to how many workers, and which part of it is measured."""

    workload: Workload
    load: float
    workers: int = 2
    seed: int = 1
    warm_s: float = 10.0
    measured_s: float = 40.0
    #: Arrivals go on for so long, so that what is measured may still be answered.
    after_s: float = 30.0
    factor: Callable[[float], float] = lambda _s: 1.0
    #: By how much the costs that the policy is shown are wrong, by the first query of a cell.
    wrong: Callable[[int], float] = lambda _q: 1.0
    noise: float = NOISE


class Measured(NamedTuple):
    """What came of all (query, tuple) pairs that arrived in the measured time."""

    #: Sum of w U over sum of w; what is not answered is worth nothing.
    utility: float
    answered: float
    #: Of the most important class; infinite if fewer are answered.
    p95_s: float
    #: Share of the workers' time.
    busy: float
    jobs: int
    report: RunReport


def run(case: Case, policy: BasePolicy) -> Measured:
    work = case.workload
    end_s = case.warm_s + case.measured_s + case.after_s
    deliveries = work.deliveries(
        work.rate_per_s(case.load, case.workers), end_s, case.seed, case.factor
    )
    costs: dict[Hashable, _Costs] = {}
    kinds: list[Hashable] = [(q.cls, q.together or q.name) for q in work.queries]
    for kind, q in zip(kinds, work.queries, strict=True):
        costs.setdefault(kind, _Costs(q.cost, case.noise, case.seed, str(kind)))
    queries = Queries(
        kin=[q.together or None for q in work.queries],
        windows=[q.slide_s > 0 for q in work.queries],
        kinds=kinds,
        costs=costs.__getitem__,
        passing=[np.empty(0, np.int64)] * len(work.queries),
    )

    def told(query: int) -> JobCost:
        return JobCost(*(x * case.wrong(query) for x in work.queries[query].cost))

    state = _State(work, case.workers, told)
    monitor = Monitor(state.network, sample_every_ns=NEVER)
    monitor.tell_of_results(policy)
    executor = _Executor(
        state, monitor, queries, deliveries,
        end_ns=round(end_s * NS_PER_S), bound_ns=RIDER_BOUND_NS,
    )  # fmt: skip
    with collector_paused():
        _Loop(state, policy, executor, case.seed).run()
    report = monitor.report(state, executor.now_ns, case.workers + 1, {**policy.told()})
    return _measured(case, report, deliveries, state)


def _measured(
    case: Case, report: RunReport, deliveries: Sequence[Delivery], state: SystemState
) -> Measured:
    from_ns = round(case.warm_s * NS_PER_S)
    until_ns = round((case.warm_s + case.measured_s) * NS_PER_S)
    weight = np.array(
        [state.class_priority[c] * w for c, w in zip(state.query_class, state.query_weight, strict=True)]
    )
    top = state.query_class_of_top() if hasattr(state, "query_class_of_top") else int(np.argmax(state.class_priority))
    important = np.array([c == top for c in state.query_class])
    came = np.zeros(len(weight))
    for d in deliveries:
        if from_ns <= d.at_ns < until_ns:
            came[list(d.boxes)] += d.item.tuples
    o = report.outputs
    mine = (o.arrival_ns >= from_ns) & (o.arrival_ns < until_ns)
    tuples = o.tuples[mine]
    worth = np.nan_to_num(report.utility[mine])
    gained = float((weight[o.query[mine]] * worth * tuples).sum())
    late = report.response_s[mine]
    urgent = important[o.query[mine]]
    order = np.argsort(late[urgent])
    counted = np.cumsum(tuples[urgent][order])
    place = int(np.searchsorted(counted, 0.95 * came[important].sum()))
    p95 = float(late[urgent][order][place]) if place < len(order) else float("inf")
    return Measured(
        utility=gained / float((weight * came).sum()),
        answered=float(tuples.sum()) / float(came.sum()),
        p95_s=p95,
        busy=report.spent.work_ns / (report.spent.wall_ns * case.workers),
        jobs=sum(state.calls),
        report=report,
    )
