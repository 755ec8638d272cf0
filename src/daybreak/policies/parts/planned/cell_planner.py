"""From what a policy is shown to a plan of periods: rates, costs as they turn out, hysteresis."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np

from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import Cell, View
from daybreak.policies.parts.planned.arrival_instants import ArrivalInstants
from daybreak.policies.parts.planned.period_bound import Offer, bound_utility
from daybreak.policies.parts.planned.period_choice import (
    LONGEST,
    Ints,
    Periods,
    deadlines_s,
    plan_periods,
)
from daybreak.policies.parts.planned.period_tables import MOST_WORK, Columns, Floats, Flow, tabulate
from daybreak.policies.parts.planned.usable_workers import UsableWorkers
from daybreak.policies.parts.rates.arrival_rates import ArrivalRates

#: Without a graph every second of delay costs the same, and after a minute nothing is left.
PLAIN = QoSGraph(((0.0, 1.0), (60.0, 0.0)))
#: Rates are counted over both; the larger one counts for the most important cells.
SHORT_S, LONG_S = 2.0, 10.0
#: Windows are counted over several slides, files over several arrivals, up to this long.
SEVERAL, LONGEST_S = 3, 60.0
#: What is rarer than one tuple in so long is planned as if it were not.
RAREST_S = 60.0
#: A backlog is to be worked off within so many deadlines, a second at least, at the least
#: important cells' expense, who keep at least this share of the workers' time ...
CATCH_UP, KEPT = 4.0, 0.3
#: ... and is worth it to a cell that then keeps up for so long. Until it is worked off, answers are
#: late: a cell that takes this long is worth half.
PATIENCE_S = 30.0
#: The first job of a cell takes up to so many tuples, and no later one so many times more than the
#: longest until then: costs are known where jobs have been, and not far beyond.
FIRST, GROWTH = 5_000, 4
#: How much of what jobs cost more or less than expected is forgotten with each job.
FORGET, REMEMBERED = 0.2, 16
#: That so many jobs of a cell take up to so much longer says nothing: Spark compiles them, once for
#: each worker. If a worker's second one does, and no other was as fast as expected, the fastest of
#: them shows what they cost.
WARM_JOBS, COMPILING_NS = 5, 2_000_000_000
#: Until so many jobs have ended, the most important cells that answer rows count as if they could
#: keep up: what the first ones take, while Spark compiles, is no reason to give up what matters
#: most.
LEARNING = 40
#: What is so many times faster than expected had nothing to do: a window without a row.
NO_WORK = 10.0
#: Relative error of what is expected of a cell without jobs; it falls as they are seen.
UNTRIED_ERROR = 0.5
#: Costs within this of what is expected are as expected; no cost is corrected by more than ...
EXPECTED, MOST_OFF = 0.15, 5.0
#: The old periods stay while they fit this share of the workers and yield all but this share.
FITS, LITTLE = 0.99, 0.01
#: While planned jobs lose so much more than planned, costs count for so much more each time; it
#: is forgotten slowly.
LOST, HALF_LIFE_S = 0.03, 1.0
STRAIN, MOST_STRAIN, RELAX_PER_S = 1.05, 2.0, 0.98
#: On busy cores costs depend on what runs beside, so only trying shows whether more would fit: as
#: long as nothing is lost, they count for less, by this share at least.
LEAST_STRAIN = 0.8
#: There is a new plan at once if work arrives faster or slower than planned by so much.
DRIFT = 0.25
#: How often another length of jobs is tried.
TRY_NS = 900_000_000
#: How much more time they may leave unused than new ones would.
UNUSED = 0.15


_NONE = np.empty(0)
#: The plan of a system in which nothing has arrived yet.
NOTHING = Periods(_NONE, _NONE, _NONE, _NONE, 0.0, _NONE, 1.0, _NONE)


@dataclass(frozen=True)
class CellPlan:
    """What the policy follows: by cell, in ns and tuples."""

    cells: Sequence[Cell]
    flows: Sequence[Flow]
    periods: Periods
    #: What one second of a worker yields there.
    density: list[float]
    #: Cells that make way until others have worked off their backlog.
    returning: frozenset[int]

    @property
    def utility(self) -> float | None:
        """What is promised, as a share of all that arrives; None without QoS graphs.

        Queries without a graph count in the plan, and not in utilities, here as in reports.
        """
        graded = [all(g is not PLAIN for g, _ in f.worth) for f in self.flows]
        weight = sum(f.weight for f, g in zip(self.flows, graded, strict=True) if g)
        return float(self.periods.value[graded].sum()) / weight if weight else None


class _Ended(NamedTuple):
    """The last job of a cell."""

    tuples: int
    took_ns: float
    #: What it took over what was expected.
    off: float


class _Counted(NamedTuple):
    """A job that shows what a cell's jobs take."""

    tuples: int
    riders: int
    took_ns: float
    worker: int
    #: It took longer than expected, perhaps to be compiled.
    cold: bool


