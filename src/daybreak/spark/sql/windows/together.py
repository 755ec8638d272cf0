"""Window aggregates over the same windows and keys as one plan.

Each aggregate function counts only the rows of its own query, as with ``FILTER (WHERE ...)``, and
a flag tells in which groups a query has rows at all. One plan over the rows of the windows; or,
from panes (``panes``), one that makes the partials of all queries and one that merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, ids, kind, listed
from daybreak.spark.sql.composite import typed
from daybreak.spark.sql.windows.aggregate import Aggregate, aligned_copies


class Marks:
    """A column for each of several queries that tells which rows it keeps."""

    def __init__(self, catalyst: Catalyst, aggregates: Sequence[Aggregate]) -> None:
        self._catalyst = catalyst
        conditions = [aggregate.condition for aggregate in aggregates]
        self._named = [
            None if condition is None else catalyst.alias(condition, f"kept{i}")
            for i, condition in enumerate(conditions)
        ]
        #: None where a query keeps every row.
        self.columns = [None if c is None else c.toAttribute() for c in self._named]

    def rows(self, rows: Plan) -> Plan:
        """The rows that one of the queries keeps, with the marks."""
        make, added = self._catalyst, [column for column in self._named if column is not None]
        if added:
            rows = make.project([*listed(rows.output()), *added], rows)
        return rows if None in self.columns else make.filter(make.any_of(self.columns), rows)

    def only(self, query: int, call: Expr) -> Expr:
        """The call of an aggregate function over the rows that a query keeps."""
        mark = self.columns[query]
        return call if mark is None else self._catalyst.filtered(call, mark)

    def guarded(self, query: int, columns: Sequence[Expr]) -> list[Expr]:
        """Columns that are computed only for groups with a row of the query.

        Over no rows an expression on aggregates may fail: count_if(...) / count(*).
        """
        make, mark = self._catalyst, self.columns[query]
        if mark is None:
            return list(columns)

        def guard(column: Expr) -> Expr:
            if kind(column) != "Alias":
                return column  # a key
            value = column.child()
            safe = make.make("If", self.flag(query), value, make.null(value))
            return make.alias(safe, column.name(), column.exprId())

        return [guard(column) for column in columns]

    def flag(self, query: int) -> Expr:
        """Whether a group has a row of a query: true if so, else false or null."""
        make, mark = self._catalyst, self.columns[query]
        return make.true() if mark is None else make.aggregate(make.make("aggregate.Max", mark))


class Results:
    """Several aggregates in one table, and each one's own result of it."""

    def __init__(
        self,
        catalyst: Catalyst,
        aggregates: Sequence[Aggregate],
        grouping: Sequence[Expr],
        columns: Sequence[Sequence[Expr]],
        flags: Sequence[Expr],
    ) -> None:
        """``columns`` and ``flags`` are those of each query, in their order."""
        make = self._catalyst = catalyst
        self._node = aggregates[0].node
        shown = [make.alias(expression, f"in{i}") for i, expression in enumerate(flags)]
        named: dict[int, Expr] = {}  # a key may be a column of several queries
        for column in (column for mine in columns for column in mine):
            named.setdefault(ids([column])[0], column)
        self._grouping = make.seq(grouping)
        self._columns = make.seq([*shown, *named.values()])
        results = []
        for i, (aggregate, mark) in enumerate(zip(aggregates, shown, strict=True)):
            inside = mark.toAttribute()
            if aggregate.having is not None:
                inside = make.make("If", inside, aggregate.having, make.false())
            results.append(make.alias(inside, f"in{i}"))
            for j, column in enumerate(aggregate.selected):
                results.append(make.alias(column, f"c{i}_{j}"))
        self._results = make.seq(results)

    def grouped(self, rows: Plan) -> Plan:
        """The results of all queries over rows that have the columns in question."""
        groups = self._catalyst.copied(self._node, self._grouping, self._columns, rows)
        return self._catalyst.project(self._results, groups)


@dataclass(frozen=True)
class CutTogether:
    """Takes each query's rows out of a common result, typed as its own result would be."""

    schemas: tuple[pa.Schema, ...]

    def __call__(self, result: pa.Table) -> list[pa.Table]:
        found = []
        for i, schema in enumerate(self.schemas):
            mine = result.select([f"c{i}_{j}" for j in range(len(schema))])
            mine = mine.filter(result[f"in{i}"], null_selection_behavior="drop")
            found.append(typed(mine, schema))
        return found


class Together:
    """Aggregates over the rows of their stream."""

    def __init__(self, catalyst: Catalyst, aggregates: Sequence[Aggregate]) -> None:
        aligned = aligned_copies(catalyst, aggregates)
        first = self._first = aligned[0]
        self.stream = first.stream
        self._catalyst = catalyst
        self._marks = Marks(catalyst, aligned)
        columns = [
            self._marks.guarded(i, aggregate.named(partial(self._marks.only, i), catalyst))
            for i, aggregate in enumerate(aligned)
        ]
        flags = [self._marks.flag(i) for i in range(len(aligned))]
        grouping = listed(first.node.groupingExpressions())
        self._results = Results(catalyst, aligned, grouping, columns, flags)

    def over(self, rows: Plan) -> Plan:
        """All results over rows of the stream."""
        return self._results.grouped(self._marks.rows(self._first.over(self._catalyst, rows)))
