"""The allow-list on plans written by hand: what it does not know, it refuses. No Spark."""

from __future__ import annotations

from typing import Any

import pytest

from daybreak.spark.sql.allowlist import Refused, Shape, shape_of
from daybreak.spark.sql.plan_nodes import Node, parse_plan

LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


def operator(kind: str, children: int = 1, **fields: Any) -> dict[str, Any]:
    return {"class": f"{LOGICAL}.{kind}", "num-children": children, **fields}


def view(name: str, database: str | None = None) -> list[dict[str, Any]]:
    identifier = {"table": name} | ({"database": database} if database else {})
    return [operator("View", desc={"identifier": identifier}), operator("LocalRelation", 0)]


def plan(*nodes: dict[str, Any]) -> Node:
    return parse_plan(nodes)


def shape(*nodes: dict[str, Any]) -> Shape:
    return shape_of(plan(*nodes), [], {"r": "R"})


def test_a_plan_is_read_in_pre_order() -> None:
    tree = plan(operator("Union", 2), operator("Filter"), *view("r"), *view("q"))
    assert [node.kind for node in tree.walk()] == [
        "Union", "Filter", "View", "LocalRelation", "View", "LocalRelation",
    ]  # fmt: skip
    assert [child.kind for child in tree.children] == ["Filter", "View"]


def test_a_stream_is_known_by_its_view_alone() -> None:
    assert shape(operator("Project"), *view("r")) == Shape(frozenset({"R"}), is_filter=True)
    assert shape(operator("Project"), *view("R")).reads == {"R"}
    assert shape(operator("Project"), *view("r", "global_temp")).reads == frozenset()
    assert shape(operator("Project"), *view("other")).reads == frozenset()


@pytest.mark.parametrize("table", ["r", "other"])
def test_an_operator_of_a_later_spark_is_refused(table: str) -> None:
    with pytest.raises(Refused, match="has Teleport"):
        shape(operator("Project"), operator("Teleport"), *view(table))


def test_a_join_of_an_unknown_type_is_refused() -> None:
    for kind in ("LeftSingle", "UsingJoin"):
        join = operator("Join", 2, joinType={"object": f"org.apache.spark.{kind}$"})
        with pytest.raises(Refused, match=r"a LEFT SINGLE join|a USING JOIN join"):
            shape(join, *view("r"), *view("other"))


def test_an_unknown_generator_is_refused() -> None:
    generate = operator("Generate", generator=[{"class": "org.apache.spark.sql.PythonUDTF"}])
    for table in ("r", "other"):
        with pytest.raises(Refused, match="table function PythonUDTF"):
            shape(generate, *view(table))


def test_a_part_of_with_that_is_not_there_is_not_taken_for_static() -> None:
    with pytest.raises(Refused, match="part of WITH"):
        shape(operator("Union", 2), *view("r"), operator("CTERelationRef", 0, cteId=7))


def test_a_subquery_may_not_read_a_stream_nor_hold_what_is_unknown() -> None:
    outer = plan(operator("Filter"), *view("r"))
    static = plan(operator("Project"), *view("other"))
    assert shape_of(outer, [static], {"r": "R"}) == Shape(frozenset({"R"}), is_filter=False)
    with pytest.raises(Refused, match="subquery over stream 'R'"):
        shape_of(outer, [plan(operator("Project"), *view("r"))], {"r": "R"})
    with pytest.raises(Refused, match="has Teleport"):
        shape_of(outer, [plan(operator("Teleport"), *view("other"))], {"r": "R"})


EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def exists(kind: str) -> list[list[dict[str, Any]]]:
    return [[{"class": f"{EXPRESSIONS}.{kind}", "num-children": 0}]]


def test_a_subquery_over_a_stream_names_what_to_write_instead() -> None:
    over = [plan(operator("Project"), *view("r"))]
    for kind in ("Exists", "ListQuery"):
        outer = plan(operator("Filter", condition=exists(kind)), *view("r"))
        with pytest.raises(
            Refused, match=r"IN or EXISTS with a subquery over .*of the same window"
        ) as found:
            shape_of(outer, over, {"r": "R"})
        assert "LEFT SEMI JOIN" in found.value.remedy
        assert "LEFT ANTI JOIN" in found.value.remedy
        assert "batched" not in found.value.finding
    outer = plan(operator("Filter", condition=exists("ScalarSubquery")), *view("r"))
    with pytest.raises(Refused, match=r"subquery over stream 'R', and .*batched"):
        shape_of(outer, over, {"r": "R"})


def test_a_window_function_is_refused_for_its_ties() -> None:
    with pytest.raises(Refused, match="not supported over streams: rows that tie") as found:
        shape(operator("Window"), *view("r"))
    assert "GROUP BY window" in found.value.remedy
    with pytest.raises(Refused, match=r"window function .* over static tables"):
        shape(operator("Join", 2, joinType={"object": "x.Inner$"}), *view("r"),
              operator("Window"), *view("other"))  # fmt: skip


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        ("aggregate.First", "aggregate First over .* may depend on the order of rows"),
        ("aggregate.Corr", "aggregate Corr over static tables, which is not supported"),
        ("PythonUDAF", "aggregate PythonUDAF over .* may depend on the order of rows"),
        ("SketchOfLater", "aggregate SketchOfLater over .*, which is not supported"),
    ],
)
def test_an_aggregate_that_is_not_listed_is_refused_for_what_is_true(
    function: str, finding: str
) -> None:
    """Wherever its class lives: an aggregate expression names its function."""
    call = [
        {"class": f"{EXPRESSIONS}.aggregate.AggregateExpression", "num-children": 1},
        {"class": f"{EXPRESSIONS}.{function}", "num-children": 0},
    ]
    join = operator("Join", 2, joinType={"object": "x.Inner$"})
    with pytest.raises(Refused, match=finding):
        shape(join, *view("r"), operator("Aggregate", aggregateExpressions=[call]), *view("other"))
