"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The partials are segments of a stream of their own, and the rows they stand for need not be kept.

What a partial segment stands for is written with it (the segments of the stream it was made
from), and it follows from the log. So a crash between a partial and the commit of its job leaves
a partial that the next job finds and does not make again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructField, StructType, TimestampType

from daybreak.runtime.inbox import Waiting
from daybreak.spark.commitlog import Cursor
from daybreak.spark.composite import bare_columns, quoted
from daybreak.spark.segments import ARRIVAL, SegmentStore
from daybreak.spark.windows.clock import instants
from daybreak.spark.windows.runner import CLOSED, Ranges, WindowQuery
from daybreak.spark.windows.times import NEVER, US_PER_S, Grid, Windowing

#: A tumbling window longer than this is computed from panes, too.
LONG_US = 60 * US_PER_S
PANE, LATE = "__pane", "__late"
PANED = "__paned"
PARTIALS = "__partials"

#: Runs a text over tables, each under a name and with the types Spark gives it.
RunText = Callable[[str, Mapping[str, tuple[pa.Table, StructType]]], pa.Table]


@dataclass(frozen=True)
class Panes:
    """A window aggregate taken apart into partials and their merging."""

    stream: str
    grid: Grid
    width_us: int
    #: Over the stream's rows with their pane, and over partials with their window.
    partial_sql: str
    merge_sql: str
    paned_schema: StructType
    partial_schema: StructType

    @property
    def merge_schema(self) -> StructType:
        ends = [StructField(name, TimestampType()) for name in ("start", "end")]
        window = StructField("window", StructType(ends))
        return StructType([*self.partial_schema.fields, window])


def pane_stream(query: str) -> str:
    """The stream that holds a query's partials."""
    return f"{query}#panes"


def width_us(grid: Grid) -> int | None:
    """How long a pane is; None where panes are of no use."""
    if not grid.overlaps and grid.length_us <= LONG_US:
        return None
    return gcd(grid.length_us, grid.slide_us, LONG_US)


def compute(
    query: WindowQuery,
    panes: Panes,
    windowing: Windowing,
    taken: Sequence[Waiting],
    store: SegmentStore,
    cursors: Mapping[tuple[str, str], Cursor],
    run: RunText,
) -> tuple[pa.Table, Ranges]:
    """The rows of all windows that ``taken`` closed, and how the query's cursors move."""
    held = pane_stream(query.name)
    closed = cursors[query.name, CLOSED]
    start, low = cursors[query.name, panes.stream], cursors[query.name, held]
    bound = max(closed.seq, *(item.closes_us for item in taken))
    end = _fill(query.name, panes, windowing, start, store, run)
    kept = [s for s in store.segments(held) if s.seq >= low.seq]
    result = query.schema.empty_table()
    if kept and bound > closed.seq:
        partials = pa.concat_tables([store.table(s) for s in kept]).drop_columns([ARRIVAL])
        merged = _with_windows(partials, panes.grid, panes.width_us, closed.seq, bound)
        if merged.num_rows:
            result = run(panes.merge_sql, {PARTIALS: (merged, panes.merge_schema)})
    needed = windowing.needed_from(panes.stream, bound)
    still = [s.seq for s in kept if s.high_us is not None and s.high_us > needed]
    after = Cursor(min(still) if still else store.end(held).seq, 0)
    ranges: Ranges = {
        CLOSED: (closed, Cursor(bound, 0)),
        panes.stream: (start, end),
        held: (low, max(low, after)),
    }
    return result.cast(query.schema), ranges


def _fill(
    name: str,
    panes: Panes,
    windowing: Windowing,
    start: Cursor,
    store: SegmentStore,
    run: RunText,
) -> Cursor:
    """Makes partials of the segments that have none; returns where the stream goes on."""
    held = store.segments(pane_stream(name))
    # A partial that was made by a job that did not commit.
    first = max(start.seq, held[-1].batch_id if held else 0)
    fresh = [s for s in store.segments(panes.stream) if s.seq >= first]
    if not fresh:
        return Cursor(max(start.seq, first), 0)
    parts = [_paned(store.table(s), windowing, panes, s.before_us) for s in fresh]
    rows = pa.concat_tables(parts)
    end = fresh[-1].seq + 1
    if rows.num_rows:
        partials = run(panes.partial_sql, {PANED: (rows, panes.paned_schema)})
        store.append(pane_stream(name), "panes", end, [first, end], partials, fresh[-1].arrival_ns)
    return Cursor(end, 0)


