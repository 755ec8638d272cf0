"""The integral of a QoS graph, and the mean over steps of it, are exact."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.model import ConfigError, QoSGraph
from daybreak.model.qos import MOST_POINTS

GRAPHS = [
    QoSGraph(((0, 1.0),)),
    QoSGraph.deadline(1.0, 3.0),
    QoSGraph(((0, 1.0), (0.5, 0.9), (0.6, 0.2), (4.0, 0.1))),
    QoSGraph(((0, 1.0), (60.0, 0.0))),
]


@pytest.mark.parametrize("graph", GRAPHS, ids=lambda g: str(g.points))
def test_the_area_is_the_sum_of_thin_slices(graph: QoSGraph) -> None:
    ends_ns = np.array([0.0, 2.5e8, 1e9, 2.2e9, 9e9])
    for end_ns, area in zip(ends_ns, graph.area(ends_ns), strict=True):
        middles = (np.arange(20_000) + 0.5) / 20_000 * end_ns
        assert area == pytest.approx(graph.utility(middles).mean() * end_ns, rel=1e-6)


def test_before_latency_zero_everything_is_worth_one() -> None:
    assert GRAPHS[1].area(np.array([-5.0, 0.0])).tolist() == [-5.0, 0.0]


@st.composite
def graphs(draw: st.DrawFn) -> QoSGraph:
    drops = draw(st.lists(st.floats(0.0, 1.0), max_size=8))
    gaps_s = draw(st.lists(st.sampled_from((1e-3, 0.25, 1.0, 7.5, 60.0)), min_size=8, max_size=8))
    ends_s = np.cumsum(gaps_s).tolist()
    return QoSGraph(((0.0, 1.0), *zip(ends_s, sorted(drops, reverse=True), strict=False)))


@given(graphs(), st.floats(0, 1e11), st.sampled_from((1e3, 2e8, 1e9, 3.7e10)), st.integers(1, 300))
def test_the_mean_of_steps_is_that_of_each_step(
    graph: QoSGraph, first_ns: float, step_ns: float, count: int
) -> None:
    """One by one, as plans did it before: no further apart than rounding explains."""
    each = np.interp(first_ns + step_ns * np.arange(count), *graph.knots_ns)
    found = graph.mean_of_steps(*(np.array([x]) for x in (first_ns, step_ns, float(count))))
    assert found == pytest.approx(each.mean(), abs=1e-9)


def test_steps_on_the_points_of_a_steep_graph_count_as_the_points_do() -> None:
    graph, ns = QoSGraph(((0, 1.0), (1.0, 1.0), (1.000000001, 0.25))), np.array([0.0, 1.0, 2.0])
    found = graph.mean_of_steps(10**9 + ns, np.array([10.0**9]), np.array([2.0]))
    assert found.tolist() == [(1 + 0.25) / 2, 0.25, 0.25]


def test_any_number_of_steps_takes_the_same_memory() -> None:
    """Windows of a microsecond that are answered once in thirty years."""
    tracemalloc.start()
    count = np.array([1e15])
    found = GRAPHS[3].mean_of_steps(np.array([0.0]), np.array([1e3]), count)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
    assert found == pytest.approx(GRAPHS[3].area(1e3 * count) / (1e3 * count))


def test_a_graph_of_too_many_points_is_refused() -> None:
    points = [(float(i), 1 - i / 1000) for i in range(MOST_POINTS + 1)]
    assert len(QoSGraph(tuple(points[:-1])).points) == MOST_POINTS
    with pytest.raises(ConfigError, match=f"101 points; give at most {MOST_POINTS}"):
        QoSGraph(tuple(points))
