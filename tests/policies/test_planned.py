"""The policy that plans periods: in the engine that runs queries on Spark, in virtual time."""

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from daybreak.engine.state import JobState
from daybreak.model import ConfigError, QoSGraph, QueryClass
from daybreak.policies.base import (
    BasePolicy,
    Cell,
    Decision,
    JobCost,
    Plan,
    ProcessorUse,
    Step,
    Wait,
    Work,
)
from daybreak.policies.parts.planned.arrival_instants import ArrivalInstants
from daybreak.policies.parts.planned.cell_planner import FIRST, GROWTH, CellPlanner
from daybreak.policies.parts.planned.jobs_under_way import JobUnderWay, Overrun
from daybreak.policies.planned import ANY_LENGTH, Planned, PlannedParams, _Candidate
from daybreak.policies.registry import all_policies, make_policy_with
from daybreak_experiments.planned.machine import Case, Measured, exact, run
from daybreak_experiments.planned.workloads import (
    Declared,
    Workload,
    classes,
    cost,
    mixed,
    wildfire,
)

ONE = (QueryClass(name="only", priority=1, qos=QoSGraph.deadline(2.0, 4.0)),)
SHORT: dict[str, Any] = {"warm_s": 8.0, "measured_s": 15.0, "after_s": 12.0}


def cells(run_of: Measured) -> dict[str, dict[str, Any]]:
    """What the report shows of the plan, by the first query of each cell."""
    return {c["queries"][0]: c for c in run_of.report.manifest["plan"]["cells"]}


class Watched(Planned):
    """Remembers which query it asked for, and how long its oldest tuple had waited."""

    def attach(self, view: Any, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.asked: list[tuple[int, int, list[int]]] = []

    def decide(self, now_ns: int, worker: int) -> Decision:
        ready = [q for q in self.units.ready if self.view.pending[q]]
        ages = [now_ns - self.view.head_ns[q] for q in ready]
        decision = super().decide(now_ns, worker)
        if isinstance(decision, Plan):
            box = decision.steps[0].box
            self.asked.append((now_ns, now_ns - self.view.head_ns[box], ages))
        return decision


def test_with_equal_costs_and_one_class_it_batches_by_age() -> None:
    alike = tuple(Declared(f"q{i}", "only", cost(60.0, 0.5)) for i in range(8))
    policy = Watched()
    found = run(Case(Workload("alike", ONE, alike), 0.7, shown=exact, **SHORT), policy)
    assert found.utility > 0.99
    periods = [c["period_s"] for c in cells(found).values()]
    assert max(periods) < 1.25 * min(periods)
    late = [entry for entry in policy.asked if entry[0] > 8e9]
    assert len(late) > 100
    # Whoever has waited longest goes first, and has gathered for a good part of its period.
    assert all(age >= 0.7 * max(ages) for _, age, ages in late)
    assert sum(age == max(ages) for _, age, ages in late) > 0.7 * len(late)
    assert all(age >= 0.45e9 * min(periods) for _, age, _ in late)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.4, 0.8])
def test_the_plan_keeps_its_promise_below_load_0_9(load: float) -> None:
    found = run(Case(mixed(), load, shown=exact, noise=0.0, **SHORT), Planned())
    plan = found.report.manifest["plan"]
    assert found.utility == pytest.approx(plan["utility"], abs=0.02)
    assert plan["utility"] <= plan["bound"] <= 1.0


def test_the_plan_keeps_its_promise_where_tuples_come_as_files() -> None:
    """A file every two seconds, and jobs that take long to start: as governed queries do."""
    names = ("critical",) * 2 + ("normal",) * 6 + ("archive",) * 8
    queries = tuple(
        Declared(f"q{i}", cls, cost(140.0 + 10.0 * i, 15.0), kind="job")
        for i, cls in enumerate(names)
    )
    files = Workload("files", classes(), queries, grain_s=2.0)
    load = 500.0 / files.rate_per_s(1.0, 2)
    found = run(Case(files, load, shown=exact, noise=0.0, **SHORT), Planned())
    plan = found.report.manifest["plan"]
    assert found.utility == pytest.approx(plan["utility"], abs=0.02)
    assert plan["utility"] <= plan["bound"] + 1e-9 <= 1.0 + 1e-9
    assert cells(found)["q0"]["period_s"] < 1.0


