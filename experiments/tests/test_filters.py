"""How claims of the filter experiments are judged, and that one holds from end to end."""

import math

import pytest

from daybreak_experiments.core import Context
from daybreak_experiments.filters.extensions import section4_1
from daybreak_experiments.filters.setup import Point, Stat, reference, run_point
from daybreak_experiments.registry import all_experiments


def test_a_mean_is_judged_by_three_standard_errors_and_the_rounding() -> None:
    stat = Stat.of([10.0, 12.0, 11.0, 11.0])
    assert stat.mean == 11.0
    assert stat.error == pytest.approx(math.sqrt(2 / 3) / 2)
    assert stat.near(12.0, 12.0, rounding=0.0)
    assert not stat.near(12.5, 12.5, rounding=0.1)
    assert stat.near(12.5, 12.5, rounding=0.3)
    assert stat.near(9.0, 12.0, rounding=0.0)


def test_one_seed_cannot_be_judged() -> None:
    claim = reference("x", Stat.of([5.0]), 5.0, 5.0, rounding=0.5, unit="ms")
    assert claim.kind == "skipped"


def test_a_saturated_point_is_a_closed_loop() -> None:
    measured = run_point((Point(router="fixed", tuples=500), 1))
    assert measured.throughput_per_s == pytest.approx(10.0, rel=0.01)


def test_every_figure_of_the_chapter_is_there() -> None:
    names = [n for n in all_experiments() if n.startswith("filters/fig")]
    assert names == [f"filters/fig6.{n}" for n in range(1, 6)]


@pytest.mark.slow
def test_routers_with_online_estimates_recover_from_a_slower_service() -> None:
    outcome = section4_1(Context(seeds=[1, 2], workers=1))
    assert outcome.holds
    assert len(outcome.table) == 5
