"""A window aggregate taken apart, so that it can be computed from panes, or with others.

``SELECT ... FROM stream [WHERE ...] GROUP BY window(...), columns [HAVING ...]`` and nothing else.
Its parts are nodes and expressions of Spark's analysed plan, identified by their ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from daybreak.model.errors import EngineBug
from daybreak.spark.log.event_time import Grid, Windowing
from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, ids, kind, listed, positions, replaced
from daybreak.spark.sql.composite import is_stream


@dataclass(frozen=True)
class Aggregate:
    """The parts of a window aggregate."""

    stream: str
    grid: Grid
    #: Spark's node: grouping expressions, and the columns that they and the functions make.
    node: Plan
    #: What assigns windows to the rows of the stream: the stream itself at its leaf.
    base: Plan
    #: The columns that leave ``base``: the window, then those of the stream.
    columns: tuple[Expr, ...]
    #: Over the stream's columns; None where every row counts.
    condition: Expr | None
    #: The positions in the stream of the grouping columns besides the window, in order.
    keys: tuple[int, ...]
    #: The condition of HAVING, over the columns of ``node``.
    having: Expr | None
    #: The columns of ``node`` that make the result: HAVING may need more.
    selected: tuple[Expr, ...]

    @property
    def window(self) -> Expr:
        return self.columns[0]

    @property
    def row(self) -> tuple[Expr, ...]:
        """The columns of the stream."""
        return self.columns[1:]

    @property
    def share_key(self) -> str:
        """What aggregates that can be computed together have in common."""
        grid = self.grid
        spans = [grid.length_us, grid.slide_us, grid.offset_us]
        return json.dumps([self.stream, "window", *spans, sorted(self.keys)])

    def aligned(self, catalyst: Catalyst, to: Aggregate) -> Aggregate:
        """The same aggregate over the columns of another one with its share key."""
        if ids(self.columns) == ids(to.columns):
            return self
        if not self.base.sameResult(to.base):
            raise EngineBug(f"{self.share_key} and {to.share_key} do not have the same windows")

        def moved(node: Plan) -> Plan:
            return catalyst.renamed(node, self.columns, to.columns)

        def moved_condition(condition: Expr | None, over: Plan) -> Expr | None:
            return (
                None if condition is None else moved(catalyst.filter(condition, over)).condition()
            )

        selected = moved(catalyst.project(self.selected, self.node)).projectList()
        return Aggregate(
            self.stream, to.grid, moved(self.node), to.base, to.columns,
            moved_condition(self.condition, self.base), self.keys,
            moved_condition(self.having, self.node), tuple(listed(selected)),
        )  # fmt: skip

    def own(self, catalyst: Catalyst) -> Aggregate:
        """The same with expressions that no other worker uses; see ``Catalyst.own``."""

        def copied(expression: Expr | None) -> Expr | None:
            return None if expression is None else catalyst.own(expression)

        node, named = self.node, listed(self.node.aggregateExpressions())
        return replace(
            self,
            node=catalyst.copied(
                node, node.groupingExpressions(), catalyst.seq(catalyst.own(e) for e in named)
            ),
            condition=copied(self.condition),
            having=copied(self.having),
        )

    def over(self, catalyst: Catalyst, rows: Plan) -> Plan:
        """The stream's rows with their windows."""
        leaf = catalyst.aliased(rows, self.row)
        return replaced(
            self.base, lambda p: leaf if is_stream(p, self.stream) else None, catalyst.seq
        )

    def named(self, new: Callable[[Expr], Expr], catalyst: Catalyst) -> list[Expr]:
        """The columns of the aggregate with every call of an aggregate function replaced."""

        def call(expression: Expr) -> Expr | None:
            return new(expression) if kind(expression) == "AggregateExpression" else None

        columns = listed(self.node.aggregateExpressions())
        return [replaced(column, call, catalyst.seq) for column in columns]


def aligned_copies(catalyst: Catalyst, aggregates: Sequence[Aggregate]) -> list[Aggregate]:
    """Copies of aggregates with one share key, all over the columns of the first."""
    mine = [aggregate.own(catalyst) for aggregate in aggregates]
    return [aggregate.aligned(catalyst, mine[0]) for aggregate in mine]


def take_apart(
    catalyst: Catalyst, plan: Plan, stream: str, windowing: Windowing
) -> Aggregate | None:
    """The parts of an analysed plan; None for one of another shape."""
    node, having, selected = _above(plan)
    if node is None or not isinstance(windowing.over, Grid):
        return None
    found = _below(catalyst, node.child(), stream)
    if found is None:
        return None
    base, condition = found
    columns = tuple(listed(base.output()))
    keys = _keys(node, columns)
    if keys is None or not _has_unique_names(node):
        return None
    named = [catalyst.ordered(column) for column in listed(node.aggregateExpressions())]
    return Aggregate(
        stream, windowing.over,
        catalyst.copied(node, node.groupingExpressions(), catalyst.seq(named)),
        base, columns,
        None if condition is None else catalyst.ordered(condition),
        keys,
        None if having is None else catalyst.ordered(having),
        selected or tuple(listed(node.output())),
    )  # fmt: skip


def _above(plan: Plan) -> tuple[Plan | None, Expr | None, tuple[Expr, ...]]:
    """The aggregate of a plan, its HAVING, and what is selected of it."""
    selected: tuple[Expr, ...] = ()
    if plan.nodeName() == "Project":  # HAVING needs a column that is not selected
        columns = listed(plan.projectList())
        if any(kind(column) != "AttributeReference" for column in columns):
            return None, None, ()
        selected, plan = tuple(columns), plan.child()
    having = None
    if plan.nodeName() == "Filter":
        having, plan = plan.condition(), plan.child()
    return (plan if plan.nodeName() == "Aggregate" else None), having, selected


def _below(catalyst: Catalyst, node: Plan, stream: str) -> tuple[Plan, Expr | None] | None:
    """What assigns the windows, over the stream itself, and the condition between the two."""
    assigning = [node]
    if node.nodeName() == "Project" and node.child().nodeName() == "Filter":
        assigning.append(node.child())  # the filter that the window itself brings
    elif node.nodeName() == "Filter" and node.child().nodeName() == "Expand":
        assigning.append(node.child())
    else:
        return None
    source, condition = assigning[-1].child(), None
    if source.nodeName() == "Filter":
        condition, source = source.condition(), source.child()
    if not is_stream(source, stream):
        return None
    base = source
    for above in reversed(assigning):
        base = above.withNewChildren(catalyst.seq([base]))
    # The window first, then the stream's own columns: as Spark's rule for windows writes it.
    if ids(listed(base.output()))[1:] != ids(listed(source.output())):
        return None
    return base, condition


def _keys(node: Plan, columns: Sequence[Expr]) -> tuple[int, ...] | None:
    """Positions of the grouping columns in the stream; None if one is an expression."""
    place, found = positions(columns), []
    for key in listed(node.groupingExpressions()):
        at = place.get(ids([key])[0]) if kind(key) == "AttributeReference" else None
        if at is None:
            return None
        found.append(at)
    if found.count(0) != 1 or len(set(found)) < len(found):
        return None
    return tuple(at - 1 for at in found if at)


def _has_unique_names(node: Plan) -> bool:
    names = [column.name().lower() for column in listed(node.output())]
    return len(set(names)) == len(names)
