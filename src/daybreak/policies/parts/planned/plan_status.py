"""The plan as users see it: every cell with its period, its share of the workers, its due time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.policies.parts.planned.cell_planner import CellPlan


class CellStatus(NamedTuple):
    """How a cell stands in the plan."""

    queries: list[str]
    #: None if it is served from spare time alone.
    period_s: float | None
    #: Of all workers' time.
    share: float
    #: When its oldest tuple is due; None if nothing waits. An instant in ns, see ``document``.
    due_ns: int | None
    #: Why it is served from spare time alone; None if it is served by plan.
    dropped: str | None


class PlanStatus(NamedTuple):
    """A plan at the moment it was made; nothing in it changes afterwards."""

    #: The planned utility, and what no schedule of these cells can exceed; None without QoS graphs.
    utility: float | None
    bound: float | None
    #: The workers that the cores can keep busy: what is planned, and the bound, count these.
    usable_workers: float
    #: Plans so far that replaced other periods.
    changes: int
    cells: list[CellStatus]

    def document(self, start_ns: int) -> Mapping[str, Any]:
        """As JSON takes it; due times count from ``start_ns``."""
        cells = []
        for cell in self.cells:
            due_s = None if cell.due_ns is None else (cell.due_ns - start_ns) / NS_PER_S
            fields = cell._asdict()
            del fields["due_ns"]
            cells.append({**fields, "due_s": due_s})
        return {**self._asdict(), "cells": cells}


def cell_statuses(
    plan: CellPlan,
    period_ns: Sequence[int | None],
    suspended: Collection[int],
    names: Sequence[str],
    workers: int,
    head_ns: Callable[[Sequence[int]], int | None],
) -> list[CellStatus]:
    """``head_ns``: when the oldest tuple that waits for some queries arrived."""
    found = []
    for c, cell in enumerate(plan.cells):
        period, head = period_ns[c], head_ns(cell.queries)
        found.append(
            CellStatus(
                queries=[names[q] for q in cell.queries],
                period_s=None if period is None else float(plan.periods.period_s[c]),
                share=float(plan.periods.load[c]) / workers,
                due_ns=None if period is None or head is None else head + period,
                dropped=why_dropped(plan, c, period is not None, c in suspended),
            )
        )
    return found


def why_dropped(plan: CellPlan, c: int, served: bool, suspended: bool) -> str | None:
    """Why a cell is served from spare time alone; None if it is served by plan."""
    if served:
        return "left out until the next plan: others are late" if suspended else None
    if plan.flows[c].least_work >= 1:
        return "more arrives than its jobs, one at a time, can work off"
    if c in plan.returning:
        return "makes way until others have worked off their backlog"
    return "others yield more for the time that it takes"