@pytest.fixture(scope="module")
def overloaded() -> Measured:
    return run(Case(mixed(), 1.6, shown=exact, **SHORT), Planned())


def test_under_overload_it_gives_up_what_is_worth_least(overloaded: Measured) -> None:
    assert overloaded.utility > 0.9
    assert overloaded.p95_s < 1.5
    shown = cells(overloaded)
    assert shown["filter-00"]["period_s"] < 1.0
    assert shown["filter-00"]["dropped"] is None
    assert sum(c["share"] for c in shown.values()) <= 1.0


def test_a_dropped_query_is_reported_and_served_from_spare_time(overloaded: Measured) -> None:
    costly = cells(overloaded)["costly"]
    assert costly["period_s"] is None
    assert costly["share"] == 0.0
    assert "work off" in costly["dropped"] or "yield more" in costly["dropped"]
    assert overloaded.report.by_query()["costly"].count > 0


def random_workload(random: Random) -> Workload:
    graphs = (QoSGraph.deadline(0.5, 1.0), QoSGraph.deadline(2.0, 2.01), QoSGraph.deadline(1, 8))
    classes = tuple(
        QueryClass(name=f"c{i}", priority=random.choice((1, 5, 30)), qos=random.choice(graphs))
        for i in range(2)
    )
    queries = tuple(
        Declared(
            f"q{i}", f"c{random.randrange(2)}",
            cost(random.uniform(2, 150), random.uniform(0.1, 5), 1.0, 0.05),
            random.choice(("", "a")), random.choice((0.0, 0.0, 1.0)),
        )
        for i in range(5)
    )  # fmt: skip
    # Queries that run together cost the same and answer windows of one kind.
    alike = next((q for q in queries if q.together), queries[0])
    same = [
        q._replace(cost=alike.cost, slide_s=alike.slide_s) if q.together else q for q in queries
    ]
    return Workload(f"random-{random.random()}", classes, tuple(same))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_no_policy_exceeds_the_bound(seed: int) -> None:
    random = Random(seed)
    workload, load = random_workload(random), random.choice((0.5, 1.0, 1.8))
    workers = random.choice((1, 2))
    # From the beginning, and what is not answered at the end is worth nothing.
    case = Case(workload, load, workers, seed, warm_s=0.0, measured_s=12.0, after_s=0.0, noise=0.0)
    bound = workload.bound(load, workers)
    for name in ("planned", "round-robin", "stride", "fcfs", "fixed-priority", "mbd"):
        found = run(case, make_policy_with(name))
        assert found.utility <= bound + 0.002, name  # arrivals vary a little


class Noisy(JobState):
    """A view whose costs and arrivals are off by a fifth each time they are looked at."""

    def __init__(self, workload: Workload, workers: int, rate_per_s: float, seed: int) -> None:
        super().__init__(workload.network, workers)
        self._random, self._rate_per_s, self._workload = Random(seed), rate_per_s, workload
        self.cells_now = self._noisy

    def off(self) -> float:
        return self._random.uniform(0.8, 1.2)

    def pass_s(self, seconds: float) -> None:
        for q in range(len(self._arrived)):
            self._arrived[q] += round(self._rate_per_s * seconds * self.off())

    def _noisy(self) -> list[Cell]:
        queries = self._workload.queries
        return [
            Cell(
                tuple(c), JobCost(*(x * self.off() for x in queries[c[0]].cost)),
                round(queries[c[0]].slide_s * 1e9),
            )
            for c in self._workload.cells
        ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.5, 1.0, 1.7])
def test_noise_of_a_fifth_in_costs_and_rates_does_not_make_it_flap(load: float) -> None:
    workload = mixed()
    view = Noisy(workload, 2, workload.rate_per_s(load, 2), seed=4)
    planner = CellPlanner(view, 0.93)
    view.pass_s(10.0)
    planner.note(0, 0)
    now_ns, served, changed = 0, [], 0
    for second in range(70):
        now_ns += 10**9
        view.pass_s(1.0)
        planner.note(now_ns, 0)
        plan = planner.replan(now_ns)
        if second == 10:
            changed = planner.changes
        served.append(tuple(plan.periods.served.tolist()))
    assert planner.changes - changed <= 10  # of 60 plans
    switches = sum(a != b for a, b in pairwise(served[10:]))
    assert switches <= 10


