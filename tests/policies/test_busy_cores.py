"""``planned`` with more workers than cores, while all cores are busy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from daybreak.policies.parts.planned.cell_planner import LEAST_STRAIN, STRAIN
from daybreak.policies.parts.planned.jobs_under_way import JobUnderWay, Overrun, WorkerTime
from daybreak.policies.planned import Planned, _Candidate


def test_on_busy_cores_costs_count_for_less_while_nothing_is_lost(three_workers: Planned) -> None:
    """What runs beside a job slows it down, so only trying shows whether more would fit."""
    planner = three_workers.planner
    for _ in range(100):
        planner.relax(1.0)
    assert planner.strain == 1.0, "cores are idle"
    before, bound = planner._share, planner.bound() or 0.0
    planner.usable.enough_jobs = 2
    for _ in range(100):
        planner.relax(1.0)
    assert planner.strain == LEAST_STRAIN
    assert planner._share == pytest.approx(before / LEAST_STRAIN)
    assert bound < (planner.bound() or 0.0), "costs may be too high there, too"
    assert planner.strain == LEAST_STRAIN
    planner._losing = True
    planner.strain = 0.9
    planner.relax(1.0)
    assert planner.strain == 0.9, "too much was lost since the last plan"
    planner.relax(100.0)
    planner.usable.enough_jobs = 3
    planner.relax(1.0)
    assert LEAST_STRAIN < planner.strain < 0.9, "not at once"
    for _ in range(100):
        planner.relax(1.0)
    assert planner.strain == 1.0
    planner._seen, planner.strain = 0.0, LEAST_STRAIN
    served = np.flatnonzero(three_workers._plan.periods.served).tolist()
    assert planner.started(served[0], 60.0, 10**12)
    assert planner.strain == pytest.approx(LEAST_STRAIN * STRAIN)


def test_a_job_beside_more_than_the_cores_counts_by_its_share_of_them(
    three_workers: Planned,
) -> None:
    planner = three_workers.planner
    cell = planner.plan.cells[0] if planner.plan else None
    assert cell is not None
    expected_ns = cell.cost.of(5_000, 0)
    for busy, others, corrected in (False, 2.0, 1.5), (True, 2.0, 1.0), (True, 1.0, 1.5):
        planner.usable.enough_jobs = 2 if busy else 3
        planner._took.clear()
        planner._jobs.clear()
        for _ in range(40):
            planner.took(cell, 5_000, 0, 1.5 * expected_ns, 0, others)
        assert planner.correction(cell) == pytest.approx(corrected)


def test_time_spent_on_jobs_is_elapsed_time_and_no_more_than_the_cores() -> None:
    spent = WorkerTime()
    for at_ns, jobs in (10, 1), (20, 3), (30, 2), (40, 0), (90, 0):
        spent.until(at_ns, jobs, cores=2)
    assert spent.elapsed_ns == 10 + 30 + 20
    assert spent.shared_ns == 10 + 20 + 20


def test_on_busy_cores_no_worker_is_left_to_what_is_worth_less(three_workers: Planned) -> None:
    """Only to what is worthier than a job under way: one more job makes each take longer."""
    policy = three_workers
    cells_of = policy._plan.cells
    order = sorted(range(len(cells_of)), key=policy._plan.density.__getitem__)
    order = [c for c in order if policy._period_ns[c] is not None]
    least, middle, most = (
        _Candidate(0, 0, c, cells_of[c].queries[0], 0) for c in (order[0], order[3], order[-1])
    )
    policy._overrun = Overrun()
    policy._out = {w: JobUnderWay(cells_of[order[3]], 0, 50, box=0, before=0) for w in (0, 1)}
    assert policy._uncrowded([least, most], [middle], 10) == ([least, most], [middle])
    policy.planner.usable.enough_jobs = 2
    assert policy._uncrowded([least, middle, most], [middle], 10) == ([most], [])
    assert policy._uncrowded([least, most], [middle], 151) == ([least, most], []), "stuck"
    policy._suspended.add(order[3])
    assert policy._uncrowded([least, most], [middle], 10) == ([least, most], []), "not served"
    del policy._out[1]
    assert policy._uncrowded([least], [middle], 10) == ([least], [middle]), "a core is idle"


def test_on_busy_cores_others_wait_until_a_served_cell_has_caught_up(
    three_workers: Planned,
) -> None:
    """It is faster without them. What they cost is still tried."""
    policy = three_workers
    plan = policy._plan
    served = [c for c, p in enumerate(policy._period_ns) if p is not None]
    behind = next(c for c in served if not plan.cells[c].slide_ns)
    late, other = (_Candidate(0, 0, c, plan.cells[c].queries[0], 0) for c in (behind, served[-1]))
    policy._tried_ns, policy._trial_s = 10**12, 1.0
    policy.planner.usable.enough_jobs = 2
    assert policy._serve_other([other], [late], 10, 0) is not None, "nobody is behind"
    policy._out.clear()
    flows = list(plan.flows)
    flows[behind] = flows[behind]._replace(backlog_s=4.0, backlog_load=4 / 30, in_time=0.8)
    policy._plan = replace(plan, flows=flows)
    assert policy._serve_other([other], [late], 10, 0) is None
    policy._tried_ns = policy._trial_s = 0
    assert policy._serve_other([other], [late], 10, 0) is not None, "a trial"
    policy._out.clear()
    policy._tried_ns, policy._trial_s = 10**12, 1.0
    policy.planner.usable.enough_jobs = 3
    assert policy._serve_other([other], [late], 10, 0) is not None, "cores are idle"
