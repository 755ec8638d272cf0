"""Serves each cell as often as its answers are worth, and gathers tuples meanwhile.

Where starting a job costs as much as thousands of tuples, who goes first matters less than how
often: a cell (queries that run as one job) that is served every T seconds pays for 1/T starts, and
its answers are T late. This policy plans a period for every cell, so that the utility of all
together is the largest that the workers can pay for (``parts.period_choice``, docs/planned.md), and
then follows the plan: a cell is due a period after its oldest tuple arrived, and a free worker takes
the cell that is due first. Cells that cost more than they are worth have no period. They run when
nothing else wants to, in trains that end before somebody is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S
from daybreak.policies.base import BasePolicy, Change, Decision, Plan, Step, View, Wait, Work
from daybreak.policies.parts.cell_planner import PLAIN, CellPlan, CellPlanner
from daybreak.policies.ready import ReadyQueries
from daybreak.policies.trains import oldest_ns

#: Arrivals are counted so often; there is a new plan so often at most, if something changed.
NOTE_NS = 100_000_000
SOON_NS = 200_000_000
#: A worker that is free takes a cell that has gathered for this share of its period.
EARLY = 0.5
#: Trains may be longer than planned by this, so that what arrives unevenly is not cut.
LONGER = 1.3
#: Share of the workers' time in which cells that are not served are tried at full length.
TRIALS = 0.02
#: While jobs are late, costs count for so much more each time; then it is forgotten slowly.
STRAIN, MOST_STRAIN, RELAX_PER_S = 1.05, 2.0, 0.98
#: A job is late if it is worth so much less than planned.
LOST = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedParams:
    """How full the workers are planned, and how often there is a new plan."""

    #: The share of the workers' time that is planned; the rest absorbs what varies.
    target: float = 0.93
    replan_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.target <= 1:
            raise ConfigError("policy", f"target {self.target}", "give a share above 0, up to 1")
        if not self.replan_s > 0:
            raise ConfigError("policy", f"replan_s {self.replan_s}", "give seconds above 0")


class _Out(NamedTuple):
    """A job under way."""

    cell: int
    begun_ns: int
    expected_ns: float


class _Candidate(NamedTuple):
    """A cell that holds tuples and is free."""

    due_ns: int
    cell: int
    query: int
    head_ns: int


class Planned(BasePolicy):
    """Plans periods, follows due times."""

    name = "planned"
    summary = "each cell as often as its answers are worth; jobs gather tuples until they are due"
    granularity = "query"
    Params: ClassVar[type[Any]] = PlannedParams
    params: PlannedParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.units = ReadyQueries(view)
        self.planner = CellPlanner(view, self.params.target)
        self._out: dict[int, _Out] = {}
        self._noted_ns: int | None = None
        self._replan_ns = 0
        self._planned_ns = 0
        self._stale = True
        self._trial_ns = 0
        #: By cell: when its last job began, and what it was expected to take.
        self._begun: dict[int, tuple[int, float]] = {}
        #: Cells that are left out until the next plan, because others are late.
        self._suspended: set[int] = set()
        self._jobs: dict[int, int] = {}

    # Events

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)
        out = self._out.pop(worker)
        if cost_ns and out.cell < len(self._plan.cells):
            self.planner.took(self._plan.cells[out.cell], out.expected_ns, now_ns - out.begun_ns)

    def on_boarding(self, box: int, now_ns: int) -> None:
        self.units.boarded(box)

    def on_change(self, change: Change, now_ns: int) -> None:
        self._stale = True

    def on_query_added(self, query: int, now_ns: int) -> None:
        self._reset()

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self._reset()

    def _reset(self) -> None:
        """Cells have other members now; rates and what jobs cost stay known."""
        self.units = ReadyQueries(self.view)
        self._stale = True
        self._begun.clear()

    # Decisions

    def decide(self, now_ns: int, worker: int) -> Decision:
        self._follow(now_ns)
        if not self.units.ready:
            return None
        self.work.invocations += 1
        self.work.scanned += len(self.units.ready)
        served, others = self._candidates(now_ns)
        self.work.compared += len(served) + len(others)
        wake_ns = None
        early: list[_Candidate] = []
        for c in served:
            at_ns = self._early_ns(c)
            if at_ns <= now_ns:
                early.append(c)
            else:
                wake_ns = at_ns if wake_ns is None else min(wake_ns, at_ns)
        if early:
            return self._serve(min(early), now_ns, worker)
        if others:
            plan = self._serve_other(others, served, now_ns, worker)
            if plan is not None:
                return plan
        return None if wake_ns is None else Wait(wake_ns)

    def _follow(self, now_ns: int) -> None:
        """Counts arrivals, and plans if it is time to."""
        if self._noted_ns is None or now_ns - self._noted_ns >= NOTE_NS:
            self._noted_ns = now_ns
            self.planner.note(now_ns)
        soon = self._stale and now_ns >= self._planned_ns + SOON_NS
        if soon or now_ns >= self._replan_ns or self.planner.plan is None:
            self._make_plan(now_ns)

    def _make_plan(self, now_ns: int) -> None:
        planner = self.planner
        passed_s = (now_ns - self._planned_ns) / NS_PER_S
        planner.strain = max(1.0, planner.strain * RELAX_PER_S ** min(passed_s, 10.0))
        changes = planner.changes
        plan = self._plan = planner.replan()
        if planner.changes > changes:
            self.schedule_updates_ns.append(now_ns)
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
        self._suspended.clear()
        self._planned_ns = now_ns
        self._stale = False
        self._replan_ns = now_ns + round(self.params.replan_s * NS_PER_S)

    def _candidates(self, now_ns: int) -> tuple[list[_Candidate], list[_Candidate]]:
        """Cells that wait: those that the plan serves, and the others."""
        view, units, cell_of = self.view, self.units.units, self._cell_of
        busy = {out.cell for out in self._out.values()}
        heads: dict[int, tuple[int, int]] = {}
        for q in self.units.ready:
            cell = cell_of.get(q)
            if cell is None or cell in busy:
                continue
            head = (oldest_ns(view, units[q]), q)
            if cell not in heads or head < heads[cell]:
                heads[cell] = head
        served, others = [], []
        for cell, (head_ns, q) in heads.items():
            period_ns = self._period_ns[cell]
            if period_ns is None or cell in self._suspended:
                others.append(_Candidate(head_ns, cell, q, head_ns))
            else:
                due_ns = max(head_ns + period_ns, self._next_turn_ns(cell))
                served.append(_Candidate(due_ns, cell, q, head_ns))
        return served, others

    def _next_turn_ns(self, cell: int) -> int:
        """When a cell that works off a backlog has waited for its share of the time."""
        if cell not in self._begun:
            return 0
        begun_ns, took_ns = self._begun[cell]
        load = float(self._plan.periods.load[cell])
        return begun_ns + round(took_ns / max(load, 1e-3))

    def _early_ns(self, c: _Candidate) -> int:
        period_ns = self._period_ns[c.cell] or 0
        return c.due_ns - round((1 - EARLY) * period_ns)

    def _serve(self, c: _Candidate, now_ns: int, worker: int) -> Plan:
        self._watch(c, now_ns)
        flow, periods = self._plan.flows[c.cell], self._plan.periods
        period_s = float(periods.period_s[c.cell])
        fits = (periods.longest_job_s - flow.fixed_s) / max(flow.per_tuple_s, 1e-12)
        limit = max(LONGER * flow.rate_per_s * period_s, fits, 1.0)
        return self._start(c, limit, now_ns, worker)

    def _start(self, c: _Candidate, limit: float, now_ns: int, worker: int) -> Plan:
        boxes, view = self.units.units[c.query], self.view
        most = max(1, round(min(limit, 1e15)))
        cell = self._plan.cells[c.cell]
        tuples = min(most, max(view.pending[b] for b in boxes))
        riders = sum(q in self.units.ready for q in cell.queries) - 1
        expected_ns = cell.cost.of(tuples, max(riders, 0))
        self._out[worker] = _Out(c.cell, now_ns, expected_ns)
        self._begun[c.cell] = now_ns, expected_ns
        plan = Plan(tuple(Step(b, most) for b in boxes), superbox=True)
        self.units.taken(plan)
        return plan

    def _serve_other(
        self, others: list[_Candidate], served: list[_Candidate], now_ns: int, worker: int
    ) -> Plan | None:
        """A cell that is not served by plan, in a train that ends before somebody is due."""
        plan = self._plan
        longest_s = plan.periods.longest_job_s
        room_s = longest_s
        if served:
            room_s = min(room_s, (min(served).due_ns - now_ns) / NS_PER_S)
        best = max(others, key=lambda c: (plan.density[c.cell], -c.cell))
        if now_ns >= self._trial_ns:
            # What it would cost at its proper length has to be tried again and again.
            best = min(others, key=lambda c: (self._begun.get(c.cell, (0, 0.0))[0], c.cell))
            self._trial_ns = now_ns + round(longest_s / (TRIALS * self.view.workers) * NS_PER_S)
            room_s = longest_s
        flow = plan.flows[best.cell]
        if served and room_s < 2 * flow.fixed_s and room_s < longest_s:
            return None
        limit = max((room_s - flow.fixed_s), flow.fixed_s) / max(flow.per_tuple_s, 1e-12)
        return self._start(best, limit, now_ns, worker)

    def _watch(self, c: _Candidate, now_ns: int) -> None:
        """If a job begins so late that it loses what was planned, the least worthy pays."""
        plan, periods = self._plan, self._plan.periods
        if now_ns <= c.due_ns + round(periods.longest_job_s * NS_PER_S):
            return
        flow = plan.flows[c.cell]
        if flow.backlog_load:
            return
        job_s = float(periods.job_s[c.cell])
        expected_ns = (float(periods.period_s[c.cell]) + job_s) * NS_PER_S
        actual_ns = now_ns - c.head_ns + job_s * NS_PER_S
        if all(g.worth(actual_ns) >= g.worth(expected_ns) - LOST for g, _ in flow.worth):
            return
        least = [
            cell for cell, period in enumerate(self._period_ns)
            if period is not None and cell not in self._suspended
        ]  # fmt: skip
        worst = min(least, key=plan.density.__getitem__)
        if len(least) > 1 and plan.density[worst] < plan.density[c.cell]:
            self._suspended.add(worst)
        self.planner.strain = min(self.planner.strain * STRAIN, MOST_STRAIN)
        self._stale = True

    # What it reports

    def told(self, start_ns: int = 0) -> Mapping[str, Any]:
        said = super().told(start_ns)
        if getattr(self, "planner", None) is None or self.planner.plan is None:
            return said
        return {**said, "plan": self._shown(self.planner.plan)}

    def _shown(self, plan: CellPlan) -> Mapping[str, Any]:
        names = [q.name for q in self.view.network.queries]
        periods = plan.periods
        return {
            "utility": plan.utility,
            "bound": self.planner.bound(),
            "cells": [
                {
                    "queries": [names[q] for q in cell.queries],
                    "period_s": float(periods.period_s[c]) if periods.served[c] else None,
                    "share": float(periods.load[c]) / self.view.workers,
                }
                for c, cell in enumerate(plan.cells)
            ],
        }


__all__ = ["PLAIN", "Planned", "PlannedParams"]
