"""What the planner of cells believes of their costs, from the jobs it has seen."""

import pytest

from daybreak.engine.state import JobState
from daybreak.policies.base import Cell, JobCost
from daybreak.policies.parts.planned.cell_planner import FIRST, MOST_OFF, WARM_JOBS, CellPlanner
from daybreak_experiments.planned.workloads import mixed


def test_jobs_that_spark_compiles_do_not_correct_costs() -> None:
    """They take up to fifty times as long, once; a cell must not be dropped for that."""
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(9e6, 1e3))
    for worker in range(3):
        planner.took(cell, 1_000, 0, 500e6, worker, 0.0)
    assert planner.correction(cell) == 1.0, "once on each worker"
    planner.took(cell, 1_000, 0, 30e6, 1, 0.0)
    assert planner.correction(cell) == 3.0
    learned = cell._replace(cost=JobCost(29e6, 1e3))
    assert planner.correction(learned) == 1.0, "not twice"


def test_long_jobs_that_stay_slow_correct_costs_before_they_have_done_harm() -> None:
    """A worker compiles a cell once; the next slow job there is what its jobs cost."""
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(3e6, 620.0))
    planner.took(cell, 1_600_000, 0, 1_950e6, 0, 0.0)
    planner.took(cell, 1_600_000, 0, 2_400e6, 1, 0.0)
    assert planner.correction(cell) == 1.0
    planner.took(cell, 1_600_000, 0, 1_750e6, 1, 0.0)
    assert planner.correction(cell) == pytest.approx(1.76, abs=0.01), "as the fastest of them"


def test_a_window_without_a_row_does_not_correct_costs() -> None:
    """It costs nothing, and the next one may take seconds."""
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(3e6, 2.6e3))
    planner.took(cell, 56_000, 0, 0.5e6, 0, 0.0)
    assert planner.correction(cell) == 1.0
    planner.took(cell, 1_000_000, 0, 3_000e6, 0, 0.0)
    assert planner.correction(cell) == 1.0, "compiled, perhaps"
    for _ in range(3):
        planner.took(cell, 1_000_000, 0, 5_206e6, 0, 0.0)
    assert planner.correction(cell) == pytest.approx(2.0)


def test_early_fast_jobs_do_not_undo_what_slow_ones_have_taught() -> None:
    """The first window of a join is short, and its rows meet few others: later ones cost more."""
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(3e6, 1.9e3))
    planner.took(cell, 285_000, 0, 350e6, 0, 0.0)
    assert planner.correction(cell) < 0.8
    planner.took(cell, 1_150_000, 0, 3_500e6, 0, 0.0)
    assert planner.correction(cell) == 1.0, "that one was compiled, or it is what they cost"
    planner.took(cell, 1_150_000, 0, 6_200e6, 0, 0.0)
    assert planner.correction(cell) > 2.0, "no compiler takes seconds"


def test_a_cell_whose_costs_are_hardly_known_runs_short_trains() -> None:
    """Its first jobs do not correct costs; a train of seconds must not be how they are found."""
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(9e6, 1e3))
    assert planner.caution(cell) == 1.0
    planner.took(cell, 1_000, 0, 40e6, 0, 0.0)
    assert planner.caution(cell) == 4.0
    planner.took(cell, 1_000, 0, 11e6, 0, 0.0)
    assert planner.caution(cell) == pytest.approx(1.1), "it had only been compiled"
    for _ in range(WARM_JOBS):
        planner.took(cell, 1_000, 0, 40e6, 0, 0.0)
    assert planner.caution(cell) == 1.0, "its costs are corrected now"


def test_a_cell_that_seems_dear_is_tried_on_longer_and_longer_trains() -> None:
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(9e6, 1e6))
    assert planner.trial(cell, 1e9) == 0
    planner.took(cell, 1_000, 0, 0.3e9, 0, 0.0)
    assert planner.trial(cell, 0.4e9) == 2_000
    planner.took(cell, 2_000, 0, 0.3e9, 0, 0.0)
    assert planner.trial(cell, 0.4e9) == 4_000
    planner.took(cell, 4_000, 0, 0.5e9, 0, 0.0)
    assert planner.trial(cell, 0.4e9) == 0, "it is dear"


def test_a_query_that_takes_a_number_over_inherits_no_costs() -> None:
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(9e6, 1e3))
    for _ in range(20):
        planner.took(cell, 50_000, 0, 300e6, 0, 0.0)
    assert planner.correction(cell) > 1
    planner.forget(0)
    assert planner.correction(cell) == 1.0
    assert planner.jobs(cell) == 0
    assert planner.known(cell) == FIRST


def test_costs_of_nothing_are_no_reason_to_fail() -> None:
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(0.0, 0.0))
    for worker in (0, 0, 1):
        planner.took(cell, 4, 0, 1.4e6, worker, 0.0)
    assert planner.correction(cell) == MOST_OFF
