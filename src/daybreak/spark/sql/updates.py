"""Update mode: rows of a result are added and replaced, never taken back.

So no row may leave the result: ``HAVING count(*) < 10`` would emit a row and never withdraw it.
Above an aggregate, conditions may use what it groups by, which does not change, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable

from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Expr, Plan, kind, listed

#: Expression ids of columns.
Ids = frozenset[int]


def refuse_leaving(plan: Plan) -> None:
    """``Refused`` if a row of the result may leave it when more rows have come."""
    _lasting(plan)


def _lasting(plan: Plan) -> Ids | None:
    """The columns that never change in a row; None where no aggregate over a stream is below."""
    if not plan.isStreaming():
        return None
    if kind(plan) == "Aggregate":
        groups = listed(plan.groupingExpressions())
        return _ids(e for e in listed(plan.aggregateExpressions()) if _is_group(e, groups))
    children = listed(plan.children())
    below = [(child, _lasting(child)) for child in children]
    known = [(child, lasting) for child, lasting in below if lasting is not None]
    if not known:
        return None
    lasting = frozenset[int]().union(*(ids for _, ids in known))
    changing = _ids(a for child, _ in known for a in listed(child.output())) - lasting
    if kind(plan) == "Project":
        columns = listed(plan.projectList())
        return _ids(e for e in columns if not _references(e) & changing)
    if _references(plan) & changing:
        raise Refused(
            "drops or joins rows by what an aggregate computes (HAVING, WHERE or ON above it), and "
            "in update mode a row that no longer belongs to the result is not taken back",
            'declare mode = "complete", or filter where the result is read',
        )
    return _ids(listed(plan.output())) - changing


def _is_group(column: Expr, groups: list[Expr]) -> bool:
    inner = column.child() if kind(column) == "Alias" else column
    return any(inner.semanticEquals(group) for group in groups)


def _references(of: Expr | Plan) -> Ids:
    return _ids(listed(of.references().toSeq()))


def _ids(columns: Iterable[Expr]) -> Ids:
    return frozenset(column.exprId().id() for column in columns)
