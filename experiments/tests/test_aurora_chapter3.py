"""Chapter 3's experiments: their arithmetic, and the quick ones as a whole."""

from collections.abc import Callable

import pytest

from daybreak.simulation.arrivals import load_scale
from daybreak_experiments.aurora.batching import LOADS, SATURATED_S, fig_3_10, saturation
from daybreak_experiments.aurora.traversal import fig_3_8
from daybreak_experiments.aurora.trees import application_trees, offered, waiting
from daybreak_experiments.core import Context, Outcome


def test_a_tree_has_the_boxes_its_depth_and_fan_out_say() -> None:
    network = application_trees(2, 1, fan_out=3, depth=5)
    assert len(network.boxes) == 2 * (1 + 3 + 9 + 27 + 81)
    assert len(network.streams) == 2 * 81
    assert [len(boxes) for boxes in network.query_boxes] == [121, 121]
    for box in network.input_boxes:
        assert len(network.down_path(box, network.box_queries[box][0])) == 5
    assert all(100_000 <= b.cost_ns <= 1_000_000 for b in network.boxes)


def test_trees_depend_on_the_seed_alone() -> None:
    costs = [[b.cost_ns for b in application_trees(1, s).boxes] for s in (1, 1, 2)]
    assert costs[0] == costs[1] != costs[2]


def test_capacity_is_the_share_of_time_that_is_asked_for() -> None:
    network = application_trees(1, 1)
    schedule = offered(network, 0.5, 20_000, 1)
    work_s = sum(network.total_cost_ns(s) for s in schedule.stream.tolist()) / 1e9
    assert work_s / (int(schedule.at_ns[-1]) / 1e9) == pytest.approx(0.5, rel=0.03)
    assert load_scale(network, 0.5, workers=2) == 2 * load_scale(network, 0.5, workers=1)
    assert len(waiting(network, 3)) == 3 * 81


def test_saturation_lies_between_the_loads_around_it() -> None:
    below, above = SATURATED_S / 2, SATURATED_S * 2
    assert saturation([below] * len(LOADS)) == LOADS[-1]
    assert saturation([above] * len(LOADS)) == LOADS[0]
    middle = (LOADS[0] + LOADS[1]) / 2
    assert saturation([below, *[above] * (len(LOADS) - 1)]) == pytest.approx(middle)


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [fig_3_8, fig_3_10], ids=lambda e: e.__name__)
def test_quick_experiments_hold_on_another_seed(experiment: Callable[[Context], Outcome]) -> None:
    outcome = experiment(Context(seeds=[9], workers=1))
    assert [c.claim for c in outcome.claims if c.kind == "robust" and not c.holds] == []
