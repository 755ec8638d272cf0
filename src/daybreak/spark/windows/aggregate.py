"""A window aggregate taken apart, so that it can be computed from panes, or with others.

``SELECT ... FROM stream [WHERE ...] GROUP BY window(...), columns [HAVING ...]`` and nothing else.
That the parts mean the same is asked of Spark, as for filters: the aggregate put together again
must have the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from daybreak.spark.composite import bare_columns, quoted
from daybreak.spark.windows.times import Grid, Windowing

#: The frame of a text over empty tables of these names.
Analyse = Callable[[str, Mapping[str, StructType]], Any]


@dataclass(frozen=True)
class Call:
    """One call of an aggregate function; all texts are SQL over the stream's bare columns."""

    #: As it stands in the texts of the result's columns, and without its FILTER.
    text: str
    head: str
    #: Spark's name for the function.
    kind: str
    arguments: tuple[str, ...]
    #: The condition of its FILTER.
    only: str | None
    is_distinct: bool
    type: str


@dataclass(frozen=True)
class Column:
    """What one column of the aggregate is made of."""

    name: str
    text: str
    calls: tuple[Call, ...]

    def with_calls(self, new: Callable[[Call], str]) -> str:
        """Its text with every call written anew."""
        return replaced(self.text, {call.text: new(call) for call in self.calls})


@dataclass(frozen=True)
class Having:
    """A condition on the aggregate's columns, which know their table no more."""

    text: str
    #: How the text writes each column it refers to, and the column's name.
    columns: tuple[tuple[str, str], ...]

    def over(self, name: Callable[[str], str]) -> str:
        """The condition where each column has another name."""
        return replaced(self.text, {old: quoted(name(column)) for old, column in self.columns})


@dataclass(frozen=True)
class Aggregate:
    """The parts of a window aggregate."""

    stream: str
    time: str
    grid: Grid
    condition: str | None
    #: The grouping columns in order; None stands for the window.
    keys: tuple[str | None, ...]
    #: Of these the result has the selected ones; HAVING may need more.
    columns: tuple[Column, ...]
    selected: tuple[str, ...]
    having: Having | None

    @property
    def kin(self) -> str:
        """What aggregates that can be computed together have in common."""
        keys = ", ".join(sorted(self.plain_keys))
        return f"{self.stream}#{self.grid} from {self.grid.offset_us} by {keys}"

    @property
    def plain_keys(self) -> list[str]:
        return [key for key in self.keys if key is not None]

    @property
    def where(self) -> str:
        return "" if self.condition is None else f" WHERE {self.condition}"

    @property
    def grouping(self) -> str:
        spans = (self.grid.length_us, self.grid.slide_us, self.grid.offset_us)
        listed = ", ".join(f"'{us} microseconds'" for us in spans)
        window = f"window({quoted(self.time)}, {listed})"
        return ", ".join(window if key is None else key for key in self.keys)


def filter_clause(*conditions: str | None) -> str:
    """FILTER for those conditions that there are."""
    given = [f"({condition})" for condition in conditions if condition is not None]
    return f" FILTER (WHERE {' AND '.join(given)})" if given else ""


def replaced(text: str, new: Mapping[str, str]) -> str:
    """The text with whole names and calls replaced, all at once, outside of quoted texts."""
    if not new:
        return text
    longest_first = sorted(new, key=len, reverse=True)
    names = "|".join(re.escape(old) for old in longest_first)
    pattern = re.compile(rf"(?<![\w`.])(?:{names})(?![\w`])")
    pieces = re.split(r"('(?:[^'\\]|\\.|'')*')", text)
    if any("'" in old for old in new):  # a call with a text among its arguments
        pieces = [text]
    return "".join(
        piece if i % 2 else pattern.sub(lambda found: new[found[0]], piece)
        for i, piece in enumerate(pieces)
    )


