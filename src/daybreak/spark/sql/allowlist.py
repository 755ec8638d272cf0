"""Which plans may run on any cut of their streams: the allow-list.

A query runs over and over on ranges of rows, cut by the scheduler where it likes. So a plan is
allowed only if it is *linear* in its streams: cut the input anyhow, and the results of the parts
together are, as a multiset, the result of the whole. Why each allowed node keeps that:

- Project, Filter, Generate (explode and its kin), Expand (unpivot, sliding windows): each input
  row gives its output rows alone, if the expressions are deterministic and look at nothing but
  the row.
- SubqueryAlias, View, the parts of WITH, pipe steps, join hints: names, they change no rows.
- UNION ALL: adds multisets, and addition does not mind how it is grouped. Every branch must read
  a stream: a branch without one would give its rows again with every cut.
- Join with a static side: each stream row meets the same static rows whenever it comes. Inner and
  cross joins from either side; outer, semi and anti joins only where the stream is the side that
  is preserved or tested, since "no partner so far" and "a partner again" depend on the cut.
- A subquery, or a lateral join, over static tables alone: for one stream row it is a constant.
- Below a node that reads no stream, what gives the same rows each time it is computed: also
  aggregates that do not mind the order of rows, DISTINCT, sorting, set operations, every join.

- ``mapInArrow`` and ``mapInPandas`` of a query function: its author promises that each row gives
  its output rows alone. They are given batches, and batches depend on the cut.

- Above a window: GROUP BY, DISTINCT, EXCEPT, INTERSECT, RANK, DENSE_RANK and joins of streams that
  never bring rows of two windows together. They are not linear in rows, but in windows; see
  ``windows.operators``.

What is not in the list is refused, so a node that a later Spark adds is refused, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from daybreak.spark.log.event_time import Band, Grid
from daybreak.spark.sql.plan_nodes import Node, short_name
from daybreak.spark.sql.windows.expressions import parse_list
from daybreak.spark.sql.windows.flow import Misfit, Unsupported
from daybreak.spark.sql.windows.operators import Flows


class Refused(Exception):
    """A part of a plan that is not allowed: what it is, and what to do instead."""

    def __init__(self, finding: str, remedy: str) -> None:
        super().__init__(finding)
        self.finding = finding
        self.remedy = remedy


@dataclass(frozen=True)
class Shape:
    """What an allowed plan does."""

    reads: frozenset[str]
    #: Each row of one stream gives at most one row, by conditions and expressions alone.
    is_filter: bool
    #: The windows that have to be closed first; None where each row stands alone.
    over: Grid | Band | None = None
    #: What a result column, by its position, tells of its row's window.
    marks: Mapping[int, str] = field(default_factory=dict)


#: Leaves whose rows are part of the plan, the same in every job; see ``leaves``.
FIXED = frozenset({"LocalRelation", "LogicalRDD", "OneRowRelation", "Range"})
_NAMES = frozenset(
    {
        "SubqueryAlias", "View", "WithCTE", "CTERelationDef", "CTERelationRef", "PipeOperator",
        "ResolvedHint",
    }
)  # fmt: skip
_ONE_TO_ONE = frozenset({"Project", "Filter"})
_PROMISED = frozenset({"MapInArrow", "MapInPandas", "PythonMapInArrow"})
_ROW_WISE = _NAMES | _ONE_TO_ONE | {"Generate", "Expand", "Union", "Join", "LateralJoin"}
_GATHERING = frozenset({"Aggregate", "Distinct", "Except", "Intersect"})
#: Rows that tie have one rank, whatever the order in which they are read.
_RANKS = frozenset({"Rank", "DenseRank"})
_PARTITIONING = frozenset({"Repartition", "RepartitionByExpression", "RebalancePartitions"})
_STATIC = FIXED | _ROW_WISE | _GATHERING | {"Sort"} | _PARTITIONING
_GENERATORS = frozenset(
    {"Explode", "PosExplode", "Inline", "Stack", "JsonTuple", "VariantExplode", "ReplicateRows"}
)
#: Aggregates that do not mind the order of rows; Spark calls all aggregates deterministic.
ORDERLESS = frozenset(
    {
        "AggregateExpression", "Average", "BitAndAgg", "BitOrAgg", "BitXorAgg", "BitmapAndAgg",
        "BitmapConstructAgg", "BitmapOrAgg", "BoolAnd", "BoolOr", "Count", "CountIf",
        "HyperLogLogPlusPlus", "Max", "Median", "Min", "Percentile", "PercentileCont",
        "PercentileDisc", "RegrCount", "StddevPop", "StddevSamp", "Sum", "VariancePop",
        "VarianceSamp",
    }
)  # fmt: skip
#: Those that do, some of them only where values tie.
_ORDERED = frozenset(
    {
        "AnyValue", "ApproximatePercentile", "CollectList", "CollectSet", "First",
        "HistogramNumeric", "Last", "ListAgg", "MaxBy", "MinBy", "Mode", "PythonUDAF",
    }
)  # fmt: skip
_USE_AGGREGATES = (
    "use count, sum, avg, min, max, median, percentile, variance, stddev, bool_and, bool_or, "
    "bit_and, bit_or, bit_xor or approx_count_distinct"
)

#: Join types by the side the stream is on.
_STREAM_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})
_STREAM_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})
_BETWEEN_STREAMS = _STREAM_LEFT | {"RightOuter", "FullOuter"}

_CUT = "its result would depend on how the rows were batched"
_REFUSALS: Mapping[str, tuple[str, str]] = {
    "Deduplicate": ("dropDuplicates", "leave duplicates in, and drop them behind the sink"),
    "GlobalLimit": ("LIMIT", "filter by a condition on the row instead"),
    "LocalLimit": ("LIMIT", "filter by a condition on the row instead"),
    "Tail": ("LIMIT", "filter by a condition on the row instead"),
    "Offset": ("OFFSET", "filter by a condition on the row instead"),
    "Sort": ("ORDER BY", "sort where the results are read"),
    "Sample": ("TABLESAMPLE", "filter by a hash of a column, such as hash(id) % 10 = 0"),
    "UnionLoop": ("WITH RECURSIVE", "compute it once, as a static table"),
}


def stream_of(node: Node, streams: Mapping[str, str]) -> str | None:
    """The stream a node is the view of; ``streams``: declared names by lower-case view names."""
    if node.kind != "View":
        return None
    named = node.fields["desc"]["identifier"]
    return None if named.get("database") else streams.get(named["table"].lower())


def shape_of(
    plan: Node,
    subqueries: list[Node],
    streams: Mapping[str, str],
    times: Mapping[str, str] | None = None,
) -> Shape:
    """What the plan reads and does; ``Refused`` unless it is linear in its rows or windows.

    ``streams``: the declared name of each stream by the lower-case name of its view.
    ``times``: the column with the event time, of each stream that has one.
    ``subqueries``: the plans of all subquery expressions, at any depth.
    """
    rules = _Rules(streams, [plan, *subqueries])
    for subquery in subqueries:
        inner = rules.reads(subquery)
        if inner:
            raise _subquery(min(inner), [plan, *subqueries])
        rules.check(subquery)
    reads = rules.check(plan)
    if any(rules.gathers(node) for node in plan.walk()):
        flows = Flows(rules.reads, rules.stream, rules.part, times)
        shape = _windowed_shape(plan, reads, flows)
        for node in plan.walk():
            if rules.gathers(node):
                _check_aggregates(node)
        return shape
    kinds = {node.kind for node in _down_to_streams(plan, rules)}
    plain = not subqueries and len(reads) == 1 and kinds <= _NAMES | _ONE_TO_ONE
    return Shape(reads, plain)


def streams_in(plan: Node, subqueries: list[Node], streams: Mapping[str, str]) -> frozenset[str]:
    """The streams that a plan and its subqueries read, whatever it does with them."""
    rules = _Rules(streams, [plan, *subqueries])
    return frozenset().union(*(rules.reads(tree) for tree in (plan, *subqueries)))


def subqueries_read(plan: Node, subqueries: list[Node], streams: Mapping[str, str]) -> bool:
    """Whether a subquery reads a stream; parts of WITH may be defined in the plan around it."""
    rules = _Rules(streams, [plan, *subqueries])
    return any(rules.reads(tree) for tree in subqueries)


def _subquery(stream: str, trees: list[Node]) -> Refused:
    used = set().union(*(node.expressions() for tree in trees for node in tree.walk()))
    if used & {"ScalarSubquery", "LateralSubquery"}:
        return Refused(
            f"has a subquery over stream {stream!r}, and {_CUT}",
            "use subqueries over static tables only, or join over windows",
        )
    return Refused(
        f"has IN or EXISTS with a subquery over stream {stream!r}, and not of the same window",
        "compare the windows of both sides, or write it as a join over them, FROM (SELECT *, "
        "window(at, '10 seconds') AS w FROM ...) x LEFT SEMI JOIN (SELECT *, window(at, "
        "'10 seconds') AS w FROM ...) y ON x.w = y.w AND ...; LEFT ANTI JOIN for NOT EXISTS",
    )


def _windowed_shape(plan: Node, reads: frozenset[str], flows: Flows) -> Shape:
    try:
        flow = flows.of(plan)
    except Unsupported as misfit:
        raise Refused(*misfit.args) from None
    except Misfit as misfit:
        raise Refused(f"{misfit.args[0]}, and {_CUT}", misfit.args[1]) from None
    columns = enumerate(flows.outputs(plan))
    marks = {at: flow.marks[column] for at, column in columns if column in flow.marks}
    return Shape(reads, is_filter=False, over=flow.over, marks=marks)


class _Rules:
    """The rules for one statement, whose parts may name each other (WITH)."""

    def __init__(self, streams: Mapping[str, str], plans: list[Node]) -> None:
        self._streams = streams
        self._parts: dict[int, Node] = {
            node.fields["id"]: node
            for plan in plans
            for node in plan.walk()
            if node.kind == "CTERelationDef"
        }

    def stream(self, node: Node) -> str | None:
        return stream_of(node, self._streams)

    def reads(self, node: Node) -> frozenset[str]:
        stream = self.stream(node)
        if stream is not None:
            return frozenset({stream})
        if node.kind == "CTERelationRef":
            return self.reads(self.part(node.fields["cteId"]))
        below = node.children[-1:] if node.kind == "WithCTE" else node.children
        return frozenset().union(*(self.reads(child) for child in below))

    def part(self, number: int) -> Node:
        if number not in self._parts:  # to take it for static would be a guess
            raise Refused("has a part of WITH that is defined elsewhere", "write it in place")
        return self._parts[number]

    def gathers(self, node: Node) -> bool:
        """Whether the node brings rows of streams together."""
        if node.kind == "Join":
            return all(self.reads(child) for child in node.children)
        return node.kind in (*_GATHERING, "Window") and bool(self.reads(node))

    def check(self, node: Node) -> frozenset[str]:
        """Refuses what is not allowed at or below the node; gives the streams it reads."""
        if self.stream(node) is not None:
            return self.reads(node)
        reads = self.reads(node)
        self._check_kind(node, is_static=not reads)
        for child in node.children:
            self.check(child)
        if reads:
            self._check_linear(node)
        return reads

    def _check_kind(self, node: Node, *, is_static: bool) -> None:
        if not is_static and node.kind == "Window" and _ranks_only(node):
            return
        if node.kind in (_STATIC if is_static else _ROW_WISE | _GATHERING | _PROMISED):
            _check_functions(node, is_static=is_static)
            return
        if is_static:
            known = {**_REFUSALS, "Window": ("a window function (OVER ...)", "")}
            name = known.get(node.kind, (node.kind, ""))[0]
            raise Refused(
                f"has {name} over static tables, which need not give the same rows each time",
                "compute it once, when the static table is made",
            )
        self._refuse(node)

    def _refuse(self, node: Node) -> None:
        if node.kind == "Sort" and not node.fields.get("global", True):
            raise Refused(f"has SORT BY, and {_CUT}", _REFUSALS["Sort"][1])
        if node.kind == "Window":
            raise Refused(
                "has a window function (OVER ...) other than RANK and DENSE_RANK, which is not "
                "supported over streams: rows that tie in its ORDER BY are numbered in the order "
                "they are read",
                "use RANK within windows, or aggregate instead, such as max(v) ... GROUP BY "
                "window(at, '10 seconds'), k, and join with that for the whole rows; or compute it "
                "where the results are read",
            )
        if node.kind in _PARTITIONING:
            raise Refused(
                "has DISTRIBUTE BY or a partitioning hint", "leave it out; Daybreak sizes the jobs"
            )
        if node.kind in _REFUSALS:
            name, remedy = _REFUSALS[node.kind]
            raise Refused(f"has {name}, and {_CUT}", remedy)
        raise Refused(
            f"has {node.kind}, which is not known to give the same rows for any batching",
            "write it with filters, projections, UNION ALL and joins with static tables",
        )

    def _check_linear(self, node: Node) -> None:
        if node.kind == "Join":
            self._check_join(node)
        elif node.kind == "LateralJoin":
            _check_type(_join_type(node), _STREAM_LEFT)
        elif node.kind == "Union" and not all(self.reads(child) for child in node.children):
            raise Refused(
                f"a branch of UNION ALL reads no stream, and {_CUT}",
                "write the rows of static tables to the sink once, apart from this query",
            )

    def _check_join(self, node: Node) -> None:
        left, right = (self.reads(child) for child in node.children)
        if left and right:  # whether it keeps to windows is asked of the whole plan
            _check_type(_join_type(node), _BETWEEN_STREAMS)
        else:
            _check_type(_join_type(node), _STREAM_LEFT if left else _STREAM_RIGHT)


def _ranks_only(node: Node) -> bool:
    """Whether all functions of a node with OVER are ranks."""
    listed = node.fields.get("windowExpressions", [])
    called = [named.children[0] for named in parse_list(listed)]
    return bool(called) and all(
        found.kind == "WindowExpression" and found.children[0].kind in _RANKS for found in called
    )


def _check_functions(node: Node, *, is_static: bool) -> None:
    """Aggregates and generators have lists of their own."""
    others = sorted(node.aggregates() - ORDERLESS) if is_static else []
    if others:
        raise Refused(
            f"has aggregate {others[0]} over static tables, {_why_not(others[0])}",
            "compute it once, when the static table is made",
        )
    if node.kind == "Generate":
        generator = short_name(node.fields["generator"][0]["class"])
        if generator not in _GENERATORS:
            raise Refused(f"has table function {generator}", "use explode, inline or stack")


def _check_aggregates(node: Node) -> None:
    """Over a stream, too, only aggregates that do not mind the order of rows."""
    others = sorted(node.aggregates() - ORDERLESS)
    if others:
        raise Refused(f"has aggregate {others[0]}, {_why_not(others[0])}", _USE_AGGREGATES)


def _why_not(aggregate: str) -> str:
    if aggregate in _ORDERED:
        return "whose result may depend on the order of rows"
    return "which is not supported here"


def _check_type(found: str, allowed: frozenset[str]) -> None:
    if found not in allowed:
        raise Refused(
            f"a {_spaced(found)} join keeps or tests rows of the static table, and {_CUT}",
            "put the stream on the side that is kept: stream LEFT JOIN table",
        )


def _down_to_streams(node: Node, rules: _Rules) -> Iterator[Node]:
    yield node
    if rules.stream(node) is None:
        for child in node.children:
            yield from _down_to_streams(child, rules)


def _join_type(node: Node) -> str:
    found = node.fields["joinType"]
    return short_name(found.get("object") or found.get("product-class") or "unknown")


def _spaced(name: str) -> str:
    """``RightOuter`` as ``RIGHT OUTER``."""
    return "".join(f" {c}" if c.isupper() else c for c in name).strip().upper()
