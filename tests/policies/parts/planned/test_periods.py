"""The planner of periods: tables, the multiplier, the knapsack and the bound."""

from functools import cache
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.model import QoSGraph
from daybreak.policies.base import JobCost
from daybreak.policies.parts.planned.period_bound import Offer, bound_utility
from daybreak.policies.parts.planned.period_choice import choose, plan_periods
from daybreak.policies.parts.planned.period_tables import Columns, Floats, Flow, Table, tabulate

SOON, LATER = QoSGraph.deadline(1.0, 2.0), QoSGraph.deadline(10.0, 30.0)


def flow(rate: float = 1000.0, weight: float = 1.0, graph: QoSGraph = SOON, **more: float) -> Flow:
    costs = {"fixed_s": 0.05, "per_tuple_s": 1e-4, **more}
    return Flow(rate, worth=((graph, weight),), **costs)


def waits(flows: list[Flow]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.zeros(len(flows))


def test_a_table_holds_what_periods_cost_and_yield() -> None:
    one = flow(rate=1e5, per_tuple_s=5e-6)
    table = tabulate(Columns.of([one]), 100.0, waits([one]))
    for period, load, value, job in zip(
        table.period_s[0, 1:],
        table.load[0, 1:],
        table.value[0, 1:],
        table.job_s[0, 1:],
        strict=True,
    ):
        assert job == pytest.approx(0.05 + 0.5 * period, rel=1e-3)
        assert load == pytest.approx(0.05 / period + 0.5, rel=2e-3)
        late_s = job + (np.arange(2000) + 0.5) / 2000 * period
        assert value == pytest.approx(1e5 * SOON.utility(late_s * 1e9).mean(), rel=1e-2, abs=10)
    assert (table.period_s[0, 0], table.load[0, 0], table.value[0, 0]) == (np.inf, 0.0, 0.0)


def test_windows_are_served_every_so_many_slides() -> None:
    one = flow(slide_s=2.0, graph=LATER)
    table = tabulate(Columns.of([one]), 100.0, waits([one]))
    slides = table.period_s[0, 1:] / 2.0
    assert np.allclose(slides, np.rint(slides))
    at = int(np.flatnonzero(slides == 7)[0]) + 1
    late_s = table.job_s[0, at] + 2.0 * np.arange(7)
    assert table.value[0, at] == pytest.approx(1000 * LATER.utility(late_s * 1e9).mean())


@settings(max_examples=40)
@given(
    st.floats(0.05, 20.0),
    st.floats(1.0, 1e4),
    st.floats(1e-3, 0.5),
    st.sampled_from((SOON, LATER, QoSGraph(((0, 1.0), (60.0, 0.0))))),
)
def test_tables_and_bounds_of_windows_are_as_if_each_window_were_looked_at(
    slide_s: float, rate: float, fixed_s: float, graph: QoSGraph
) -> None:
    one = flow(rate, graph=graph, slide_s=slide_s, fixed_s=fixed_s, per_tuple_s=1e-5)
    columns = Columns.of([one])
    fast = tabulate(columns, 100.0, waits([one]))
    offer = Offer(rate, JobCost(fixed_s * 1e9, 1e4), ((graph, 1.0),), slide_s)
    bound = bound_utility([offer], 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QoSGraph, "mean_of_steps", window_by_window)
        slow = tabulate(columns, 100.0, waits([one]))
        assert bound == pytest.approx(bound_utility([offer], 1), abs=1e-9)
    assert np.array_equal(fast.period_s, slow.period_s)
    assert fast.value / one.weight == pytest.approx(slow.value / one.weight, abs=1e-9)


def window_by_window(graph: QoSGraph, first_ns: Floats, step_ns: Floats, count: Floats) -> Floats:
    """The mean worth of windows as it is defined."""
    total = np.zeros(np.broadcast_shapes(first_ns.shape, count.shape))
    for ago in range(int(count.max())):
        if first_ns.min() + ago * step_ns.min() > graph.knots_ns[0][-1]:
            total += np.maximum(count - ago, 0) * graph.points[-1][1]
            break  # all that are older are worth the same
        worth = np.interp(first_ns + ago * step_ns, *graph.knots_ns)
        total += np.where(ago < count, worth, 0.0)
    mean: Floats = total / count
    return mean


def test_files_are_answered_at_the_cost_of_one_job_each() -> None:
    """No cycle is shorter than the time from one file to the next, however short the period."""
    one = flow(rate=500.0, graph=LATER, per_tuple_s=1e-4, together=1000.0)
    table = tabulate(Columns.of([one]), 100.0, waits([one]))
    period, load, value = table.period_s[0, -1], table.load[0, -1], table.value[0, -1]
    assert period < 0.1
    assert load == pytest.approx((0.05 + 0.1) / 2.0)
    assert value == pytest.approx(500.0)


@pytest.mark.parametrize("together", [1.0, 20.0, 1000.0])
def test_what_a_period_costs_and_yields_is_what_following_it_does(together: float) -> None:
    """Single tuples that come at random, and files that come about evenly."""
    graph = QoSGraph(((0, 1.0), (2 + together / 20, 0.0)))
    one = flow(rate=100.0, graph=graph, per_tuple_s=0.0, together=together)
    table = tabulate(Columns.of([one]), 1e3, waits([one]))
    random = np.random.default_rng(1)
    count = 40_000
    gaps = random.exponential(size=count) if together == 1 else random.uniform(0.5, 1.5, count)
    at_s = np.cumsum(one.gap_s * gaps)
    for column in range(1, table.period_s.shape[1], 7):
        period = table.period_s[0, column]
        jobs, worth, head = 0, 0.0, 0
        while head < count:
            end = int(np.searchsorted(at_s, at_s[head] + period, side="right"))
            late_s = at_s[head] + period + 0.05 - at_s[head:end]
            worth += float(graph.utility((late_s * 1e9).astype(np.int64)).sum())
            jobs, head = jobs + 1, end
        assert table.load[0, column] == pytest.approx(0.05 * jobs / at_s[-1], rel=0.2)
        assert table.value[0, column] / 100 == pytest.approx(worth / count, abs=0.015)


def test_a_cell_that_cannot_keep_up_is_worth_the_less_the_more_it_falls_behind() -> None:
    """What it costs is an estimate: one a little too high must not drop the worthiest cell."""
    for work, most in [(1.1, 1 / 3), (2.0, 1 / 21)]:
        one = flow(rate=1e4, per_tuple_s=work / 1e4)
        table = tabulate(Columns.of([one]), 100.0, waits([one]))
        assert table.load.max() == 1.0, "its jobs run one at a time"
        assert 0 < table.value.max() <= most * one.weight
    assert plan_periods([one, flow()], 1, 0.93).served.tolist() == [False, True]


def test_it_is_dropped_once_it_has_fallen_behind() -> None:
    worth = ((QoSGraph.deadline(1.0), 1.0),)
    good = [Flow(1e4, 0.01, 9e-5, worth), Flow(1e4, 0.01, 9e-5, worth)]
    beyond = Flow(1e4, 0.01, 1.02e-4, ((QoSGraph.deadline(1.0), 3.0),))
    assert plan_periods([*good, beyond], 2, 0.93).served[2]
    late = beyond._replace(backlog_s=10.0, backlog_load=1 / 3, in_time=30 / (30 + 200))
    assert not plan_periods([*good, late], 2, 0.93).served[2]


def test_a_cell_that_others_slow_down_is_not_given_up_for_them() -> None:
    """Beside two others its jobs need more than a worker; those must make way, and not it."""
    others = [flow(rate=1e4, per_tuple_s=8e-5, weight=0.5), flow(rate=1e4, per_tuple_s=8e-5)]
    worthiest = flow(rate=1e4, per_tuple_s=1.1e-4, weight=1.5)
    assert plan_periods([worthiest, *others], 2, 0.93).served.tolist() == [False, True, True]
    slowed = worthiest._replace(at_best=0.7)
    assert plan_periods([slowed, *others], 2, 0.93).served[0]
    assert slowed.least_work == pytest.approx(0.77)
    hopeless = worthiest._replace(per_tuple_s=2e-4, at_best=0.7)
    assert not plan_periods([hopeless, *others], 2, 0.93).served[0]


def test_a_burst_is_no_reason_to_give_up_a_cell_that_keeps_up_on_average() -> None:
    """Four times as many tuples as usual, which it cannot work off before the burst has passed."""
    steady = flow(rate=1e4, per_tuple_s=6e-5, weight=3.0)
    burst = steady._replace(rate_per_s=4e4)
    others = [flow(rate=1e4, per_tuple_s=8e-5), flow(rate=1e4, per_tuple_s=8e-5)]
    assert not plan_periods([burst, *others], 2, 0.93).served[0]
    plan = plan_periods([burst._replace(at_best=0.4), *others], 2, 0.93)
    assert plan.served[0]
    assert plan.load[0] == 1.0, "its jobs run one at a time"


def test_a_cell_whose_cost_is_hardly_known_may_count_as_one_that_keeps_up() -> None:
    dear = flow(rate=1e4, per_tuple_s=5e-3, weight=3.0)
    assert plan_periods([dear, flow()], 2, 0.93).served.tolist() == [False, True]
    hoped = dear._replace(most_work=0.9)
    assert hoped.work == hoped.least_work == 0.9
    assert plan_periods([hoped, flow()], 2, 0.93).served.tolist() == [True, True]
    assert hoped.per_tuple_s == 5e-3, "trains are as short as before"


def test_an_idle_machine_answers_sooner_than_it_must() -> None:
    flows = [flow(fixed_s=0.01), flow(fixed_s=0.1, graph=LATER)]
    found = plan_periods(flows, 2, 0.93)
    assert found.value.sum() == pytest.approx(sum(f.weight for f in flows), rel=1e-4)
    assert found.period_s[0] < 0.3
    assert 0.5 < found.load.sum() / 2 < 0.65


def test_time_that_a_dropped_cell_leaves_makes_others_answer_sooner() -> None:
    """A cell that does not fit has a price, and its place stays empty."""
    cheap = flow(per_tuple_s=1e-5)
    dear = flow(per_tuple_s=0.95e-3, weight=0.01)
    alone = plan_periods([cheap], 1, 0.93)
    both = plan_periods([cheap, dear], 1, 0.93)
    assert both.served.tolist() == [True, False]
    assert both.price > 0
    assert both.period_s[0] == pytest.approx(alone.period_s[0], rel=0.1)


def test_equal_cells_have_equal_periods() -> None:
    found = plan_periods([flow(rate=500.0) for _ in range(5)], 1, 0.93)
    assert found.served.all()
    assert np.ptp(found.period_s) < 0.2 * found.period_s.mean()


def test_without_a_start_cost_those_that_yield_most_per_cost_are_served() -> None:
    random = Random(3)
    flows = [
        flow(1000.0, random.uniform(1, 10), fixed_s=1e-7, per_tuple_s=random.uniform(1e-4, 6e-4))
        for _ in range(12)
    ]
    found = plan_periods(flows, 2, 0.93)
    ranked = sorted(range(12), key=lambda c: -flows[c].weight / flows[c].work)
    served = [bool(found.served[c]) for c in ranked]
    spare = 0.93 * 2 - found.load.sum()
    first_out = served.index(False)
    assert all(served[:first_out])
    assert flows[ranked[first_out]].work > spare
    # Beyond the first that does not fit, only smaller ones fill the rest.
    assert all(
        flows[c].work < flows[ranked[first_out]].work for c in ranked[first_out:] if found.served[c]
    )


def test_what_is_unsure_is_paid_by_the_least_worthy() -> None:
    sure = [flow(weight=w, per_tuple_s=1.5e-4) for w in (10.0, 5.0, 2.0, 1.0)]
    unsure = [f._replace(per_tuple_error_s=1e-4) for f in sure]
    assert plan_periods(sure, 1, 0.93).served.all()
    assert plan_periods(unsure, 1, 0.93).served.tolist() == [True, True, True, False]


tables = st.lists(
    st.lists(st.tuples(st.floats(0.01, 2.0), st.floats(0.0, 10.0)), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(tables, st.floats(0.1, 3.0))
def test_the_choice_fits_and_is_the_best_but_for_one_step(
    points: list[list[tuple[float, float]]], budget: float
) -> None:
    width = max(len(row) for row in points)
    padded = [[(0.0, 0.0), *row, *[row[-1]] * (width - len(row))] for row in points]
    load, value = np.array(padded)[:, :, 0], np.array(padded)[:, :, 1]
    table = Table(np.ones_like(load), load, value, np.ones_like(load), np.ones_like(load))
    choice, price = choose(table, budget)
    rows = np.arange(len(points))
    got = value[rows, choice].sum()
    assert load[rows, choice].sum() <= budget + 1e-9
    every = product(range(width + 1), repeat=len(points))
    best = max(value[rows, c].sum() for c in map(list, every) if load[rows, c].sum() <= budget)
    assert got >= best - value.max() - 1e-6
    assert price > 0 or got == pytest.approx(best, abs=1e-4)


def offers(random: Random, cells: int) -> list[Offer]:
    graphs = (SOON, LATER, QoSGraph.deadline(0.3, 0.31), QoSGraph(((0, 1.0), (1, 0.4))))
    return [
        Offer(
            random.choice((20.0, 1000.0)),
            JobCost(random.uniform(1e6, 2e8), random.uniform(1e3, 5e5), 1e6, 1e3),
            ((random.choice(graphs), random.uniform(1, 10)),) * random.randint(1, 3),
            random.choice((0.0, 0.0, 1.0)),
            random.choice((1.0, 1.0, 50.0, 2000.0)),
        )
        for _ in range(cells)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_no_plan_promises_more_than_the_bound(seed: int) -> None:
    some = offers(Random(seed), 6)
    flows = [
        Flow(
            o.rate_per_s,
            (o.cost.fixed_ns + (len(o.worth) - 1) * o.cost.per_rider_ns) / 1e9,
            (o.cost.per_tuple_ns + (len(o.worth) - 1) * o.cost.per_rider_tuple_ns) / 1e9,
            ((o.worth[0][0], o.worth[0][1] * len(o.worth)),),
            o.slide_s,
            together=o.together,
        )
        for o in some
    ]
    for workers in (1, 3):
        found = plan_periods(flows, workers, 1.0)
        promised = found.value.sum() / sum(f.weight for f in flows)
        assert promised <= bound_utility(some, workers) + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_schedule_at_all_beats_the_bound(seed: int) -> None:
    """Every schedule of two cells on one worker, in steps of 50 ms, by dynamic programming.

    A job takes some steps to start and, of every other cell, one for so many tuples.
    """
    random, step_s, steps = Random(seed), 0.05, 60
    jobs = [random.randint(1, 5) for _ in range(2)]
    each = [random.choice((0, 3)) for _ in jobs]
    graphs = [
        random.choice((QoSGraph.deadline(0.2, 0.4), QoSGraph.deadline(0.5, 0.51), SOON))
        for _ in jobs
    ]
    weights = [random.uniform(1, 5) for _ in jobs]
    rate = 1 / step_s  # one tuple of each cell at the end of every step

    def takes(cell: int, tuples: int) -> int:
        return jobs[cell] + (-(-tuples // each[cell]) if each[cell] else 0)

    @cache
    def gain(cell: int, tuples: int) -> float:
        late_ns = [(i + takes(cell, tuples)) * step_s * 1e9 for i in range(tuples)]
        return float(weights[cell] * graphs[cell].utility(late_ns).sum())  # type: ignore[arg-type]

    @cache
    def best(at: int, last: tuple[int, int]) -> float:
        if at >= steps:
            return 0.0
        found = best(at + 1, last)
        for cell in (0, 1):
            then = (at, last[1]) if cell == 0 else (last[0], at)
            waited = at - last[cell]
            for tuples in range(1, waited + 1) if each[cell] else (waited,):  # the latest ones
                end = at + takes(cell, tuples)
                if end <= steps:
                    found = max(found, gain(cell, tuples) + best(end, then))
        return found

    most = best(0, (0, 0)) / (sum(weights) * steps)
    some = [
        Offer(rate, JobCost(j * step_s * 1e9, step_s * 1e9 / n if n else 0.0), ((g, w),))
        for j, n, g, w in zip(jobs, each, graphs, weights, strict=True)
    ]
    bound = bound_utility(some, 1)
    assert most <= bound + 1e-9
    assert bound <= most + 0.25, "the bound says nothing"


def test_tuples_slow_down_the_job_that_answers_them() -> None:
    """A window whose job takes longer than its answer is worth yields nothing, on any machine."""
    window = Offer(1000.0, JobCost(1e6, 1.1e6), ((SOON, 1.0),), slide_s=2.0)
    assert bound_utility([window], 100) == pytest.approx(0.0, abs=1e-6)
    shorter = window._replace(slide_s=1.0)
    assert bound_utility([shorter], 100) == pytest.approx(SOON.worth(1.101e9), abs=1e-6)
    rows = window._replace(slide_s=0.0)
    assert bound_utility([rows], 100) == pytest.approx(1.0, abs=0.01)
