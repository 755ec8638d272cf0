"""Whether the order in which rows are read shows in a result.

Spark reads rows in another order whenever it shuffles them, so two jobs over the same rows may give
``collect_list`` or ``first`` another value. Aggregates that are known not to mind are accepted;
others only where nothing of the order is left, as in ``sort_array(collect_list(v))``, or in a
window function with ORDER BY. An order that the query states itself (``ROW_NUMBER``, ``max_by``,
``ORDER BY ... LIMIT``) may leave ties; one more column in it settles them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from daybreak.spark.sql.allowlist import ORDERLESS, Refused
from daybreak.spark.sql.catalyst import Plan, kind, listed, nodes
from daybreak.spark.sql.plan_nodes import Node
from daybreak.spark.sql.windows.expressions import Expression, parse_expression

#: More aggregates that do not mind the order of rows, besides those that windows take: the last
#: ones only where values tie. A function in Python is a promise of its author.
_ORDERLESS = ORDERLESS | {
    "Corr", "CountMinSketchAgg", "CovPopulation", "CovSample", "Kurtosis", "PivotFirst", "Product",
    "RegrAvgX", "RegrAvgY", "RegrIntercept", "RegrR2", "RegrSXX", "RegrSXY", "RegrSYY", "RegrSlope",
    "Skewness", "VectorAvg", "VectorSum",
    "PythonUDAF", "ScalaAggregator", "ScalaUDAF",
    "MaxBy", "MaxMinByK", "MinBy",
}  # fmt: skip
#: Aggregates that make an array of what they read.
_COLLECTING = frozenset({"CollectList", "CollectSet", "CollectUnion"})
#: Functions of an array that do not mind the order of its elements.
_SETTLING = frozenset(
    {
        "ArrayContains", "ArrayExists", "ArrayForAll", "ArrayMax", "ArrayMin", "ArraySize",
        "ArraysOverlap", "Size", "SortArray",
    }
)  # fmt: skip
#: Functions that give an array of the same elements, in another order, for one in another order.
_ELEMENTWISE = frozenset(
    {"ArrayCompact", "ArrayDistinct", "ArrayFilter", "ArrayRemove", "ArrayTransform", "Flatten"}
)
#: ``array_sort(values)``: the comparison that it then uses, in pre-order.
_NATURAL = (
    "LambdaFunction If And IsNull left IsNull right 0 If IsNull left 1 If IsNull right -1 "
    "If LessThan left right -1 If GreaterThan left right 1 0 left right"
)
_BY_TIME = "use max_by(value, time) or min_by(value, time)"
_SORTED = "sort it where it is collected: sort_array(collect_list(...))"
_REMEDIES = {
    "AnyValue": _BY_TIME,
    "ApproximatePercentile": "use percentile or median, which are exact",
    "CollectList": _SORTED,
    "CollectSet": "sort it where it is collected: sort_array(collect_set(...))",
    "CollectUnion": _SORTED,
    "First": _BY_TIME,
    "HistogramNumeric": "count by ranges: GROUP BY floor(value / 10)",
    "Last": _BY_TIME,
    "ListAgg": "state the order: listagg(...) WITHIN GROUP (ORDER BY ...)",
    "Mode": "take the smallest of several: mode() WITHIN GROUP (ORDER BY ...)",
}
_NAMES = {"ApproximatePercentile": "percentile_approx", "ListAgg": "listagg"}
_UNORDERED = "and rows come in another order in another job"


def refuse_ordered(trees: Sequence[Node]) -> None:
    """``Refused`` if these plans compute a value that depends on the order of rows."""
    for node in (node for tree in trees for node in tree.walk()):
        for expression in _expressions(list(node.fields.values())):
            for name in _showing(expression):
                if name == "WindowExpression":
                    raise Refused(
                        f"has a window function over rows without an order, {_UNORDERED}",
                        "add ORDER BY to its OVER (...)",
                    )
                raise Refused(
                    f"uses {_called(name)}(), whose result may depend on the order of rows, "
                    f"{_UNORDERED}",
                    _REMEDIES.get(name, "use an aggregate whose result does not, such as count"),
                )


def refuse_picking(plans: Sequence[Plan]) -> None:
    """``Refused`` if these plans keep some rows, and which ones depends on their order."""
    for node in (node for plan in plans for node in nodes(plan)):
        match kind(node):
            case "GlobalLimit" | "Offset" | "Tail" if not _is_sorted(node):
                raise Refused(
                    f"has LIMIT or OFFSET without ORDER BY, {_UNORDERED}",
                    "add ORDER BY below it",
                )
            case "Deduplicate" if node.keys().size() < node.output().size():
                raise Refused(
                    f"has dropDuplicates by some of its columns, {_UNORDERED}",
                    "group by these columns, and take the others with max_by(value, time)",
                )
            case "DeduplicateWithinWatermark":
                raise Refused(
                    "has dropDuplicatesWithinWatermark, which Spark runs on streams alone",
                    "use distinct()",
                )
            case "Sample":
                raise Refused(
                    f"has TABLESAMPLE, {_UNORDERED}",
                    "filter by a hash of a column, such as hash(id) % 10 = 0",
                )


def _is_sorted(limit: Plan) -> bool:
    """Whether what is limited is in an order, or a single row."""
    below = limit.child()
    while kind(below) in ("LocalLimit", "GlobalLimit", "Offset", "Project", "SubqueryAlias"):
        below = below.child()
    if kind(below) == "Aggregate":
        return not listed(below.groupingExpressions())
    return kind(below) == "Sort" and bool(getattr(below, "global")())


def _expressions(value: Any) -> Iterator[Expression]:
    """The expressions in the fields of a node, each a list in pre-order."""
    if not isinstance(value, list) or not value:
        return
    if isinstance(value[0], dict) and "num-children" in value[0]:
        yield parse_expression(value)
        return
    for inner in value:
        yield from _expressions(inner)


def _showing(expression: Expression) -> Iterator[str]:
    """Functions at or below an expression in whose values the order of rows shows."""
    match expression.kind:
        case "WindowExpression":
            yield from _over(*expression.children)
        case "AggregateExpression":
            called = expression.children[0]
            if called.kind not in _ORDERLESS and not _is_ordered(called):
                yield called.kind
            for child in (*called.children, *expression.children[1:]):
                yield from _showing(child)
        case name if name in _SETTLING or _sorts(expression):
            for child in expression.children:
                yield from _showing(_settled(child))
        case _:
            for child in expression.children:
                yield from _showing(child)


def _over(function: Expression, over: Expression) -> Iterator[str]:
    """The same of a function and its OVER (...)."""
    if any(child.kind == "SortOrder" for child in over.children):
        called = function.children[0] if function.kind == "AggregateExpression" else function
        for child in called.children:
            yield from _showing(child)
        return
    frame = {end.kind.rstrip("$") for end in over.children[-1].children}
    if frame != {"UnboundedPreceding", "UnboundedFollowing"}:
        yield "WindowExpression"
    yield from _showing(function)


def _settled(array: Expression) -> Expression:
    """What is left to check of an array whose order is lost: what its elements are made of."""
    while array.kind in _ELEMENTWISE and not any(_has_index(c) for c in array.children[1:]):
        if any(list(_showing(child)) for child in array.children[1:]):
            return array
        array = array.children[0]
    if array.kind == "AggregateExpression" and array.children[0].kind in _COLLECTING:
        return Expression("Elements", {}, (*array.children[0].children, *array.children[1:]))
    return array


def _has_index(argument: Expression) -> bool:
    """Whether it is ``(element, index) -> ...``."""
    return argument.kind == "LambdaFunction" and len(argument.children) > 2


def _sorts(expression: Expression) -> bool:
    if expression.kind != "ArraySort":
        return False
    compared = expression.children[1].walk()
    parts = (e.fields.get("name", e.fields.get("value", e.kind)) for e in compared)
    return " ".join(map(str, parts)) == _NATURAL


def _is_ordered(function: Expression) -> bool:
    """Whether an aggregate states an order: WITHIN GROUP (ORDER BY ...)."""
    if function.kind == "Mode":
        return function.fields.get("reverseOpt") is not None
    return any(child.kind == "SortOrder" for child in function.children)


def _called(name: str) -> str:
    return _NAMES.get(name, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
