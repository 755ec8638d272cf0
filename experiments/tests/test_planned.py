"""Workloads and cases of the experiments on ``planned``."""

import pickle

import numpy as np
import pytest

from daybreak.policies.registry import all_policies
from daybreak_experiments.planned.hard import cases
from daybreak_experiments.planned.loads import LOADS, PATIENT, PLANNED, One, measure, policies
from daybreak_experiments.planned.workloads import mixed, wildfire


def test_the_mixed_workload_has_19_cells_of_three_classes() -> None:
    workload = mixed()
    assert len(workload.cells) == 19
    assert {q.cls for q in workload.queries} == {"critical", "normal", "archive"}
    assert all(len({workload.queries[q].cost for q in cell}) == 1 for cell in workload.cells)


def test_load_1_keeps_the_workers_busy_with_tuples_alone() -> None:
    workload = wildfire()
    assert workload.rate_per_s(1.0, 2) * workload.per_tuple_s == pytest.approx(2.0)


def test_as_many_rows_come_in_windows_as_one_by_one() -> None:
    workload = mixed()
    deliveries = workload.deliveries(1000.0, 8.0, seed=1)
    came = np.zeros(len(workload.queries))
    for d in deliveries:
        came[list(d.boxes)] += d.item.tuples
    assert [d.at_ns for d in deliveries] == sorted(d.at_ns for d in deliveries)
    assert came[0] == pytest.approx(8000, rel=0.1)
    slides = [q.slide_s for q in workload.queries]
    assert came[slides.index(2.0)] == came[slides.index(4.0)] == came[0]


def test_every_policy_that_runs_on_spark_is_compared() -> None:
    assert {*policies()} == {PATIENT, *(n for n, p in all_policies().items() if p.on_spark)}


def test_bounds_fall_with_the_load() -> None:
    bounds = [mixed().bound(load, 2) for load in LOADS]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] == 1.0
    assert 0.9 < bounds[-1] < 0.96


@pytest.mark.slow
def test_one_case_is_measured() -> None:
    found = measure(One("wildfire", 0.4, PLANNED, 1))
    assert found.utility == pytest.approx(1.0, abs=0.01)
    assert found.promised == pytest.approx(found.utility, abs=0.02)
    assert found.p95_s < 0.5


def test_hard_cases_can_be_sent_to_other_processes() -> None:
    for case in cases().values():
        assert pickle.loads(pickle.dumps(case)).load == case.load
