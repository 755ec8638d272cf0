"""The integral of a QoS graph is exact."""

import numpy as np
import pytest

from daybreak.model import QoSGraph

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