def test_workers_on_cores_that_are_busy_are_planned_as_those_that_can_be() -> None:
    workload, s = mixed(), 10**9

    def planner(*, shared: bool) -> CellPlanner:
        view = Noisy(workload, 3, workload.rate_per_s(1.7, 3), seed=4)
        made = CellPlanner(view, 0.93)
        for second in range(12):
            view.processor = ProcessorUse(2, 2 * second * s, 0) if shared else None
            made.note(second * s, round(2.2 * second * s))
            view.pass_s(1.0)
        made.replan(12 * s)
        return made

    alone, shared = planner(shared=False), planner(shared=True)
    assert alone.plan is not None
    assert shared.plan is not None
    assert float(alone.plan.periods.load.sum()) > 0.93 * 2.3
    assert float(shared.plan.periods.load.sum()) <= 0.93 * 2.2
    low, high = shared.bound(), alone.bound()
    assert low is not None
    assert high is not None
    assert low < high


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_costs_that_are_wrong_by_five_are_found_out(factor: float) -> None:
    def wrong(query: int, true: JobCost, _known: JobCost) -> JobCost:
        return JobCost(*(x * factor for x in true)) if query in (0, 1) else true

    case = Case(mixed(), 0.9, **SHORT)
    right = run(replace(case, shown=exact), Planned()).utility
    assert run(replace(case, shown=wrong), Planned()).utility > right - 0.03


@pytest.mark.slow
def test_queries_without_graphs_are_planned_and_have_no_utility() -> None:
    plain = (QueryClass(name="only", priority=1, qos=None),)
    alike = tuple(Declared(f"q{i}", "only", cost(20.0, 0.5)) for i in range(3))
    found = run(Case(Workload("plain", plain, alike), 0.5, **SHORT), Planned())
    assert found.answered > 0.99
    plan = found.report.manifest["plan"]
    assert plan["utility"] is None
    assert plan["bound"] is None
    assert all(c["period_s"] < 5 for c in plan["cells"])


def test_it_waits_for_an_instant_when_nothing_is_due() -> None:
    policy = Planned()
    waits: list[Wait] = []
    decide = policy.decide

    def noted(now_ns: int, worker: int) -> Decision:
        decision = decide(now_ns, worker)
        if isinstance(decision, Wait):
            assert decision.until_ns > now_ns
            waits.append(decision)
        return decision

    policy.decide = noted  # type: ignore[method-assign]
    lone = (Declared("q", "only", cost(20.0, 0.5)),)
    run(Case(Workload("lone", ONE, lone), 0.2, **SHORT), policy)
    assert waits


@pytest.mark.parametrize("params", [{"target": 0.0}, {"target": 1.5}, {"replan_s": 0.0}])
def test_bad_parameters_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PlannedParams(**params)


def test_it_is_registered_for_spark() -> None:
    kind: type[BasePolicy] = all_policies()["planned"]
    assert kind.on_spark
    assert kind.sizes_trains
    assert kind.keeps_learning()


def test_a_job_that_is_overdue_is_not_expected_to_end_at_once() -> None:
    out = JobUnderWay(Cell((0,), JobCost(9e6, 1e3)), 0, expected_ns=100, box=0, before=0)
    assert out.end_ns(40) == 100
    assert out.end_ns(400) == 600
    assert out.end_ns(40, overrun=2.5) == 250, "as jobs turn out"


def test_how_far_jobs_overrun_is_learned_fast_and_forgotten_slowly() -> None:
    overrun = Overrun()
    overrun.ended(0.4)
    assert overrun.factor == 1.0
    for _ in range(8):
        overrun.ended(2.0)
    assert overrun.factor > 1.9
    for _ in range(10):
        overrun.ended(0.9)
    assert 1.6 < overrun.factor < 1.9
    for _ in range(20):
        overrun.ended(1000.0)
    assert overrun.factor <= Overrun.MOST


