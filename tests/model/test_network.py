"""Networks: what they know, and what they refuse."""

import pytest

from daybreak.model import Box, ConfigError, Network, Query, QueryClass, Stream, chain
from daybreak.model.network import natural


def diamond() -> Network:
    """s -> a -> (b, c) -> d, and a second query that ends at b."""
    return Network(
        streams=[Stream(name="s")],
        boxes=[
            Box(name="a", inputs=("s",), cost_ns=10, selectivity=0.5),
            Box(name="b", inputs=("a",), cost_ns=20),
            Box(name="c", inputs=("a",), cost_ns=40),
            Box(name="d", inputs=("b", "c"), kind="union", cost_ns=80),
        ],
        queries=[Query(name="q1", output="d"), Query(name="q2", output="b")],
    )


def test_shared_boxes_serve_every_query_above_them() -> None:
    network = diamond()
    assert network.box_queries == ((0, 1), (0, 1), (0,), (0,))
    assert network.queries_at == ((), (1,), (), (0,))


def test_a_querys_boxes_come_after_those_that_feed_them() -> None:
    assert diamond().query_boxes == ((0, 1, 2, 3), (0, 1))


def test_down_path_holds_a_box_and_what_is_downstream_within_the_query() -> None:
    network = diamond()
    assert network.down_path(0, 0) == (0, 1, 2, 3)
    assert network.down_path(1, 0) == (1, 3)
    assert network.down_path(1, 1) == (1,)


def test_the_work_of_a_tuple_counts_every_branch_it_takes() -> None:
    assert diamond().total_cost_ns(0) == 10 + 0.5 * (20 + 40 + 2 * 80)


def test_indices_follow_natural_order_of_names_not_of_listing() -> None:
    boxes = chain("q", "s", [1] * 12)
    network = Network(
        streams=[Stream(name="s")], boxes=boxes[::-1], queries=[Query(name="q", output="q.12")]
    )
    assert [b.name for b in network.boxes] == [f"q.{i}" for i in range(1, 13)]


def test_natural_order_is_total_over_odd_names() -> None:
    assert sorted(["b10", "b2", "", "²", "a", "1", "b"], key=natural) == [
        "", "1", "a", "b", "b2", "b10", "²",
    ]  # fmt: skip


def test_a_chain_of_thousands_of_boxes_is_no_problem() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=chain("q", "s", [1] * 5000),
        queries=[Query(name="q", output="q.5000")],
    )
    assert len(network.query_boxes[0]) == 5000


def test_classes_are_ordered_by_priority() -> None:
    network = Network(
        streams=[Stream(name="s")],
        boxes=[Box(name="a", inputs=("s",))],
        queries=[Query(name="q", output="a", cls="high")],
        classes=[QueryClass(name="low", priority=1), QueryClass(name="high", priority=9)],
    )
    assert [c.name for c in network.classes] == ["high", "low"]
    assert network.class_of(0) == 0


@pytest.mark.parametrize(
    ("boxes", "queries", "finding"),
    [
        ([Box(name="a", inputs=("t",))], [Query(name="q", output="a")], "neither a stream"),
        ([Box(name="s", inputs=("s",))], [Query(name="q", output="s")], "same name"),
        ([Box(name="a", inputs=("s",))], [Query(name="q", output="z")], "not declared"),
        ([Box(name="a", inputs=("s",))] * 2, [Query(name="q", output="a")], "twice"),
        ([Box(name="a", inputs=("s",))], [Query(name="q", output="a", cls="vip")], "class 'vip'"),
        (
            [Box(name="a", inputs=("s", "b")), Box(name="b", inputs=("a",))],
            [Query(name="q", output="b")],
            "circle",
        ),
        (
            [Box(name="a", inputs=("s",)), Box(name="b", inputs=("s",))],
            [Query(name="q", output="a")],
            "feeds no query",
        ),
    ],
)
def test_networks_that_make_no_sense_are_refused(
    boxes: list[Box], queries: list[Query], finding: str
) -> None:
    with pytest.raises(ConfigError, match=finding):
        Network(streams=[Stream(name="s")], boxes=boxes, queries=queries)


@pytest.mark.parametrize(
    "given",
    [
        {"inputs": ()},
        {"inputs": ("s",), "kind": "sort"},
        {"inputs": ("s",), "cost_ns": -1},
        {"inputs": ("s",), "selectivity": float("nan")},
        {"inputs": ("s",), "tuple_bytes": 0},
    ],
)
def test_boxes_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Box(name="a", **given)  # type: ignore[arg-type]
