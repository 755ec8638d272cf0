"""QoS graphs: values, gradients, slack, and what is refused."""

import math

import pytest

from daybreak.model import NS_PER_S, ConfigError, QoSGraph

S = NS_PER_S
GRAPH = QoSGraph(((0, 1.0), (1, 1.0), (2, 0.5), (3, 0.5), (4, 0.0)))


def test_utility_is_interpolated_and_constant_after_the_last_point() -> None:
    assert GRAPH.utility([0, S, 3 * S // 2, 2 * S, 7 * S // 2, 100 * S]).tolist() == [
        1, 1, 0.75, 0.5, 0.25, 0,
    ]  # fmt: skip


def test_slope_is_the_loss_per_ns_on_the_piece_that_ends_there() -> None:
    losses = [GRAPH.slope_slack(x * S)[0] * S for x in (0, 0.5, 1, 1.5, 2, 3, 3.9, 4, 9)]
    assert losses == pytest.approx([0, 0, 0, 0.5, 0.5, 0, 0.5, 0.5, 0])


def test_critical_points_are_where_the_graph_begins_to_drop_faster() -> None:
    assert GRAPH.critical_ns == (S, 3 * S)
    assert GRAPH.deadline_ns == S


def test_slack_is_the_distance_to_the_next_critical_point_or_infinite() -> None:
    slacks = [GRAPH.slope_slack(x * S)[1] for x in (0, 0.75, 1, 2, 2.5)]
    assert slacks == [S, S / 4, 2 * S, S, S / 2]
    # Without time to spare it is late (section 4.5).
    assert [GRAPH.slope_slack(x)[1] for x in (3 * S, 3 * S + 1)] == [math.inf] * 2


def test_a_graph_that_never_drops_has_no_deadline() -> None:
    assert QoSGraph(((0.0, 1.0),)).deadline_ns is None


@pytest.mark.parametrize(
    ("points", "finding"),
    [
        ((), "no points"),
        (((0, 0.5),), "starts at"),
        (((0, 1), (1, 0.2), (2, 0.3)), "rises"),
        (((0, 1), (1, 0.5), (1, 0.2)), "after"),
        (((0, 1), (float("nan"), 0.5)), "latency nan"),
        (((0, 1), (1, -0.5)), "utility -0.5"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(
    points: tuple[tuple[float, float], ...], finding: str
) -> None:
    with pytest.raises(ConfigError, match=finding):
        QoSGraph(points)


def test_the_worth_of_one_result_is_that_of_many() -> None:
    graph = QoSGraph(((0.0, 1.0), (0.5, 1.0), (1.0, 0.4), (2.0, 0.1)))
    latencies = [0, 499_999_999, 500_000_000, 750_000_000, 1_500_000_000, 2_000_000_000, 9 * 10**9]
    assert [graph.worth(x) for x in latencies] == pytest.approx(list(graph.utility(latencies)))
