"""Update mode: a new row replaces the one with its key, and no row is taken back.

So the newest rows of a result, one of each key, have to be the result of a batch. What is known to
be right is accepted, by what is known of the rows that leave each operator:

- Rows that are emitted once: those of streams behind filters, projections, joins, UNION ALL and
  dropDuplicates.
- Rows that replace each other: those of one aggregate, or of DISTINCT, over rows that are emitted
  once. What it groups by is their key. Above it, conditions use only what never changes in a row
  (``HAVING count(*) < 10`` would emit a row and never withdraw it), a join with a static table
  keeps rows apart, and each branch of a UNION ALL has a literal of its own.

The columns of the result have to tell the key. Everything else above an aggregate is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, conjuncts, ids, kind, listed
from daybreak.spark.sql.row_keys import (
    Ids,
    Keyed,
    KeyPart,
    id_of,
    ids_of,
    literals_in,
    output_of,
    references_of,
    renamed,
    shown,
    told_by,
    type_of,
    unnamed,
    without_casts,
)

#: Operators that pass on the rows of their child as they are.
_NAMES = frozenset(
    {
        "EventTimeWatermark", "PipeOperator", "RebalancePartitions", "Repartition",
        "RepartitionByExpression", "ResolvedHint", "SubqueryAlias", "View",
    }
)  # fmt: skip
#: Operators that emit a row once if they are given each row once. What the functions of the last
#: lines emit is the promise of their author.
_ONCE = _NAMES | {
    "CollectMetrics", "Deduplicate", "DeduplicateWithinWatermark", "Expand", "Filter", "Generate",
    "Join", "LateralJoin", "Project", "Union",
    "FlatMapGroupsInPandasWithState", "FlatMapGroupsWithState", "MapInArrow", "MapInPandas",
    "PythonMapInArrow", "TransformWithState", "TransformWithStateInPandas",
    "TransformWithStateInPySpark",
}  # fmt: skip
_SEMI = frozenset({"LeftSemi", "LeftAnti"})


class UpdateRules:
    """Refuses queries whose newest rows, one of each key, may not be the result of a batch."""

    def __init__(self, session: SparkSession, catalyst: Catalyst) -> None:
        self._session = session
        self._catalyst = catalyst
        self._aggregating = catalyst.pattern("AGGREGATE_EXPRESSION")

    def check(self, plan: Plan) -> None:
        """``Refused`` if an analysed plan over streams, without parts of WITH, is not right."""
        keyed = self._rows(plan)
        if keyed is None:
            return
        told = frozenset[KeyPart]().union(*(keyed.told.get(c, ()) for c in output_of(plan)))
        missing = sorted(part.name for part in keyed.key - told)
        if missing:
            raise Refused(
                f"its result does not tell {missing[0]}, which keeps its rows apart, so in update "
                "mode nothing shows which row a new one replaces",
                f"select {missing[0]} as it is, or group by what is selected",
            )

    def _rows(self, plan: Plan, given: Sequence[Expr] = ()) -> Keyed | None:
        """What leaves an operator; None for rows that are emitted once, and for static ones.

        ``given``: conditions that rows meet right above it.
        """
        if not plan.isStreaming():
            return None
        if kind(plan) == "Filter":
            given = [*given, *conjuncts(plan.condition())]
        children = listed(plan.children())
        below = [self._rows(child, given if kind(plan) == "Filter" else ()) for child in children]
        if all(rows is None for rows in below):
            return self._first(plan, is_leaf=not children)
        return self._above(plan, below, given)

    def _above(self, plan: Plan, below: Sequence[Keyed | None], given: Sequence[Expr]) -> Keyed:
        """What leaves an operator above an aggregate."""
        children = listed(plan.children())
        keyed = [rows for rows in below if rows is not None]
        match kind(plan):
            case name if name in _NAMES:
                return renamed(keyed[0], output_of(children[0]), output_of(plan))
            case "Project":
                return self._projected(plan, keyed[0])
            case "Filter":
                _refuse_changing(plan, children[0], keyed[0])
                return keyed[0]
            case "Join":
                return self._joined(plan, below, given)
            case "Union" if len(keyed) == len(children):
                return _united(plan, keyed)
            case "Union":
                raise Refused(
                    "unites the rows of an aggregate with rows that are none by UNION ALL, and in "
                    "update mode only the former replace each other",
                    "make it two queries",
                )
            case name:
                raise Refused(
                    f"has {_SHOWN.get(name, name)} above an aggregate, whose rows change, and in "
                    "update mode what came of an earlier row is not taken back",
                    "do it where the result is read",
                )

    def _first(self, plan: Plan, *, is_leaf: bool) -> Keyed | None:
        """What leaves an operator whose rows are emitted once."""
        name = kind(plan)
        if is_leaf or name in _ONCE:
            return None
        if name == "Aggregate":
            return self._aggregated(plan)
        if name == "Distinct" or (name in ("Except", "Intersect") and not plan.isAll()):
            columns = listed(plan.output())
            _refuse_collated(columns)
            parts = {int(c.exprId().id()): frozenset({KeyPart(c.name())}) for c in columns}
            return Keyed(frozenset().union(*parts.values()), parts, frozenset(parts))
        raise Refused(
            f"has {_SHOWN.get(name, name)}, which is not known to give the rows of a batch in "
            "update mode",
            "write it with filters, projections, joins and one aggregate",
        )

    def _aggregated(self, plan: Plan) -> Keyed:
        groups = [g for g in listed(plan.groupingExpressions()) if not g.foldable()]
        _refuse_collated(groups)
        parts = [(group, frozenset({KeyPart(shown(group))})) for group in groups]

        def part(expression: Expr) -> frozenset[KeyPart]:
            found = (told for group, told in parts if expression.semanticEquals(group))
            return next(found, frozenset())

        columns = listed(plan.aggregateExpressions())
        return Keyed(
            frozenset().union(*(told for _, told in parts)),
            {id_of(c): told_by(unnamed(c), part) for c in columns},
            frozenset(id_of(c) for c in columns if not c.containsPattern(self._aggregating)),
            literals_in(columns, {}),
        )

    def _projected(self, plan: Plan, below: Keyed) -> Keyed:
        def part(expression: Expr) -> frozenset[KeyPart]:
            is_column = kind(expression) == "AttributeReference"
            return below.told.get(id_of(expression), frozenset()) if is_column else frozenset()

        columns = listed(plan.projectList())
        changing = ids_of(plan.child().output()) - below.lasting
        return replace(
            below,
            told={id_of(c): told_by(unnamed(c), part) for c in columns},
            lasting=frozenset(id_of(c) for c in columns if not references_of(c) & changing),
            literals=literals_in(columns, below.literals),
        )

    def _joined(self, plan: Plan, below: Sequence[Keyed | None], given: Sequence[Expr]) -> Keyed:
        """A join of an aggregate with a static table."""
        at = 0 if below[0] is not None else 1
        mine, other, keyed = plan.children().apply(at), plan.children().apply(1 - at), below[at]
        assert keyed is not None
        _refuse_changing(plan, mine, keyed)
        if other.isStreaming():
            raise Refused(
                "joins an aggregate with a stream, and in update mode what came of its earlier "
                "rows is not taken back",
                "join before it aggregates",
            )
        if kind(plan.joinType()).rstrip("$") in _SEMI:
            return keyed
        conditions = [
            *given,
            *(conjuncts(plan.condition().get()) if plan.condition().isDefined() else []),
        ]
        matched = _matched(conditions, keyed.lasting, ids_of(other.output()))
        rest = min((key - matched for key in self._keys(other)), key=len, default=None)
        if rest is None:
            raise Refused(
                "joins an aggregate with a static table of which several rows may match, so in "
                "update mode nothing shows which row a new one replaces",
                "join before it aggregates and group by the columns of the table, or join with "
                "one row a key: (SELECT key, max(name) AS name FROM table GROUP BY key)",
            )
        names = {id_of(c): frozenset({KeyPart(c.name())}) for c in listed(other.output())}
        told = {column: names[column] for column in rest}
        return replace(
            keyed,
            key=keyed.key.union(*told.values()),
            told={**keyed.told, **told},
            lasting=keyed.lasting | frozenset(names),
        )

    def _keys(self, static: Plan) -> list[Ids]:
        """Sets of columns that tell the rows of a static plan apart, as Spark knows them."""
        optimized = (
            self._catalyst.frame(static, self._session)._jdf.queryExecution().optimizedPlan()
        )
        most = optimized.maxRows()
        if most.isDefined() and most.get() <= 1:
            return [frozenset()]
        numbered = optimized
        while kind(numbered) in ("Project", "Filter"):
            numbered = numbered.child()
        if kind(numbered) == "Range" and output_of(numbered)[0] in output_of(optimized):
            return [frozenset(output_of(numbered))]
        keys = [listed(key.toSeq()) for key in listed(optimized.distinctKeys().toSeq())]
        plain = (key for key in keys if all(kind(c) == "AttributeReference" for c in key))
        return [frozenset(ids(key)) for key in plain]


#: Operators as the user writes them.
_SHOWN: Mapping[str, str] = {
    "Aggregate": "an aggregate",
    "Deduplicate": "dropDuplicates",
    "Distinct": "DISTINCT",
    "Except": "EXCEPT",
    "Expand": "UNPIVOT or grouping sets",
    "Generate": "explode or another table function",
    "Intersect": "INTERSECT",
    "LateralJoin": "a lateral join",
}


def _refuse_changing(plan: Plan, child: Plan, rows: Keyed) -> None:
    """``Refused`` if a condition uses what changes in the rows of this child."""
    if references_of(plan) & (ids_of(child.output()) - rows.lasting):
        raise Refused(
            "drops or joins rows by what an aggregate computes (HAVING, WHERE or ON above it), and "
            "in update mode a row that no longer belongs to the result is not taken back",
            "filter where the result is read",
        )


def _refuse_collated(keys: Iterable[Expr]) -> None:
    """``Refused`` if texts that differ are one key: a sink would take them for two."""
    for key in keys:
        if "collate" in type_of(key):
            raise Refused(
                f"groups by {shown(key)}, which is of type {type_of(key)}, and a sink would take "
                "spellings of one group for several",
                "group by what they have in common, such as lower(name COLLATE UTF8_BINARY)",
            )


def _matched(conditions: Iterable[Expr], lasting: Ids, static: Ids) -> Ids:
    """The columns of a static table that are equal to something that never changes in a row."""
    found = set[int]()
    for condition in conditions:
        if kind(condition) not in ("EqualTo", "EqualNullSafe"):
            continue
        left, right = without_casts(condition.left()), without_casts(condition.right())
        for one, other in ((left, right), (right, left)):
            if kind(one) == "AttributeReference" and references_of(other) <= lasting:
                found.add(id_of(one))
    return static & found


def _united(plan: Plan, branches: Sequence[Keyed]) -> Keyed:
    """The rows of aggregates behind UNION ALL, whose branches a literal in each tells apart."""
    columns = [output_of(child) for child in listed(plan.children())]
    output = output_of(plan)
    tag = frozenset({KeyPart("the branch of UNION ALL")})
    told: dict[int, frozenset[KeyPart]] = {}
    literals: dict[int, frozenset[str]] = {}
    lasting = set[int]()
    tagged = False
    for at, column in enumerate(output):
        cells = [(rows, own[at]) for rows, own in zip(branches, columns, strict=True)]
        held = [rows.literals.get(cell) for rows, cell in cells]
        told[column] = frozenset().union(*(rows.told.get(cell, ()) for rows, cell in cells))
        if all(cell in rows.lasting for rows, cell in cells):
            lasting.add(column)
        known = [values for values in held if values is not None]
        if len(known) < len(held):
            continue
        literals[column] = frozenset().union(*known)
        if len(literals[column]) == sum(map(len, known)):  # none in two branches
            told[column] |= tag
            tagged = True
    if not tagged:
        raise Refused(
            "unites aggregates by UNION ALL, and no column tells the branch of a row, so in update "
            "mode nothing shows which row a new one replaces",
            "select a literal of its own in each branch, such as 'a' AS branch",
        )
    key = tag.union(*(rows.key for rows in branches))
    return Keyed(key, told, frozenset(lasting), literals)
