"""Cells: who runs together, which model learns from whose jobs, and how long trains become."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.compositing import FIRST_TRAIN, JOB_BOUND_NS, MOST_WINDOWS, Compositor, Trains
from daybreak.engine.costs import LEAST_TRAIN, PRIORS, CostModel, Kind
from daybreak.engine.state import SystemState
from daybreak.model import Box, Network, Query, QueryClass, Stream

S = 10**9


def state_of(classes: str) -> SystemState:
    """A state with one query per letter, which is its class."""
    names = [f"q{i}" for i in range(len(classes))]
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in names],
        queries=[Query(name=n, output=n, cls=c) for n, c in zip(names, classes, strict=True)],
        classes=[QueryClass(name=c, priority=i + 1) for i, c in enumerate(sorted(set(classes)))],
        as_listed=True,
    )
    return SystemState(network, rides=True)


def compositor_of(
    state: SystemState, share_keys: Sequence[str | None], kinds: Sequence[Kind] | None = None
) -> Compositor:
    kinds = ["filter"] * len(share_keys) if kinds is None else kinds
    return Compositor(
        state,
        share_keys.__getitem__,
        lambda b: kinds[b] == "window",
        bound_ns=10**8,
        kind=kinds.__getitem__,
        slide_ns=lambda b: 2 * S if kinds[b] == "window" else 0,
    )


def groups(compositor: Compositor) -> set[tuple[int, ...]]:
    return {cell.queries for cell in compositor.cells()}


def teach(
    compositor: Compositor, box: int, fixed_ns: float, each_ns: float, jobs: int = 12
) -> None:
    for i in range(jobs):
        n = 500 * 4 ** (i % 4)
        compositor.learn([box], compositor.cell(box), n, round(fixed_ns + each_ns * n))


def test_every_query_is_in_exactly_one_cell() -> None:
    state = state_of("aabbab")
    kinds: list[Kind] = ["filter", "filter", "filter", "job", "window", "window"]
    compositor = compositor_of(state, ["k", "k", "k", None, "w", "w"], kinds)
    assert groups(compositor) == {(0, 1), (2,), (3,), (4,), (5,)}
    assert [c.slide_ns for c in compositor.cells() if 4 in c.queries] == [2 * S]
    state.query_class[2] = state.query_class[0]
    assert (0, 1, 2) in groups(compositor)
    compositor.alone.add(1)
    assert groups(compositor) == {(0, 2), (1,), (3,), (4,), (5,)}
    compositor.forget(0)
    assert groups(compositor) == {(2,), (1,), (3,), (4,), (5,)}
    compositor.alone.clear()
    compositor.adopt(0)
    assert groups(compositor) == {(1, 2, 0), (3,), (4,), (5,)}
    compositor.bound_ns = 0
    assert len(groups(compositor)) == 6


def test_cells_of_many_windows_are_cut() -> None:
    count = MOST_WINDOWS + 3
    compositor = compositor_of(state_of("a" * count), ["w"] * count, ["window"] * count)
    assert sorted(len(c.queries) for c in compositor.cells()) == [3, MOST_WINDOWS]
    assert compositor.cell(count - 1) == list(range(MOST_WINDOWS, count))


def test_queries_that_run_alone_do_not_share_a_model() -> None:
    compositor = compositor_of(state_of("aa"), [None, None], ["job", "job"])
    teach(compositor, 0, 60e6, 500e3)
    slow, join = (c.cost for c in compositor.cells())
    assert slow.per_tuple_ns == pytest.approx(500e3, rel=0.1)
    assert join == CostModel(PRIORS["job"]).cost()


def test_a_cell_keeps_its_model_while_queries_join_and_leave() -> None:
    state = state_of("aaa")
    compositor = compositor_of(state, ["k", "k", "k"])
    compositor.forget(2)
    teach(compositor, 0, 30e6, 2e3)
    model = compositor.costs_of(0)
    compositor.adopt(2)
    compositor.forget(0)
    assert compositor.costs_of(1) is compositor.costs_of(2) is model
    compositor.forget(1)
    compositor.forget(2)
    assert compositor.costs("k", "filter").cost() == CostModel(PRIORS["filter"]).cost()


def test_a_query_that_leaves_its_cell_starts_from_what_the_cell_knows() -> None:
    state = state_of("aab")
    compositor = compositor_of(state, ["k", "k", "k"])
    teach(compositor, 0, 30e6, 2e3)
    shared = compositor.costs_of(0)
    other = state.query_class[2]
    for leave in (compositor.alone.add, lambda box: state.query_class.__setitem__(box, other)):
        leave(1)
        assert compositor.costs_of(1).cost() == shared.cost()
        compositor.learn([1], compositor.cell(1), 1000, 32_000_000)
        assert compositor.costs_of(1) is not shared
        assert compositor.costs_of(1).cost().fixed_ns == pytest.approx(30e6, rel=0.1)
        compositor.alone.clear()


def test_a_cell_that_was_only_compiled_so_far_is_no_example_for_others() -> None:
    compositor = compositor_of(state_of("aab"), ["k", "k", "k"])
    for _ in range(2):
        compositor.learn([0], [0, 1], 1000, 500_000_000)
    assert compositor.costs_of(2).cost() == CostModel(PRIORS["filter"]).cost()


def test_a_slow_machine_shows_in_cells_that_have_hardly_run() -> None:
    """A dozen cells with few jobs each, all ten times as slow as their kind is believed to be."""
    compositor = compositor_of(state_of("a" * 12), [None] * 12, ["window"] * 12)
    for box in range(10):
        for _ in range(8):
            compositor.learn([box], [box], 10_000, 1_400_000_000)
    compositor.learn([10], [10], 20_000, 1_700_000_000)
    costs = [cell.cost for cell in compositor.cells()]
    assert costs[11].of(10_000) == pytest.approx(1.4e9, rel=0.15), "has never run"
    assert costs[10].of(10_000) == pytest.approx(1.4e9, rel=0.3), "has been compiled once"
    assert costs[11].fixed_error_ns > PRIORS["window"].widths[0]


def test_a_query_that_had_to_run_by_itself_teaches_the_cell_nothing() -> None:
    compositor = compositor_of(state_of("aa"), ["k", "k"])
    teach(compositor, 0, 30e6, 2e3)
    before = compositor.costs_of(0).cost()
    compositor.learn([0], [0], 1000, 10**10)
    assert compositor.costs_of(0).cost() == before


def test_a_box_that_gets_another_query_starts_again() -> None:
    compositor = compositor_of(state_of("aa"), [None, None], ["job", "job"])
    teach(compositor, 0, 60e6, 500e3)
    compositor.adopt(0)
    assert compositor.costs_of(0).cost() == CostModel(PRIORS["job"]).cost()


def test_shares_of_a_job_add_up_even_if_its_query_has_gone() -> None:
    compositor = compositor_of(state_of("aaa"), ["k", "k", "k"])
    cell = compositor.cell(0)
    assert sum(compositor.learn([0, 1, 2], cell, 1000, 12_345_678)) == 12_345_678
    compositor.forget(0)
    assert sum(compositor.learn([0, 1, 2], cell, 1000, 12_345_678)) == 12_345_678
    assert len(compositor.learn([1], [1, 2], 1000, 5)) == 1


def test_riders_join_while_their_margins_fit() -> None:
    state = state_of("a" * 40)
    compositor = compositor_of(state, ["k"] * 40)
    state.pending[:] = [3000] * 40
    group = compositor.group(5, 3000)
    assert group.boxes[0] == 5
    assert sorted(group.cell) == list(range(40))
    assert len(group.boxes) == 40
    assert group.tuples == 3000
    state.pending[7] = 1000  # it is ahead: both go on together from there
    assert compositor.group(5, 3000).tuples == 2000


@settings(deadline=None)
@given(fixed_ns=st.integers(0, 10**9), each_ns=st.integers(1, 10**6), waiting=st.integers(1, 10**7))
def test_trains_grow_or_shrink_until_jobs_take_about_the_bound(
    fixed_ns: int, each_ns: int, waiting: int
) -> None:
    trains, model = Trains(), CostModel(PRIORS["job"])

    def job() -> tuple[int, int]:
        tuples = min(waiting, trains.most(7))
        cost_ns = fixed_ns + each_ns * tuples
        model.learn(1, tuples, cost_ns)
        trains.learn(7, model, 1, tuples, cost_ns)
        return tuples, cost_ns

    for _ in range(60):
        job()
    bound_ns = max(JOB_BOUND_NS, 2 * fixed_ns)
    for tuples, cost_ns in (job() for _ in range(4)):
        # Halved after one that was too long; never below the least, however slow a start is.
        assert cost_ns <= 2 * bound_ns or tuples <= 2 * LEAST_TRAIN
        assert cost_ns >= bound_ns // 4 or tuples == waiting
    assert trains.most(8) == FIRST_TRAIN
