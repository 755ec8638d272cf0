"""Chapter 4's experiments: the worked examples, the testbed, and a quick one as a whole."""

from collections.abc import Callable

import numpy as np
import pytest

from daybreak_experiments.aurora.deadlines import (
    alternating,
    dealt,
    periodic,
    poisson,
    straight,
    sustained,
    table_4_2,
)
from daybreak_experiments.aurora.overload import fluctuating, table_4_6
from daybreak_experiments.aurora.schedules import run_schedule, section_4_5, table_4_3
from daybreak_experiments.core import Context, Outcome


@pytest.mark.parametrize("experiment", [table_4_3, section_4_5], ids=lambda e: e.__name__)
def test_worked_examples_are_exact(experiment: Callable[[Context], Outcome]) -> None:
    outcome = experiment(Context(seeds=[1], workers=1))
    assert [c for c in outcome.claims if c.kind == "robust" and not c.holds] == []


def test_fixed_with_lists_of_three_misses_two_deadlines_unlike_printed() -> None:
    _, left = run_schedule("fixed-priority", {"schedule_size": 3})
    assert left == [10, 11, 12]  # deadlines: 6, 10, 14


def test_table_4_2s_network() -> None:
    network = table_4_2()
    assert [len(network.queries), len(network.boxes)] == [20, 100]
    qos = network.queries[0].qos
    assert qos is not None
    assert qos.points == ((0.0, 1.0), (0.01, 1.0), (0.0101, 0.0))
    deep = table_4_2(20)
    assert len(deep.boxes) == 400
    assert deep.total_cost_ns(0) == network.total_cost_ns(0) == 500_000
    assert len(straight(alternating(3, 1.0, 2.0)).queries) == 3


def test_arrivals_are_dealt_in_rotation_and_handed_over_in_batches() -> None:
    schedule = dealt(20, 1800, 3600, 1, 0.02)
    assert np.bincount(schedule.stream).tolist() == [180] * 20
    batches, counts = np.unique(schedule.at_ns, return_counts=True)
    assert (batches % 20_000_000 == 0).all()
    assert set(counts[1:-1].tolist()) == {36}
    other = dealt(20, 1800, 3600, 2, 0.02)
    assert schedule.stream.tolist() != other.stream.tolist()


def test_poisson_and_periodic_arrivals_have_their_rates() -> None:
    drawn = poisson(4, 1000, 20_000, 1)
    assert int(drawn.at_ns[-1]) / 1e9 == pytest.approx(20, rel=0.03)
    steady = periodic([10.0, 40.0], 5.0, 1)
    assert np.bincount(steady.stream).tolist() == [50, 200]
    in_step = periodic([10.0, 10.0], 1.0, 1, spread=0.0)
    assert in_step.at_ns.tolist() == sorted([i * 10**8 for i in range(10)] * 2)


def test_fluctuating_load_alternates_as_printed() -> None:
    schedule, overload = fluctuating(1, 110_000)
    assert overload.sum() == pytest.approx(30_000, abs=200)
    span_s = 2 * (40_000 / 1200 + 15_000 / 2600)
    assert int(schedule.at_ns[-1]) / 1e9 == pytest.approx(span_s, rel=0.01)


def test_sustained_is_the_last_rate_before_the_first_fall() -> None:
    assert sustained([1, 2, 3, 4], [1.0, 0.995, 0.9, 1.0]) == 2
    assert sustained([1, 2], [0.5, 1.0]) == 0


@pytest.mark.slow
def test_sustained_overload_holds_on_another_seed() -> None:
    outcome = table_4_6(Context(seeds=[9], workers=1))
    assert [c.claim for c in outcome.claims if c.kind == "robust" and not c.holds] == []