class CellPlanner:
    """Plans again and again, from what the view shows then."""

    def __init__(self, view: View, target: float) -> None:
        self._view = view
        self._target = target
        self._rates = ArrivalRates(short_s=SHORT_S, long_s=LONGEST_S)
        self.instants = ArrivalInstants()
        self.usable = UsableWorkers(view.workers)
        self.plan: CellPlan | None = None
        #: By the first query of a cell: its last jobs.
        self._took: dict[int, deque[_Counted]] = {}
        self._jobs: dict[int, int] = {}
        self._last: dict[int, _Ended] = {}
        #: The most tuples of a job so far.
        self._longest: dict[int, int] = {}
        #: Above 1 while jobs that are due are late: then all costs count for so much more.
        self.strain = 1.0
        #: Plans that replaced another's periods.
        self.changes = 0
        #: Which length of jobs was tried last, and when.
        self._tried = self._tried_ns = 0
        #: By the first query of a cell: its period, where it has one.
        self._last_s: dict[int, float] = {}
        #: What planned jobs lost beyond what was planned, of what they could yield; it fades.
        self._lost = self._seen = 0.0
        self._lost_ns = 0
        #: Whether that was too much since the last plan.
        self._losing = False

    def note(self, now_ns: int, working_ns: float) -> None:
        """Counts what has arrived so far, and what workers have spent on jobs (``WorkerTime``)."""
        self._rates.note(now_ns, self._view.arrived)
        self.usable.note(now_ns, working_ns, self._view.processor)

    @property
    def _share(self) -> float:
        """The share of all workers' time that is planned."""
        return self._target / self.strain * (self.usable.count / self._view.workers)

    def took(
        self, cell: Cell, tuples: int, riders: int, took_ns: float, worker: int, others: float
    ) -> None:
        """A job of this cell ended on a worker, on so many tuples and with so many riders.

        ``others``: how many jobs ran meanwhile, on average.
        """
        key, expected_ns = cell.queries[0], cell.cost.of(tuples, riders)
        actual_ns = took_ns * self.usable.share(others)
        self._jobs[key] = self._jobs.get(key, 0) + 1
        self._last[key] = _Ended(tuples, actual_ns, actual_ns / max(expected_ns, 1.0))
        if actual_ns * NO_WORK < expected_ns:
            return
        self._longest[key] = max(self._longest.get(key, 0), tuples)
        cold = self._jobs[key] <= WARM_JOBS and 0 < actual_ns - expected_ns < COMPILING_NS
        ended = _Counted(tuples, riders, actual_ns, worker, cold)
        self._took.setdefault(key, deque(maxlen=REMEMBERED)).append(ended)

    def jobs(self, cell: Cell) -> int:
        """How many jobs of this cell have ended."""
        return self._jobs.get(cell.queries[0], 0)

    def has_shown(self, cell: Cell) -> bool:
        """Whether any job of this cell has shown what it costs."""
        return bool(self._took.get(cell.queries[0]))

    def caution(self, cell: Cell) -> float:
        """How much shorter its trains are than costs allow, while these are hardly known.

        What compiling took is no cost of later jobs, and nothing is dropped for it; but a long
        train must not be the way to find out.
        """
        if self.jobs(cell) > WARM_JOBS:
            return 1.0
        last = self._last.get(cell.queries[0])
        return 1.0 if last is None else min(max(last.off, 1.0), MOST_OFF)

    def known(self, cell: Cell) -> int:
        """The most tuples of a job whose cost can be foreseen."""
        return max(FIRST, GROWTH * self._longest.get(cell.queries[0], 0))

    def growth(self, cell: Cell, tuples: float) -> float:
        """How many times as many tuples as in the longest job of this cell so far."""
        longest = self._longest.get(cell.queries[0], 0)
        return tuples / longest if longest else 1.0

    def trial(self, cell: Cell, within_ns: float) -> int:
        """The tuples of a job that shows what longer trains cost: twice as many as last time.

        Costs that are believed too high make trains short, and short trains seem dear: only a
        longer one shows that they are not. 0 if the last job took longer than this already.
        """
        last = self._last.get(cell.queries[0])
        return 2 * last.tuples if last is not None and last.took_ns <= within_ns else 0

    def correction(self, cell: Cell) -> float:
        """How much dearer its jobs turn out than its costs let expect."""
        ratio = self._ratio(cell, cold=False)
        if any(job.cold for job in tuple(self._took.get(cell.queries[0], ()))):
            # Where slow ones do not count, the others must not make it look cheaper than it is.
            ratio = max(ratio, 1.0)
        return ratio if abs(ratio - 1) > EXPECTED else 1.0

    def _ratio(self, cell: Cell, *, cold: bool) -> float:
        """What its last jobs took over what is expected of them now.

        ``cold``: those that may have been compiled count as well.
        """
        # Against what is known now: a model that has learned since is not corrected twice.
        took = tuple(self._took.get(cell.queries[0], ()))
        jobs = [(j, max(cell.cost.of(j.tuples, j.riders), 1.0)) for j in took]
        actual = expected = 0.0
        for job, expected_ns in jobs:
            if cold or not job.cold:
                actual = (1 - FORGET) * actual + job.took_ns
                expected = (1 - FORGET) * expected + expected_ns
        if not expected and len(jobs) > len({job.worker for job, _ in jobs}):
            job, expected = min(jobs, key=lambda one: one[0].took_ns / one[1])
            actual = job.took_ns
        return min(max(actual / expected, 1 / MOST_OFF), MOST_OFF) if expected else 1.0

    def forget(self, query: int) -> None:
        """A query came or left: what its number stood for before is gone."""
        by_query: tuple[dict[int, Any], ...]
        by_query = self._took, self._jobs, self._last, self._longest, self._last_s
        for known in by_query:
            known.pop(query, None)

    def replan(self, now_ns: int) -> CellPlan:
        """The plan for what the view shows now; old periods stay if they are as good."""
        cells = self._active()
        flows = self._flows(cells)
        old = self._aligned(cells) if self.plan is not None and cells else None
        found, debt = NOTHING, 0.0
        returning: frozenset[int] = frozenset()
        if cells:
            wanted = self._best(flows, old, now_ns)
            found, debt = self._catching_up(flows, wanted)
            returning = frozenset(np.flatnonzero(wanted.served & ~found.served).tolist())
        if old is not None:
            kept = _evaluated(flows, old, found)
            if self._as_good(kept, found, debt):
                found = kept
                returning -= frozenset(np.flatnonzero(kept.served).tolist())
            else:
                self.changes += 1
        density = np.where(found.served, found.value / np.maximum(found.load, 1e-12), found.density)
        self.plan = CellPlan(cells, flows, found, density.tolist(), returning)
        both = zip(cells, found.period_s.tolist(), strict=True)
        self._last_s = {cell.queries[0]: t for cell, t in both if isfinite(t)}
        return self.plan

    def _catching_up(self, flows: Sequence[Flow], wanted: Periods) -> tuple[Periods, float]:
        """The plan while served cells work off their backlogs, and the load that this takes.

        Who is behind answers late until it has caught up, however often it is served. The time
        for that comes from the cells that yield less, which are left out meanwhile; those that
        yield more keep theirs.
        """
        workers = self._view.workers
        budget = self._share * workers / self._target  # this is what some time was left for
        each = np.where(wanted.served, [_owed(f) for f in flows], 0.0)
        if each.sum() < 0.01 * workers:
            return wanted, 0.0
        stays: list[int] = []
        pays = 0  # so many of them are the last that pays, and those that yield more
        left, debt = budget, 0.0
        for c in np.argsort(-wanted.density, kind="stable").tolist():
            takes, pay = float(wanted.load[c]), 0.0
            if each[c]:
                takes -= flows[c].backlog_load
                pay = max(0.0, min(float(each[c]), left - takes, (1 - KEPT) * budget - debt))
                if pays and 1.01 * pay < min(float(each[c]), flows[c].backlog_load):
                    continue  # not even as slowly as planned
                pays = len(stays) + 1
            elif not takes or takes > left:
                continue
            stays.append(c)
            left -= takes + pay
            debt += pay
        keeps = np.array(stays[:pays])
        left += sum(float(wanted.load[c]) for c in stays[pays:])
        # Who owes and does not pay is left out; so is, perhaps, who yields less.
        free = np.setdiff1d(np.flatnonzero(each == 0), keeps)
        fewer = None
        if len(free) and left > 0:
            some = [flows[c] for c in free.tolist()]
            guarded, wait_s = (wanted.guarded_s,), wanted.wait_s[free]
            fewer = plan_periods(some, workers, left / workers, guarded, wait_s)
        return _merged(wanted, keeps, fewer, free), debt

    def _active(self) -> list[Cell]:
        """Cells to which anything ever came; what is idle takes no part in the plan."""
        arrived, pending = self._view.arrived, self._view.pending
        boxes = self._view.network.query_boxes
        return [
            cell for cell in self._view.cells
            if any(arrived[b] or pending[b] for q in cell.queries for b in boxes[q])
        ]  # fmt: skip

    def _aligned(self, cells: Sequence[Cell]) -> Periods:
        """The old periods, by the cells that are there now; NaN where one is new."""
        assert self.plan is not None
        old = self.plan.periods
        place = {cell.queries[0]: c for c, cell in enumerate(self.plan.cells)}
        known = [place.get(cell.queries[0]) for cell in cells]
        period = [np.nan if c is None else float(old.period_s[c]) for c in known]
        wait = [0.0 if c is None else float(old.wait_s[c]) for c in known]
        return replace(old, period_s=np.array(period), wait_s=np.array(wait))

    def drifted(self) -> bool:
        """Whether so much more or less arrives than planned for that it cannot wait."""
        if self.plan is None:
            return False
        planned = now = 0.0
        for cell, flow in zip(self.plan.cells, self.plan.flows, strict=True):
            if not cell.slide_ns:
                planned += flow.work
                now += flow.each_s * self._counted(cell, SHORT_S)
        return abs(now - planned) > DRIFT * max(planned, 0.01)

    def started(self, cell: int, age_s: float, now_ns: int) -> bool:
        """A job begins whose oldest tuple has waited so long; whether too much is being lost.

        Then costs count for more, unless no other cell is served: there is none to be given up.
        """
        assert self.plan is not None
        flow, periods = self.plan.flows[cell], self.plan.periods
        if not flow.weight:
            return False
        expected = float(periods.value[cell]) / (flow.weight * flow.in_time)
        worth = sum(
            w * _mean_worth(g, age_s, float(periods.job_s[cell]), flow) for g, w in flow.worth
        )
        actual = worth / sum(w for _, w in flow.worth)
        keep = 0.5 ** ((now_ns - self._lost_ns) / (HALF_LIFE_S * NS_PER_S))
        weight = flow.weight * age_s
        self._lost_ns = now_ns
        self._lost = self._lost * keep + weight * max(expected - actual, 0.0)
        self._seen = self._seen * keep + weight
        if self._lost <= LOST * self._seen:
            return False
        self._lost, self._losing = 0.0, True
        if np.count_nonzero(periods.served) > 1:
            self.strain = min(self.strain * STRAIN, MOST_STRAIN)
        return True

    def relax(self, passed_s: float) -> None:
        """Strain is forgotten slowly; on busy cores more is tried while nothing is lost."""
        factor = RELAX_PER_S ** min(passed_s, 10.0)
        least = LEAST_STRAIN if self.usable.are_shared else 1.0
        if self._losing:
            least = max(least, min(self.strain, 1.0))
        self._losing = False
        if self.strain < least:
            self.strain = min(self.strain / factor, least)
        else:
            self.strain = max(self.strain * factor, least)

    def _best(self, flows: Sequence[Flow], old: Periods | None, now_ns: int) -> Periods:
        """With jobs as long as before, or another length: one is tried now and then."""
        workers, target = self._view.workers, self._share
        if old is None:
            return plan_periods(flows, workers, target)
        some = {old.guarded_s: None}
        if now_ns >= self._tried_ns + TRY_NS:
            every = deadlines_s(flows)
            self._tried, self._tried_ns = (self._tried + 1) % len(every), now_ns
            some[every[self._tried]] = None
        return plan_periods(flows, workers, target, list(some), old.wait_s)

    def _as_good(self, kept: Periods, found: Periods, debt: float) -> bool:
        load, workers = float(kept.load.sum()), self.usable.count
        fits = load <= max(FITS * workers / self.strain - debt, float(found.load.sum()))
        yields = float(kept.value.sum()) >= (1 - LITTLE) * float(found.value.sum())
        used = load >= float(found.load.sum()) - UNUSED * workers
        return bool(fits and yields and used)

    def bound(self) -> float | None:
        """The most that any schedule could yield at these rates and costs; None without graphs."""
        if self.plan is None:
            return None
        network, offers = self._view.network, []
        for cell, flow in zip(self.plan.cells, self.plan.flows, strict=True):
            graded = [q for q in cell.queries if network.queries[q].qos is not None]
            worth = tuple((network.queries[q].qos or PLAIN, self._weight(q)) for q in graded)
            # What is too small to be corrected may still be too high for a bound.
            cost = cell.cost.times(min(self.correction(cell), self._ratio(cell, cold=True)))
            if worth:
                offers.append(Offer(flow.rate_per_s, cost, worth, flow.slide_s, flow.together))
        # Where more is tried than costs allow, they may be too high.
        workers = self.usable.count / min(self.strain, 1.0)
        return bound_utility(offers, workers) if offers else None

    def _weight(self, query: int) -> float:
        view = self._view
        return view.class_priority[view.query_class[query]] * view.query_weight[query]

    def _flows(self, cells: Sequence[Cell]) -> list[Flow]:
        priority, cls = self._view.class_priority, self._view.query_class
        highest = [max(priority[cls[q]] for q in cell.queries) for cell in cells]
        top = max(highest, default=0.0)
        return [self._flow(cell, h >= top) for cell, h in zip(cells, highest, strict=True)]

    def _flow(self, cell: Cell, important: bool) -> Flow:
        view = self._view
        # As it turns out, and in seconds from here on.
        in_s = cell.cost.times(self.correction(cell) / NS_PER_S)
        riders = len(cell.queries) - 1
        worth: dict[QoSGraph, float] = {}
        for q in cell.queries:
            graph = view.network.queries[q].qos or PLAIN
            worth[graph] = worth.get(graph, 0.0) + self._weight(q)
        usual, rate = self._rates_of(cell, important)
        hoped = important and not cell.slide_ns and self.jobs(cell) < LEARNING
        flow = Flow(
            rate_per_s=rate,
            fixed_s=max(in_s.fixed_ns + riders * in_s.per_rider_ns, 1e-7),
            per_tuple_s=in_s.per_tuple_ns + riders * in_s.per_rider_tuple_ns,
            worth=tuple(worth.items()),
            slide_s=cell.slide_ns / NS_PER_S,
            fixed_error_s=in_s.fixed_error_ns,
            per_tuple_error_s=in_s.per_tuple_error_ns,
            error_correlation=in_s.error_correlation,
            most_unsure=UNTRIED_ERROR / sqrt(1 + self.jobs(cell)),
            together=self._together(cell),
            at_best=usual / rate * (1.0 if cell.slide_ns else self.usable.alone),
            most_work=MOST_WORK if hoped else inf,
        )
        return self._with_backlog(cell, flow)

    def _rates_of(self, cell: Cell, important: bool) -> tuple[float, float]:
        """Tuples per second, of all its inputs together: on average, and to plan for."""
        usual = max(self._counted(cell, LONG_S), 1 / RAREST_S)
        if not important or cell.slide_ns:
            return usual, usual
        return usual, max(usual, self._counted(cell, SHORT_S))

    def _counted(self, cell: Cell, least_s: float) -> float:
        return sum(self._counts(cell, least_s))

    def _counts(self, cell: Cell, least_s: float) -> list[float]:
        """By input, over so long or several arrivals; queries that run together read the same."""
        boxes = self.inputs(cell.queries[0])
        apart_s = max(cell.slide_ns, self.instants.gap_ns(boxes)) / NS_PER_S
        return [self._rates.per_s(b, max(least_s, SEVERAL * apart_s)) for b in boxes]

    def _together(self, cell: Cell) -> float:
        """How many tuples an arrival brings, over all its inputs."""
        rates, boxes = self._counts(cell, LONG_S), self.inputs(cell.queries[0])
        arrivals = sum(r / self.instants.together(b) for r, b in zip(rates, boxes, strict=True))
        return max(sum(rates) / arrivals, 1.0) if arrivals else 1.0

    def inputs(self, query: int) -> list[int]:
        """The boxes of a query that streams feed."""
        network = self._view.network
        return [
            b for b in network.query_boxes[query]
            if any(name in network.stream_index for name in network.boxes[b].inputs)
        ]  # fmt: skip

    def _with_backlog(self, cell: Cell, flow: Flow) -> Flow:
        """What waits beyond one period's tuples takes time of its own until it is worked off."""
        pending, boxes = self._view.pending, self._view.network.query_boxes
        waiting = max(sum(pending[b] for b in boxes[q]) for q in cell.queries)
        period_s = flow.slide_s + flow.end_s / 2
        last = self._last_s.get(cell.queries[0])
        if last is not None:
            period_s = 2 * last + 2 * flow.slide_s
        excess_s = (waiting - flow.rate_per_s * period_s) * flow.each_s
        if excess_s <= 0.02:
            return flow
        # Its jobs run one at a time.
        late_s = excess_s / _spare(flow)
        return flow._replace(
            backlog_s=excess_s,
            backlog_load=excess_s / PATIENCE_S,
            in_time=PATIENCE_S / (PATIENCE_S + late_s),
        )


