"""Cells of ``planned`` that are behind: who makes way, for how long, and who never does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from daybreak.engine.state import JobState
from daybreak.model import QoSGraph
from daybreak.policies.parts.planned.cell_planner import CellPlanner
from daybreak.policies.parts.planned.period_choice import plan_periods
from daybreak.policies.parts.planned.period_tables import Flow
from daybreak.policies.planned import Planned
from daybreak_experiments.planned.workloads import mixed

SOON, LATER = QoSGraph.deadline(0.5, 1.5), QoSGraph.deadline(10.0, 30.0)


def flow(weight: float, graph: QoSGraph, backlog_s: float = 0.0) -> Flow:
    """Takes 0.4 of a worker; a backlog costs little if it is spread over a long time."""
    worth = ((graph, weight),)
    return Flow(1_000.0, 0.005, 0.0004, worth, backlog_s=backlog_s, backlog_load=backlog_s / 30)


def test_who_is_worth_least_makes_way_until_a_backlog_is_worked_off() -> None:
    """A cell that is behind answers everything late until it has caught up."""
    planner = CellPlanner(JobState(mixed().network, workers=2), 0.93)
    least = flow(1.0, LATER)
    clear = [flow(60.0, SOON), flow(30.0, SOON), least]
    wanted = plan_periods(clear, 2, 0.93)
    assert wanted.served.all()
    found, debt = planner._catching_up(clear, wanted)
    assert found is wanted
    assert debt == 0.0
    behind = [flow(60.0, SOON, 0.8), flow(30.0, SOON, 0.8), least]
    wanted = plan_periods(behind, 2, 0.93)
    assert wanted.served.all(), "it pays to catch up"
    found, debt = planner._catching_up(behind, wanted)
    assert found.served.tolist() == [True, True, False]
    assert debt == pytest.approx(0.8), "in two seconds"


def test_a_backlog_takes_no_more_time_than_one_job_at_a_time_can_use() -> None:
    """Nobody is left out for the sake of a debt that could not be paid sooner anyway."""
    planner = CellPlanner(JobState(mixed().network, workers=3), 0.93)
    behind = [flow(60.0, SOON, 8.0), flow(30.0, SOON), flow(1.0, LATER), flow(1.0, LATER)]
    wanted = plan_periods(behind, 3, 0.93)
    assert wanted.served.all()
    found, debt = planner._catching_up(behind, wanted)
    assert debt == pytest.approx(0.95 - 0.4), "what its own tuples leave of one worker"
    assert found.served.all()
    assert found.period_s[0] == wanted.period_s[0], "who pays stays"


def test_of_many_who_are_behind_the_worthiest_catch_up_first_and_the_others_are_left_out() -> None:
    planner = CellPlanner(JobState(mixed().network, workers=2), 0.93)
    behind = [flow(weight, SOON, 1.2) for weight in (60.0, 50.0, 40.0)]
    wanted = plan_periods(behind, 2, 0.93)
    assert wanted.served.all()
    found, debt = planner._catching_up(behind, wanted)
    assert found.served.tolist() == [True, True, False]
    assert np.isfinite(found.period_s).tolist() == [True, True, False]
    assert debt == pytest.approx(1.1)


def test_a_worthier_cell_never_makes_way_for_another_ones_backlog() -> None:
    """As measured: critical filters were dropped until normal ones had caught up."""
    planner = CellPlanner(JobState(mixed().network, workers=2), 0.93)
    flows = [flow(60.0, SOON), flow(50.0, SOON), flow(40.0, SOON), flow(1.0, SOON, 3.0)]
    wanted = plan_periods(flows, 2, 0.93)
    assert wanted.served.all()
    found, debt = planner._catching_up(flows, wanted)
    assert found.served.all()
    assert debt == pytest.approx(2 - wanted.load.sum() + 3.0 / 30), "all that the others leave"


def test_the_worthiest_cell_does_not_make_way_because_it_is_far_behind() -> None:
    """Its backlog makes it yield less for now; that is what it catches up for."""
    planner = CellPlanner(JobState(mixed().network, workers=2), 0.93)
    late = flow(60.0, SOON, 6.0)._replace(in_time=0.5)
    flows = [late, *(flow(30.0, SOON) for _ in range(3))]
    wanted = plan_periods(flows, 2, 0.93)
    assert wanted.served[0]
    assert wanted.value[0] / wanted.load[0] < wanted.value[1] / wanted.load[1]
    found, debt = planner._catching_up(flows, wanted)
    assert found.served[0]
    assert debt == pytest.approx(0.95 - 0.4), "all that one job at a time can use"
    assert found.load.sum() - 6.0 / 30 + debt <= 2


def test_costs_count_for_more_only_while_a_cell_could_be_given_up(three_workers: Planned) -> None:
    """A single cell that is late stays late whatever its costs count for; the others come back."""
    planner, plan = three_workers.planner, three_workers._plan
    served = np.flatnonzero(plan.periods.served).tolist()
    first = max(served, key=lambda c: plan.flows[c].weight)
    alone = np.full_like(plan.periods.period_s, np.inf)
    alone[first] = plan.periods.period_s[first]
    for period_s, strained in (alone, False), (plan.periods.period_s, True):
        planner.strain, planner._seen = 1.0, 0.0
        planner.plan = replace(plan, periods=replace(plan.periods, period_s=period_s))
        assert planner.started(first, 60.0, 10**12), "far too late"
        assert (planner.strain > 1.0) is strained