def _paned(table: pa.Table, windowing: Windowing, panes: Panes, before_us: int | None) -> pa.Table:
    """The rows with the end of their pane, and the watermark that some windows of theirs missed."""
    grid, width = panes.grid, panes.width_us
    before = NEVER if before_us is None else before_us
    at = instants(table[windowing.times[panes.stream]])
    pane = at - (at - grid.offset_us) % width + width
    late = np.where(windowing.late(at, before), before, NEVER)
    wanted = (at > NEVER) & (grid.last_end(at) > before)
    rows = table.drop_columns([ARRIVAL]).append_column(PANE, pa.array(pane))
    rows = rows.append_column(LATE, pa.array(late))
    return rows if wanted.all() else rows.filter(pa.array(wanted))


def _with_windows(
    partials: pa.Table, grid: Grid, width: int, closed_us: int, bound_us: int
) -> pa.Table:
    """Each partial once for every window it belongs to that ends in (closed, bound]."""
    first = partials[PANE].to_numpy() - width
    late = partials[LATE].to_numpy()
    rows, ends = [], []
    end, last = grid.first_end(first), grid.last_end(first)
    while (end <= last).any():
        inside = (end <= last) & (end > closed_us) & (end <= bound_us) & (end > late)
        at = np.flatnonzero(inside)
        rows.append(at)
        ends.append(end[at])
        end = end + grid.slide_us
    taken, when = np.concatenate(rows), np.concatenate(ends)
    stamp = pa.timestamp("us", "UTC")
    columns = [pa.array(us).cast(stamp) for us in (when - grid.length_us, when)]
    window = pa.StructArray.from_arrays(columns, ["start", "end"])
    return partials.take(pa.array(taken)).append_column("window", window)


# Taking apart


def take_apart(
    plan: Any,
    stream: str,
    windowing: Windowing,
    schema: StructType,
    analyse: Callable[[str, Mapping[str, StructType]], Any],
) -> Panes | None:
    """The panes of ``SELECT ... FROM stream [WHERE] GROUP BY window(...), columns [HAVING]``.

    None for any other plan, and for aggregates whose partials cannot be merged. ``analyse`` gives
    the frame of a text over empty tables. That the parts mean the same is asked of Spark, as for
    filters: the query put together again must have the same plan.
    """
    grid = windowing.over
    width = width_us(grid) if isinstance(grid, Grid) else None
    if width is None or not isinstance(grid, Grid):
        return None
    aggregate, wrap = _above(plan)
    if aggregate is None:
        return None
    source = _below(aggregate.child(), stream)
    if source is None:
        return None
    condition, alias = source
    keys = _keys(aggregate, alias)
    merged = _Merging(alias)
    outs = merged.outputs(aggregate)
    if keys is None or outs is None:
        return None
    where = "" if condition is None else f" WHERE {bare_columns(condition, alias)}"
    time = quoted(windowing.times[stream])
    spans = ", ".join(f"'{us} microseconds'" for us in (grid.length_us, grid.slide_us))
    window = f"window({time}, {spans}, '{grid.offset_us} microseconds')"
    grouping = ", ".join(window if key is None else key for key in keys)
    plain = ", ".join(f"{text} AS {quoted(name)}" for name, text, _ in outs)
    whole = f"SELECT {plain} FROM {quoted(stream)}{where} GROUP BY {grouping}"  # noqa: S608
    again = analyse(whole, {})
    if not aggregate.sameResult(again._jdf.queryExecution().analyzed()):
        return None
    columns = [key for key in keys if key is not None]
    partials = [f"{text} AS __p{i}" for i, text in enumerate(merged.partials)]
    listed = ", ".join([PANE, LATE, *columns, *partials])
    by = ", ".join([PANE, LATE, *columns])
    partial_sql = f"SELECT {listed} FROM {PANED}{where} GROUP BY {by}"  # noqa: S608
    merging = ", ".join(f"{text} AS {quoted(name)}" for name, _, text in outs)
    by_window = ", ".join(["window", *columns])
    inner = f"SELECT {merging} FROM {PARTIALS} GROUP BY {by_window}"  # noqa: S608
    merge_sql = wrap(inner)
    more = StructType.fromDDL(f"{PANE} BIGINT, {LATE} BIGINT")
    assert isinstance(more, StructType)
    paned = StructType([*schema.fields, *more.fields])
    partial = analyse(partial_sql, {PANED: paned}).schema
    panes = Panes(stream, grid, width, partial_sql, merge_sql, paned, partial)
    found = analyse(merge_sql, {PARTIALS: panes.merge_schema}).schema
    wanted = [(f.name, f.dataType) for f in _schema_of(plan)]
    return panes if [(f.name, f.dataType) for f in found.fields] == wanted else None