def test_no_train_is_much_longer_than_what_jobs_have_shown() -> None:
    planner = CellPlanner(JobState(mixed().network), 0.93)
    cell = Cell((0,), JobCost(9e6, 1.0))
    assert planner.known(cell) == FIRST
    planner.took(cell, 5_000, 0, 20e6, 0, 0.0)
    planner.took(cell, 100, 0, 20e6, 0, 0.0)
    assert planner.known(cell) == GROWTH * 5_000


def test_a_trial_that_ends_far_sooner_than_expected_is_followed_by_another_soon() -> None:
    """Its cell is believed far too dear, and so may others be."""
    policy = Planned()
    run(Case(mixed(), 0.5, shown=exact, **SHORT), policy)
    cell, box = policy._plan.cells[0], policy.units.units[policy._plan.cells[0].queries[0]][0]
    before = policy.view.tuples_in[box] - 10
    policy._trial_s = 5.0
    job = Plan((Step(box, 10),), superbox=True)
    for trial, took_ns, then_s in [(False, 10**8, 5.0), (True, 3 * 10**9, 5.0), (True, 10**8, 0.1)]:
        policy._out[0] = JobUnderWay(cell, 0, 5 * 10**9, box, before, trial=trial)
        policy.on_completion(job, 0, took_ns, took_ns)
        assert policy._trial_s == then_s


def test_a_cell_that_has_waited_for_long_does_not_go_before_a_worthier_one_that_is_late() -> None:
    policy = Planned()
    run(Case(mixed(), 0.5, shown=exact, **SHORT), policy)
    order = sorted(range(len(policy._plan.cells)), key=policy._plan.density.__getitem__)
    policy._out.clear()
    now_ns = 10**12
    waits = _Candidate(0, 0, order[0], 0, 0)
    worthy = _Candidate(now_ns + 1, 0, order[-1], 0, 0)
    assert policy._may_force(waits, [waits, worthy], now_ns)
    late = worthy._replace(latest_ns=now_ns - 1)
    assert not policy._may_force(waits, [waits, late], now_ns)
    # One worker of two stays for those that are worthier.
    out = JobUnderWay(policy._plan.cells[0], 0, 100, box=0, before=0, forced=True)
    policy._out[1] = out
    assert not policy._may_force(waits, [waits, worthy], now_ns)


def test_a_file_is_read_at_once_if_no_other_comes_before_its_cell_may_begin() -> None:
    policy = Planned()
    run(Case(mixed(), 0.5, shown=exact, **SHORT), policy)
    cell = next(
        c for c, p in enumerate(policy._period_ns) if p and not policy._plan.flows[c].slide_s
    )
    period_ns, query = policy._period_ns[cell] or 0, policy._plan.cells[cell].queries[0]
    head_ns = 10**12
    c = _Candidate(head_ns + period_ns, head_ns + period_ns, cell, query, head_ns)
    for every_ns, early_ns in (
        (round(0.6 * period_ns), head_ns),
        (round(0.3 * period_ns), head_ns + period_ns - round(0.5 * period_ns)),
    ):
        instants = policy.planner.instants = ArrivalInstants()
        for ago in (2, 1, 0):
            instants.arrived(policy.units.units[query][0], 10, head_ns - ago * every_ns)
        assert policy._early_ns(c) == early_ns