def take_apart(plan: Any, stream: str, windowing: Windowing, analyse: Analyse) -> Aggregate | None:
    """The parts of an analysed plan; None for one of another shape."""
    node, selected, having = _above(plan)
    if node is None or not isinstance(windowing.over, Grid):
        return None
    source = _below(node.child(), stream)
    if source is None:
        return None
    condition, alias = source
    keys = _keys(node, alias)
    columns = _columns(node, alias)
    names = [column.name.lower() for column in columns]
    if keys is None or len(set(names)) < len(names):
        return None
    kept = None if condition is None else bare_columns(condition, alias)
    found = Aggregate(
        stream, windowing.times[stream], windowing.over, kept, keys, columns,
        selected or tuple(column.name for column in columns), having,
    )  # fmt: skip
    # A key that is selected as it is has no alias in the plan, so it must have none here.
    listed = ", ".join(
        c.text if c.text in found.plain_keys else f"{c.text} AS {quoted(c.name)}" for c in columns
    )
    whole = f"SELECT {listed} FROM {quoted(stream)}{found.where} GROUP BY {found.grouping}"  # noqa: S608
    again = analyse(whole, {})._jdf.queryExecution().analyzed()
    return found if node.sameResult(again) else None


def _above(plan: Any) -> tuple[Any, tuple[str, ...], Having | None]:
    """The aggregate of a plan, and what HAVING selects of it."""
    selected: tuple[str, ...] = ()
    if plan.nodeName() == "Project":  # HAVING needs a column that is not selected
        listed = _listed(plan.projectList())
        if any(c.getClass().getSimpleName() != "AttributeReference" for c in listed):
            return None, (), None
        selected, plan = tuple(c.name() for c in listed), plan.child()
    having = None
    if plan.nodeName() == "Filter":
        condition, plan = plan.condition(), plan.child()
        references = _listed(condition.references().toSeq())
        having = Having(condition.sql(), tuple((c.sql(), c.name()) for c in references))
    return (plan if plan.nodeName() == "Aggregate" else None), selected, having


def _below(node: Any, stream: str) -> tuple[str | None, str] | None:
    """The condition and the alias of the stream below the windows of an aggregate."""
    if node.nodeName() == "Project":
        node = node.child()
        if node.nodeName() != "Filter":
            return None
        node = node.child()  # the filter that the window itself brings
    elif node.nodeName() == "Filter" and node.child().nodeName() == "Expand":
        node = node.child().child()
    else:
        return None
    condition: str | None = None
    if node.nodeName() == "Filter":
        condition, node = node.condition().sql(), node.child()
    aliases = []
    while node.nodeName() == "SubqueryAlias":
        aliases.append(node.alias())
        node = node.child()
    if node.nodeName() != "View" or stream not in aliases:
        return None
    return condition, aliases[0]


def _keys(node: Any, alias: str) -> tuple[str | None, ...] | None:
    """The grouping columns in order, None for the window; None if one is an expression."""
    found: list[str | None] = []
    for key in _listed(node.groupingExpressions()):
        if key.getClass().getSimpleName() != "AttributeReference":
            return None
        is_window = key.name() == "window" and key.qualifier().isEmpty()
        found.append(None if is_window else bare_columns(key.sql(), alias))
    return tuple(found) if found.count(None) == 1 else None


def _columns(node: Any, alias: str) -> tuple[Column, ...]:
    found = []
    for named in _listed(node.aggregateExpressions()):
        inner = named.child() if named.getClass().getSimpleName() == "Alias" else named
        calls = tuple(_call(call, alias) for call in _calls(inner))
        found.append(Column(named.name(), bare_columns(inner.sql(), alias), calls))
    return tuple(found)


def _call(call: Any, alias: str) -> Call:
    function, only = call.aggregateFunction(), call.filter()
    return Call(
        text=bare_columns(call.sql(), alias),
        head=bare_columns(function.sql(call.isDistinct()), alias),
        kind=function.getClass().getSimpleName(),
        arguments=tuple(bare_columns(a.sql(), alias) for a in _listed(function.children())),
        only=bare_columns(only.get().sql(), alias) if only.isDefined() else None,
        is_distinct=call.isDistinct(),
        type=function.dataType().sql(),
    )


def _calls(expression: Any) -> list[Any]:
    if expression.getClass().getSimpleName() == "AggregateExpression":
        return [expression]
    return [call for child in _listed(expression.children()) for call in _calls(child)]


def _listed(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]