def _schema_of(plan: Any) -> list[StructField]:
    return list(StructType.fromJson(json.loads(plan.schema().json())).fields)


def _above(plan: Any) -> tuple[Any, Callable[[str], str]]:
    """The aggregate of a plan, and what HAVING makes of its text."""
    if plan.nodeName() == "Aggregate":
        return plan, lambda text: text
    if plan.nodeName() != "Project" or plan.child().nodeName() != "Filter":
        return None, lambda text: text
    aggregate = plan.child().child()
    if aggregate.nodeName() != "Aggregate":
        return None, lambda text: text
    listed = plan.projectList()
    columns = [listed.apply(i) for i in range(listed.size())]
    if any(column.getClass().getSimpleName() != "AttributeReference" for column in columns):
        return None, lambda text: text
    names = ", ".join(quoted(column.name()) for column in columns)
    having = _unqualified(plan.child().condition())
    return aggregate, lambda text: f"SELECT {names} FROM ({text}) WHERE {having}"  # noqa: S608


def _unqualified(condition: Any) -> str:
    """A condition on the columns of an aggregate, which know their table no more."""
    text: str = condition.sql()
    references = condition.references().toSeq()
    for i in range(references.size()):
        column = references.apply(i)
        text = text.replace(column.sql(), quoted(column.name()))
    return text


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


def _keys(aggregate: Any, alias: str) -> list[str | None] | None:
    """The grouping columns in order, None for the window; None if one is an expression."""
    listed = aggregate.groupingExpressions()
    found: list[str | None] = []
    for i in range(listed.size()):
        key = listed.apply(i)
        if key.getClass().getSimpleName() != "AttributeReference":
            return None
        is_window = key.name() == "window" and key.qualifier().isEmpty()
        found.append(None if is_window else bare_columns(key.sql(), alias))
    return found if found.count(None) == 1 else None


class _Merging:
    """Partials of the aggregate functions of a query, and how they are merged."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self.partials: list[str] = []

    def outputs(self, aggregate: Any) -> list[tuple[str, str, str]] | None:
        """Name, original text and merging text of each column; None if one cannot be merged."""
        listed = aggregate.aggregateExpressions()
        found = []
        for i in range(listed.size()):
            named = listed.apply(i)
            is_alias = named.getClass().getSimpleName() == "Alias"
            inner = named.child() if is_alias else named
            text = bare_columns(inner.sql(), self._alias)
            merged = text
            calls = {bare_columns(call.sql(), self._alias): call for call in _calls(inner)}
            for old in sorted(calls, key=len, reverse=True):  # count(1) FILTER before count(1)
                new = self._merged(calls[old])
                if new is None:
                    return None
                merged = merged.replace(old, new)
            found.append((named.name(), text, merged))
        return found

    def _merged(self, call: Any) -> str | None:
        function = call.aggregateFunction()
        kind = function.getClass().getSimpleName()
        arguments = function.children()
        texts = [
            bare_columns(arguments.apply(i).sql(), self._alias) for i in range(arguments.size())
        ]
        only = call.filter()
        where = ""
        if only.isDefined():
            where = f" FILTER (WHERE {bare_columns(only.get().sql(), self._alias)})"
        result: str = function.dataType().sql()
        if call.isDistinct() or not texts:
            return None
        if kind == "Count":
            return f"sum({self._partial('count', ', '.join(texts), where)})"
        if kind in ("Min", "Max"):
            name = kind.lower()
            return f"{name}({self._partial(name, texts[0], where)})"
        if kind == "Sum" and "INTERVAL" not in result:
            return f"CAST(sum({self._partial('sum', texts[0], where)}) AS {result})"
        if kind == "Average" and result == "DOUBLE":
            total = self._partial("sum", f"CAST({texts[0]} AS DOUBLE)", where)
            count = self._partial("count", texts[0], where)
            return f"try_divide(sum({total}), sum({count}))"
        return None

    def _partial(self, function: str, argument: str, where: str) -> str:
        """The column that holds a partial, one for all that ask for the same."""
        text = f"{function}({argument}){where}"
        if text not in self.partials:
            self.partials.append(text)
        return f"__p{self.partials.index(text)}"


def _calls(expression: Any) -> list[Any]:
    if expression.getClass().getSimpleName() == "AggregateExpression":
        return [expression]
    children = expression.children()
    return [call for i in range(children.size()) for call in _calls(children.apply(i))]
