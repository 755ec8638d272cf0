"""Serves each cell as often as its answers are worth, and gathers tuples meanwhile.

Where starting a job costs as much as thousands of tuples, who goes first matters less than how
often: a cell (queries that run as one job) that is served every T seconds pays for 1/T starts, and
its answers are T late. This policy plans a period for every cell, so that the utility of all
together is the largest that the workers can pay for (``parts.period_choice``, docs/planned.md),
and then follows the plan: a cell is due a period after its oldest tuple arrived, and a free worker
takes the due cell that must begin first. Cells that cost more than they are worth have no period.
They run when nothing else wants to, in trains that end before another cell must begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple

from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy, Change, Decision, Plan, Step, View, Wait, Work
from daybreak.policies.parts.planned.cell_planner import CellPlanner
from daybreak.policies.parts.planned.jobs_under_way import JobUnderWay, Overrun, WorkerTime
from daybreak.policies.parts.planned.period_choice import LONGEST
from daybreak.policies.parts.planned.period_tables import Flow
from daybreak.policies.parts.planned.plan_reasons import (
    CellFigures,
    Turn,
    TurnTaken,
    WorkerHeld,
    waited,
    waiting,
)
from daybreak.policies.parts.planned.plan_status import PlanStatus, cell_statuses, why_dropped
from daybreak.policies.parts.queues.ready import ReadyQueries
from daybreak.policies.parts.queues.trains import TrainParams, oldest_ns
from daybreak.policies.reasons import Reason

#: Arrivals are counted so often; there is a new plan so often at most, if something changed.
NOTE_NS = 100_000_000
SOON_NS = 200_000_000
#: Nobody plans if nothing has waited for so long.
IDLE_NS = 5_000_000_000
#: A worker that is free takes a cell that has gathered for this share of its period.
EARLY = 0.5
#: Arrivals are apart if it takes this share of a period from one to the next.
APART = 0.1
#: A cost to start is unsure if its standard error is above this share of it.
UNSURE_START = 0.2
#: So many jobs of a cell differ in length for that reason.
VARIED = 40
#: Jobs that take so much of the longest that is planned show how far long ones overrun.
LONG = 0.25
#: Nobody knows how long a window takes that holds so many times the tuples of any job before.
UNFORESEEN = 2.0
#: A job that takes so many times longer than even long ones do may never end.
STUCK = 3.0
#: A job should end within this share of the deadline.
SAFELY = 0.9
#: Trains may be longer than planned by this, so that what arrives unevenly is not cut.
LONGER = 1.3
#: There is a new plan soon after a job that took so many times longer, or shorter, than expected.
FAR_OFF = 2.0
#: Share of the workers' time in which cells that are not served are tried at full length; and while
#: nothing but a prior is known of what they cost.
TRIALS, FIRST_TRIALS = 0.02, 0.25
#: The room of a job that blocks nobody.
ANY_LENGTH = 2**62
#: How often the bound is computed, for those who watch.
BOUND_NS = 5_000_000_000
#: Ended jobs that an explanation can name: a wait behind more of them names the last.
ENDED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedParams(TrainParams):
    """How full the workers are planned, how often there is a new plan, how long trains may be."""

    #: The share of the workers' time that is planned; the rest absorbs what varies.
    target: float = 0.93
    #: How often there is a new plan at least, in seconds.
    replan_s: float = 1.0

    def __post_init__(self) -> None:
        TrainParams.__post_init__(self)
        if not 0 < self.target <= 1:
            raise ConfigError("policy", f"target {self.target}", "give a share above 0, up to 1")
        if not self.replan_s > 0:
            raise ConfigError("policy", f"replan_s {self.replan_s}", "give seconds above 0")


class _Candidate(NamedTuple):
    """A cell that holds tuples and is free."""

    #: The latest instant to begin without losing more than planned.
    latest_ns: int
    due_ns: int
    cell: int
    query: int
    head_ns: int


class Planned(BasePolicy):
    """Plans periods, follows due times."""

    name = "planned"
    summary = "each cell as often as its answers are worth; jobs gather tuples until they are due"
    granularity = "query"
    sizes_trains = True
    spare_workers = 1
    Params: ClassVar[type[Any]] = PlannedParams
    params: PlannedParams
    _status: PlanStatus | None = None

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.units = ReadyQueries(view)
        self.planner = CellPlanner(view, self.params.target)
        self._overrun = Overrun()
        self._out: dict[int, JobUnderWay] = {}
        self._ended: deque[tuple[int, JobUnderWay, int]] = deque(maxlen=ENDED)
        self._noted_ns: int | None = None
        self._ready_ns = 0
        self._spent = WorkerTime()
        self._replan_ns = 0
        self._planned_ns = 0
        self._stale = True
        #: When the last trial began, and how long it was to take; or took, if that was far less.
        self._tried_ns, self._trial_s = 0, 0.0
        #: By the first query of a cell: when its last job began.
        self._begun: dict[int, int] = {}
        self._newest: JobUnderWay | None = None
        #: The cell of each query to which anything ever came.
        self._cell_of: dict[int, int] = {}
        #: Cells that are left out until the next plan, because others are late.
        self._suspended: set[int] = set()
        self._bound: float | None = None
        self._bound_ns = 0

    # Events

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        self.planner.instants.arrived(box, count, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)
        out = self._out.pop(worker)
        self._ended.append((worker, out, now_ns))
        self._count_time(now_ns)
        taken = self.view.tuples_in[out.box] - out.before
        if cost_ns and taken > 0:
            expected_ns = out.cell.cost.of(taken, out.riders)
            took_ns = now_ns - out.begun_ns
            others = max(0.0, (self._spent.elapsed_ns - out.spent_ns) / max(took_ns, 1) - 1)
            self.planner.took(out.cell, taken, out.riders, took_ns, worker, others)
            if out.trial and took_ns * FAR_OFF < out.expected_ns:
                self._trial_s = took_ns / NS_PER_S  # cells are dropped wrongly: try more of them
            if took_ns > LONG * self._longest_s * NS_PER_S:
                self._overrun.ended(took_ns / max(out.expected_ns, 1))
            self._stale |= not expected_ns / FAR_OFF < took_ns < expected_ns * FAR_OFF

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.units.withdrawn(box)
        if self._newest is not None and self._newest.begun_ns == now_ns:
            self._newest.riders += 1

    def on_change(self, change: Change, now_ns: int) -> None:
        self._stale = True

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.units.added(query)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.units.removed(query)
        self.planner.forget(query)
        self._begun.pop(query, None)

    # Decisions

    def decide(self, now_ns: int, worker: int) -> Decision:
        self._follow(now_ns)
        if not self.units.ready:
            return None
        self.work.invocations += 1
        self.work.scanned += len(self.units.ready)
        served, others = map(self._foreseen, self._uncrowded(*self._candidates(now_ns), now_ns))
        self.work.compared += len(served) + len(others)
        plan = self._due(served, now_ns, worker)
        back = [c for c in others if c.cell in self._plan.returning]
        if plan is None and back:
            plan = self._serve_other(back, served, now_ns, worker)
        if plan is None:
            plan = self._early(served, now_ns, worker)
        if plan is None and others:
            plan = self._serve_other(others, served, now_ns, worker)
        if plan is not None:
            return plan
        ahead = [at for c in served for at in (self._early_ns(c), c.due_ns, self._lost_ns(c))]
        if others:
            ahead.append(self._trial(others)[1])
        return Wait(min((at for at in ahead if at > now_ns), default=now_ns + NOTE_NS))

    def _due(self, served: list[_Candidate], now_ns: int, worker: int) -> Plan | None:
        """The cell that must begin first, of those that are due and do not block a worthier one."""
        guarded = list(served)
        for c in sorted(c for c in served if c.due_ns <= now_ns):
            room_ns = self._room_ns(c, guarded, now_ns, worker)
            least_ns = self._least_job_ns(c.cell)
            forced = least_ns > room_ns
            if not forced or self._may_force(c, guarded, now_ns):
                plan = self._serve(c, max(room_ns, least_ns), now_ns, worker)
                self._out[worker].forced = forced
                self._note_turn(c, "forced" if forced else "due", worker)
                return plan
            guarded.remove(c)  # nobody makes way for what cannot begin now
        return None

    def _may_force(self, c: _Candidate, guarded: list[_Candidate], now_ns: int) -> bool:
        """Whether a cell has made way for long enough, and a worker is left for worthier ones."""
        if now_ns <= self._lost_ns(c):
            return False
        density = self._plan.density
        late = any(o.latest_ns < now_ns and density[o.cell] > density[c.cell] for o in guarded)
        out, overrun = self._out.values(), self._overrun.factor
        if late or any(o.unforeseen or o.overdue(now_ns, overrun) for o in out):
            return False
        if self.view.workers > 2 and all(o.long for o in out):
            return False
        return sum(o.forced for o in out) < max(1, self.view.workers - 1)

    def _early(self, served: list[_Candidate], now_ns: int, worker: int) -> Plan | None:
        """A cell that has gathered for some of its period, if a worker has nothing else to do."""
        for c in sorted(c for c in served if self._early_ns(c) <= now_ns < c.due_ns):
            room_ns = self._room_ns(c, served, now_ns, worker)
            if self._least_job_ns(c.cell) <= room_ns:
                plan = self._serve(c, room_ns, now_ns, worker)
                self._note_turn(c, "early", worker)
                return plan
        return None

    def _lost_ns(self, c: _Candidate) -> int:
        """When a cell that is due has made way for others for as long as its deadline."""
        return c.latest_ns + max(round(_deadline_ns(self._plan.flows[c.cell])), NS_PER_S)

    def _room_ns(self, c: _Candidate, served: list[_Candidate], now_ns: int, worker: int) -> int:
        """How long a job of this cell may be expected to take, before a worthier one must begin.

        As long as it likes, if another worker is free by then. Where there are more than two, when
        a long job ends is not relied on: one worker has none.
        """
        density = self._plan.density
        # Who is not served by plan makes way for all who are.
        mine = density[c.cell] if self._is_served(c.cell) else -1.0
        worthier = [o.latest_ns for o in served if density[o.cell] > mine]
        latest_ns = min([now_ns + self._calm_ns[c.cell], *worthier])
        overrun = self._overrun.factor
        workers = self.view.workers
        others = [o for w, o in self._out.items() if w != worker]
        ends = [o.end_ns(now_ns, overrun) for o in others if workers < 3 or not o.long]
        if len(others) < workers - 1 or any(end_ns <= latest_ns for end_ns in ends):
            return ANY_LENGTH
        return round(max(latest_ns - now_ns, 0) / overrun)

    def _least_job_ns(self, cell: int) -> int:
        """The shortest job of use: twice its start, or one window."""
        flow = self._plan.flows[cell]
        window_s = flow.work * flow.slide_s
        return round((flow.fixed_s + (window_s or flow.fixed_s)) * NS_PER_S)

    def _follow(self, now_ns: int) -> None:
        """Counts arrivals, and plans if it is time to, and something waits or did lately."""
        if self.units.ready:
            self._ready_ns = now_ns
        idle = now_ns - self._ready_ns > IDLE_NS
        if self._noted_ns is None or now_ns - self._noted_ns >= NOTE_NS:
            self._noted_ns = now_ns
            self._count_time(now_ns)
            self.planner.note(now_ns, self._spent.shared_ns)
            self._stale = self._stale or (not idle and self.planner.drifted())
        if idle:
            return
        soon = self._stale and now_ns >= self._planned_ns + SOON_NS
        new = not self.units.ready <= self._cell_of.keys()
        if soon or new or now_ns >= self._replan_ns:
            self._make_plan(now_ns)

    def _count_time(self, now_ns: int) -> None:
        """Until now as many jobs were under way as last time, from now on as many as there are."""
        use = self.view.processor
        cores = inf if use is None else max(use.cores, 1)
        self._spent.until(now_ns, len(self._out), cores)

    def _make_plan(self, now_ns: int) -> None:
        planner = self.planner
        planner.relax((now_ns - self._planned_ns) / NS_PER_S)
        plan = self._plan = planner.replan(now_ns)
        self.work.evaluated += len(plan.cells)
        self._cell_of = {q: c for c, cell in enumerate(plan.cells) for q in cell.queries}
        periods = plan.periods
        slides = [cell.slide_ns for cell in plan.cells]
        self._period_ns = [
            round(t * NS_PER_S) - slide if served else None
            for t, slide, served in zip(
                periods.period_s.tolist(), slides, periods.served.tolist(), strict=True
            )
        ]
        self._bears_ns = [
            round(SAFELY * _deadline_ns(f) - job_s * NS_PER_S)
            for f, job_s in zip(plan.flows, periods.job_s.tolist(), strict=True)
        ]
        #: A train that works off a backlog makes no longer jobs than the plan may have anyway.
        self._longest_s = LONGEST * periods.guarded_s
        self._calm_ns = self._calm()
        self._suspended.clear()
        self._planned_ns = now_ns
        self._stale = False
        self._replan_ns = now_ns + round(self.params.replan_s * NS_PER_S)
        self._publish(now_ns)

    def _calm(self) -> list[int]:
        """By cell: how long it takes until a worthier one that holds nothing yet must begin."""
        plan, calm_ns = self._plan, 2**62
        found = [calm_ns] * len(plan.cells)
        for c in sorted(range(len(plan.cells)), key=plan.density.__getitem__, reverse=True):
            period_ns = self._period_ns[c]
            found[c] = calm_ns
            if period_ns is not None and not plan.cells[c].slide_ns:
                calm_ns = min(calm_ns, max(period_ns, self._bears_ns[c]))
        return [
            n if p is not None else calm_ns for n, p in zip(found, self._period_ns, strict=True)
        ]

    def _candidates(self, now_ns: int) -> tuple[list[_Candidate], list[_Candidate]]:
        """Cells that wait: those that the plan serves, and the others."""
        view, units, cell_of = self.view, self.units.units, self._cell_of
        busy = {cell_of.get(out.cell.queries[0]) for out in self._out.values()}
        heads: dict[int, tuple[int, int]] = {}
        for q in self.units.ready:
            cell = cell_of[q]
            if cell in busy:
                continue
            head = (oldest_ns(view, units[q]), q)
            if cell not in heads or head < heads[cell]:
                heads[cell] = head
        served, others = [], []
        for cell, (head_ns, q) in heads.items():
            period_ns = self._period_ns[cell]
            if period_ns is None or cell in self._suspended:
                others.append(_Candidate(head_ns, head_ns, cell, q, head_ns))
            else:
                due_ns = head_ns + period_ns
                latest_ns = max(due_ns, head_ns + self._bears_ns[cell])
                served.append(_Candidate(latest_ns, due_ns, cell, q, head_ns))
        return served, others

    def _uncrowded(
        self, served: list[_Candidate], others: list[_Candidate], now_ns: int
    ) -> tuple[list[_Candidate], list[_Candidate]]:
        """What may begin: all, unless enough jobs to keep all cores busy are under way.

        No time is spare then, and one more job makes each of them take longer. Only cells that are
        worthier than one of those need not wait for its end; nobody waits for one that is stuck.
        """
        if len(self._out) < self.planner.usable.enough_jobs:
            return served, others
        least = min(self._density_of(out, now_ns) for out in self._out.values())
        return [c for c in served if self._plan.density[c.cell] > least], []

    def _is_pressed(self, served: list[_Candidate]) -> bool:
        """Whether all cores are busy, and a served cell that answers rows has a backlog.

        The more jobs run then, the longer each of them takes: those that are not served by plan
        make way until it has caught up.
        """
        if not self.planner.usable.are_shared:
            return False
        under_way = (self._cell_of.get(out.cell.queries[0]) for out in self._out.values())
        cells = {c.cell for c in served} | {c for c in under_way if c is not None}
        return any(self._is_served(c) and self._plan.flows[c].is_pressed for c in cells)

    def _density_of(self, out: JobUnderWay, now_ns: int) -> float:
        """Of a job under way; below all others if its cell is not served, or is gone."""
        cell = self._cell_of.get(out.cell.queries[0])
        stuck = out.overdue(now_ns, STUCK * self._overrun.factor)
        if stuck or cell is None or not self._is_served(cell):
            return -1.0
        return self._plan.density[cell]

    def _is_served(self, cell: int) -> bool:
        return self._period_ns[cell] is not None and cell not in self._suspended

    def _foreseen(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """All but long jobs of unknown length, if there are as many under way as may be."""
        unforeseen = sum(out.unforeseen for out in self._out.values())
        if unforeseen < max(1, self.view.workers - 2):
            return candidates
        return [c for c in candidates if not self._is_unforeseen(c.cell)]

    def _is_unforeseen(self, cell: int) -> bool:
        flow, long_ns = self._plan.flows[cell], LONG * self._longest_s * NS_PER_S
        window = flow.rate_per_s * flow.slide_s
        new = self.planner.growth(self._plan.cells[cell], window) > UNFORESEEN
        return new and self._least_job_ns(cell) > long_ns

    def _early_ns(self, c: _Candidate) -> int:
        """When it may begin if a worker has nothing else to do.

        Jobs of one length do not show what starting them costs. While that is unsure, every other
        one of the first gathers for the whole period.
        """
        cell, period_ns = self._plan.cells[c.cell], self._period_ns[c.cell] or 0
        early_ns = c.due_ns - round((1 - EARLY) * period_ns)
        if not cell.slide_ns:
            more_ns = self.planner.instants.next_ns(self.units.units[c.query], APART * period_ns)
            if more_ns is not None and more_ns > early_ns:  # nothing would be gathered
                return c.head_ns
        unsure = cell.cost.fixed_error_ns > UNSURE_START * cell.cost.fixed_ns
        jobs = self.planner.jobs(cell)
        return c.due_ns if unsure and jobs < VARIED and jobs % 2 else early_ns

    def _serve(self, c: _Candidate, room_ns: int, now_ns: int, worker: int) -> Plan:
        self._watch(c, now_ns)
        planned_s = float(self._plan.periods.job_s[c.cell])
        return self._start(c, max(LONGER * planned_s, self._longest_s), room_ns, now_ns, worker)

    def _start(
        self, c: _Candidate, longest_s: float, room_ns: float, now_ns: int, worker: int,
        least: int = 1,
    ) -> Plan:  # fmt: skip
        """A job that takes up to so long, as far as tuples can be counted out; or so many."""
        boxes, flow = self.units.units[c.query], self._plan.flows[c.cell]
        longest_s = max(min(longest_s, room_ns / NS_PER_S), 2 * flow.fixed_s)
        cell = self._plan.cells[c.cell]
        each_s = max(flow.per_tuple_s, 1e-12) * self.planner.caution(cell)
        most = max(1, least, int((longest_s - flow.fixed_s) / each_s))
        most = min(most, self.params.train or most, self.planner.known(cell))
        tuples = min(most, max(self.view.pending[b] for b in boxes))
        if flow.slide_s:
            # Windows are taken as a whole, the one that the limit cuts included.
            window = max(1, round(flow.rate_per_s * flow.slide_s))
            whole = max(1, most // window)
            tuples, most = max(min(tuples, whole * window), window), whole * window - window // 2
        expected_ns = round((flow.fixed_s + flow.per_tuple_s * tuples) * NS_PER_S)
        out = JobUnderWay(cell, now_ns, expected_ns, boxes[0], self.view.tuples_in[boxes[0]])
        out.long = expected_ns > LONG * self._longest_s * NS_PER_S
        out.unforeseen = self._is_unforeseen(c.cell)
        self._newest = self._out[worker] = out
        self._count_time(now_ns)
        out.spent_ns = self._spent.elapsed_ns
        self._begun[cell.queries[0]] = now_ns
        plan = Plan(tuple(Step(b, most) for b in boxes), superbox=True)
        self.units.taken(plan)
        return plan

    def _serve_other(
        self, others: list[_Candidate], served: list[_Candidate], now_ns: int, worker: int
    ) -> Plan | None:
        """A cell that is not served by plan, in a train that ends before somebody is due."""
        plan = self._plan
        trial, trial_ns = self._trial(others)
        # On a worker that others can spare.
        spare = self.view.workers == 1 or self._room_ns(trial, served, now_ns, worker) == ANY_LENGTH
        if spare and trial_ns <= now_ns:
            return self._try(trial, now_ns, worker)
        if self._is_pressed(served):
            return None
        for c in sorted(others, key=lambda c: (-plan.density[c.cell], c)):
            room_ns = self._room_ns(c, served, now_ns, worker)
            if self._least_job_ns(c.cell) <= room_ns:
                started = self._start(c, self._longest_s, room_ns, now_ns, worker)
                self._note_turn(c, "spare", worker)
                return started
        return None

    def _trial(self, others: list[_Candidate]) -> tuple[_Candidate, int]:
        """The cell that was tried longest ago, and when it may be tried again.

        What it would cost at its proper length has to be tried again and again.
        """
        cells, begun = self._plan.cells, self._begun
        best = min(others, key=lambda c: (begun.get(cells[c.cell].queries[0], 0), c))
        share = TRIALS if self.planner.has_shown(cells[best.cell]) else FIRST_TRIALS
        between_s = self._trial_s / (share * self.view.workers)
        return best, self._tried_ns + round(between_s * NS_PER_S)

    def _try(self, c: _Candidate, now_ns: int, worker: int) -> Plan:
        took_s = max(self._longest_s, self._least_job_ns(c.cell) / NS_PER_S)
        self._tried_ns, self._trial_s = now_ns, took_s
        least = self.planner.trial(self._plan.cells[c.cell], took_s * NS_PER_S)
        plan = self._start(c, took_s, took_s * NS_PER_S, now_ns, worker, least)
        self._out[worker].trial = True
        self._note_turn(c, "trial", worker)
        return plan

    def _note_turn(self, c: _Candidate, turn: Turn, worker: int) -> None:
        out = self._out[worker]
        out.taken = TurnTaken(turn, c.head_ns, c.due_ns, out.begun_ns)

    def _watch(self, c: _Candidate, now_ns: int) -> None:
        """If planned jobs lose more than planned, the least worthy cell pays, at once."""
        plan = self._plan
        if plan.flows[c.cell].backlog_load:
            return  # that it is late is planned
        if not self.planner.started(c.cell, (now_ns - c.head_ns) / NS_PER_S, now_ns):
            return
        left = [i for i, p in enumerate(self._period_ns) if p is not None]
        worst = min(left, key=lambda i: (i in self._suspended, plan.density[i]))
        if plan.density[worst] < plan.density[c.cell]:
            self._suspended.add(worst)
        self._stale = True

    # What it reports

    def explain(self, query: int, now_ns: int) -> Reason | None:
        """The period and what its oldest tuple waits for beyond it, or waited for."""
        cell = self._cell_of.get(query)
        if cell is None or cell >= len(self._plan.cells):
            return None
        figures = self._figures(cell)
        for out in self._out.values():
            if query in out.cell.queries and out.taken is not None:
                return waited(figures, out.taken, self._holders(out.taken.due_ns, out))
        if not any(self.view.pending[b] for b in self.units.units[query]):
            return Reason("planned", "nothing waits", figures.figures)
        head_ns = oldest_ns(self.view, self.units.units[query])
        due_ns = head_ns + (figures.period_ns or 0)
        crowded = len(self._out) >= self.planner.usable.enough_jobs
        held = self._holders(now_ns)
        return waiting(figures, now_ns, head_ns, due_ns, held, crowded=crowded)

    def _figures(self, cell: int) -> CellFigures:
        plan, status = self._plan, self._status
        served = self._is_served(cell)
        return CellFigures(
            queries=len(plan.cells[cell].queries),
            period_ns=self._period_ns[cell] if served else None,
            dropped=why_dropped(plan, cell, self._period_ns[cell] is not None,
                                cell in self._suspended),
            deadline_ns=_deadline_ns(plan.flows[cell]),
            job_s=float(plan.periods.job_s[cell]),
            share=float(plan.periods.load[cell]) / self.view.workers,
            cells=len(plan.cells),
            others=sum(len(c.queries) for c in plan.cells),
            workers=self.view.workers,
            utility=None if status is None else status.utility,
            bound=None if status is None else status.bound,
        )  # fmt: skip

    def _holders(self, since_ns: int, but: JobUnderWay | None = None) -> list[WorkerHeld]:
        """Jobs that had a worker in this time."""
        queries = self.view.network.queries
        ended: list[tuple[int, JobUnderWay, int | None]] = [
            one for one in self._ended if one[2] > since_ns
        ]
        running = [(w, o, None) for w, o in self._out.items() if o is not but]
        return [
            WorkerHeld(
                w, queries[o.cell.queries[0]].name, o.riders, o.begun_ns, ended_ns, o.expected_ns
            )
            for w, o, ended_ns in (*ended, *running)
        ]

    def told(self, start_ns: int = 0) -> Mapping[str, Any]:
        status = self._status
        plan = {} if status is None else {"plan": status.document(start_ns)}
        return {**super().told(start_ns), **plan}

    def _publish(self, now_ns: int) -> None:
        """Other threads read the status, never the plan that is being followed."""
        # No plan is above the bound: one that is was made with other costs.
        above = (self._plan.utility or 0.0) > (self._bound or 1.0)
        if above or now_ns >= self._bound_ns:
            self._bound, self._bound_ns = self.planner.bound(), now_ns + BOUND_NS
        names = [query.name for query in self.view.network.queries]
        cells = cell_statuses(
            self._plan, self._period_ns, self._suspended, names, self.view.workers, self._head_ns
        )
        self._status = PlanStatus(
            self._plan.utility, self._bound, self.planner.usable.count, self.planner.changes, cells
        )

    def _head_ns(self, queries: Sequence[int]) -> int | None:
        view, units = self.view, self.units.units
        waiting = [q for q in queries if any(view.pending[b] for b in units[q])]
        return min((oldest_ns(view, units[q]) for q in waiting), default=None)


def _deadline_ns(flow: Flow) -> float:
    """The latency from which a cell's answers lose worth; 0 where they do at once."""
    return min((graph.deadline_ns or 0 for graph, _ in flow.worth), default=0)