class Sized(Planned):
    """Remembers what it expected of jobs over windows, and what they took."""

    def attach(self, view: Any, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.off: list[float] = []

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        out = self._out[worker]
        if now_ns > 8e9 and out.cell.slide_ns:
            self.off.append((now_ns - out.begun_ns) / out.expected_ns)
        super().on_completion(plan, worker, cost_ns, now_ns)


def test_jobs_over_windows_take_as_many_as_were_counted() -> None:
    """A limit that cuts a window takes all of it, so that a job could be twice as long."""
    policy = Sized()
    run(Case(wildfire(), 2.0, shown=exact, noise=0.0, **SHORT), policy)
    assert len(policy.off) > 20
    assert max(policy.off) < 1.3


def test_a_cell_of_which_nothing_is_known_is_tried_soon(three_workers: Planned) -> None:
    policy = three_workers
    cell = policy._plan.cells[0]
    waiting = [_Candidate(0, 0, 0, cell.queries[0], 0)]
    policy._tried_ns, policy._trial_s = 10**9, 0.3
    assert policy._trial(waiting)[1] == 10**9 + round(0.3e9 / (0.02 * 3))
    policy.planner._took.clear()
    assert policy._trial(waiting)[1] == 10**9 + round(0.3e9 / (0.25 * 3))


def under_way(policy: Planned, *, ends_ns: int, long: bool = False) -> JobUnderWay:
    return JobUnderWay(policy._plan.cells[0], 0, ends_ns, box=0, before=0, long=long)


def test_with_three_workers_one_has_no_long_job(three_workers: Planned) -> None:
    """A third may not begin in the hope that another ends in time, nor a trial."""
    policy = three_workers
    order = sorted(range(len(policy._plan.cells)), key=policy._plan.density.__getitem__)
    mine = _Candidate(0, 0, order[0], policy._plan.cells[order[0]].queries[0], 0)
    worthy = _Candidate(60, 60, order[-1], policy._plan.cells[order[-1]].queries[0], 0)
    policy._calm_ns = [10**9] * len(order)
    policy._overrun = Overrun()
    policy._out[1] = under_way(policy, ends_ns=50, long=True)
    assert policy._room_ns(mine, [worthy], 10, 0) == ANY_LENGTH, "one is free"
    policy._out[2] = under_way(policy, ends_ns=1_000, long=True)
    assert policy._room_ns(mine, [worthy], 10, 0) <= 50
    assert not policy._may_force(mine, [mine], 10**12)
    policy._tried_ns = policy._trial_s = 0
    assert policy._serve_other([mine], [worthy], 10, 0) is None
    policy._out[2] = under_way(policy, ends_ns=15)
    assert policy._room_ns(mine, [worthy], 10, 0) == ANY_LENGTH, "a short one does end"


def test_the_most_important_cells_are_not_given_up_for_what_their_first_jobs_cost() -> None:
    """Spark compiles them; a cell that is dropped for that hardly runs, and so stays dear."""
    policy = Planned()
    run(Case(mixed(), 1.0, shown=exact, **SHORT), policy)
    planner = policy.planner
    cells = planner.plan.cells if planner.plan else []
    before = planner._flows(cells)
    planner._jobs.clear()
    capped = [f.most_work < 1 for f in planner._flows(cells)]
    top = max(policy.view.class_priority)
    classes = policy.view.query_class
    assert capped == [
        max(policy.view.class_priority[classes[q]] for q in cell.queries) == top for cell in cells
    ]
    assert any(capped)
    assert not any(f.most_work < 1 for f in before), "they had run often enough"


def test_a_job_under_way_of_a_query_that_was_dropped_holds_nobody_up(
    three_workers: Planned,
) -> None:
    policy = three_workers
    policy.planner.usable.enough_jobs = 2
    gone = Cell((10**6,), JobCost(9e6, 1e3))
    policy._out = {w: JobUnderWay(gone, 0, 50, box=0, before=0) for w in (0, 1)}
    waiting = [_Candidate(0, 0, 0, policy._plan.cells[0].queries[0], 0)]
    assert policy._uncrowded(waiting, waiting, 10) == (waiting, [])


def test_windows_of_unknown_length_run_one_after_the_other(three_workers: Planned) -> None:
    policy = three_workers
    cells_of = policy._plan.cells
    windows = [c for c, cell in enumerate(cells_of) if cell.slide_ns]
    waiting = [_Candidate(0, 0, c, cells_of[c].queries[0], 0) for c in windows]
    policy._longest_s = 0.01
    assert policy._foreseen(waiting) == waiting
    policy._out[1] = under_way(policy, ends_ns=50, long=True)
    policy._out[1].unforeseen = True
    assert policy._foreseen(waiting) == waiting, "as long as before"
    for c in windows[1:]:
        policy.planner._longest[cells_of[c].queries[0]] //= 100
    assert policy._foreseen(waiting) == waiting[:1]