def _owed(flow: Flow) -> float:
    """The load of working off a backlog in good time, by jobs that run one at a time."""
    within_s = max(CATCH_UP * deadlines_s([flow])[0], 1.0)
    return min(flow.backlog_s / within_s, _spare(flow))


def _spare(flow: Flow) -> float:
    """What its own tuples leave of the one worker that a cell can have."""
    return max(0.95 - flow.least_work, 0.05)


def _merged(wanted: Periods, keeps: Ints, fewer: Periods | None, free: Ints) -> Periods:
    """Some cells as wanted, some as in a plan of those alone; the others are not served."""

    def both(name: str, other: float = 0.0) -> Floats:
        figures = np.full(len(wanted.period_s), other)
        figures[keeps] = getattr(wanted, name)[keeps]
        if fewer is not None:
            figures[free] = getattr(fewer, name)
        return figures

    return replace(
        wanted, period_s=both("period_s", np.inf), load=both("load"), value=both("value"),
        job_s=both("job_s"),
    )  # fmt: skip


def _mean_worth(graph: QoSGraph, age_s: float, job_s: float, flow: Flow) -> float:
    """Of the tuples that a job answers, if the oldest has waited so long."""
    age_ns, job_ns = age_s * NS_PER_S, job_s * NS_PER_S
    if flow.slide_s or age_ns < 1:
        return graph.worth(age_ns + job_ns)
    begin, end = graph.area(np.array([job_ns, age_ns + job_ns])).tolist()
    return float(end - begin) / age_ns


def _evaluated(flows: Sequence[Flow], old: Periods, new: Periods) -> Periods:
    """What the old periods cost and yield now; new cells take theirs from the new plan."""
    period = np.where(np.isnan(old.period_s), new.period_s, old.period_s)
    wait = new.wait_s if new.guarded_s == old.guarded_s else old.wait_s
    table = tabulate(Columns.of(flows), LONGEST * old.guarded_s, wait, period)
    served = np.isfinite(period).astype(np.int64)
    rows = np.arange(len(flows))
    return Periods(
        period, table.load[rows, served], table.value[rows, served],
        table.job_s[rows, served], new.price, wait, old.guarded_s, new.density,
    )  # fmt: skip
