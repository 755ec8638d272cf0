"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The partials are segments of a stream of their own, and the rows they stand for need not be kept.

What a partial segment stands for is written with it (the segments of the stream it was made
from), and it follows from the log. So a crash between a partial and the commit of its job leaves
a partial that the next job finds and does not make again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructType

from daybreak.runtime.inbox import Waiting
from daybreak.spark.logrows import Cursor
from daybreak.spark.segments import ARRIVAL, SegmentStore
from daybreak.spark.windows.aggregate import Aggregate, Analyse, Call, filter_clause
from daybreak.spark.windows.clock import instants
from daybreak.spark.windows.runner import CLOSED, Ranges, WindowQuery
from daybreak.spark.windows.times import NEVER, US_PER_S, Grid, Windowing
from daybreak.spark.windows.together import (
    LATE,
    PANE,
    PANED,
    PARTIALS,
    WINDOW,
    Fill,
    Merge,
    Together,
)

#: A tumbling window longer than this is computed from panes, too.
LONG_US = 60 * US_PER_S

#: Runs a text over tables, each under a name and with the types Spark gives it.
RunText = Callable[[str, Mapping[str, tuple[pa.Table, StructType]]], pa.Table]


@dataclass(frozen=True)
class Partial:
    """A partial aggregate that is kept of a pane: ``function(argument) FILTER (WHERE only)``."""

    function: str
    argument: str
    only: str | None

    def text(self, condition: str | None = None) -> str:
        """Where a condition is given, it counts only rows that meet that, too."""
        return f"{self.function}({self.argument}){filter_clause(condition, self.only)}"


@dataclass(frozen=True)
class Panes:
    """A window aggregate as partials and their merging."""

    aggregate: Aggregate
    width_us: int
    partials: tuple[Partial, ...]
    #: Name of each column of the aggregate, and its text over partials ``__p0``, ``__p1``, ...
    merging: tuple[tuple[str, str], ...]
    paned_schema: StructType
    partial_schema: StructType

    @property
    def stream(self) -> str:
        return self.aggregate.stream

    @property
    def grid(self) -> Grid:
        return self.aggregate.grid


def pane_stream(query: str) -> str:
    """The stream that holds a query's partials."""
    return f"{query}#panes"


def width_us(grid: Grid) -> int | None:
    """How long a pane is; None where panes are of no use."""
    if not grid.overlaps and grid.length_us <= LONG_US:
        return None
    return gcd(grid.length_us, grid.slide_us, LONG_US)


def compute(
    queries: Sequence[WindowQuery],
    taken: Sequence[Waiting],
    store: SegmentStore,
    cursors: Mapping[tuple[str, str], Cursor],
    run: RunText,
) -> tuple[list[pa.Table], list[Ranges]]:
    """The rows of all windows that ``taken`` closed, by query, and how their cursors move.

    The queries share stream, windows and keys, and are at the same place.
    """
    first, panes = queries[0], _panes(queries[0])
    assert first.checked.windowing is not None
    closed = cursors[first.name, CLOSED]
    bound = max(closed.seq, *(item.closes_us for item in taken))
    # How far they have looked at the stream depends on when they last ran.
    starts = [cursors[query.name, panes.stream] for query in queries]
    end = _fill(queries, starts, store, run)
    needed = first.checked.windowing.needed_from(panes.stream, bound)
    found, ranges = [], []
    for query, start in zip(queries, starts, strict=True):
        held = pane_stream(query.name)
        low = cursors[query.name, held]
        kept = [s for s in store.segments(held) if s.seq >= low.seq]
        still = [s.seq for s in kept if s.high_us is not None and s.high_us > needed]
        after = Cursor(min(still) if still else store.end(held).seq, 0)
        ranges.append(
            {
                CLOSED: (closed, Cursor(bound, 0)),
                panes.stream: (start, end),
                held: (low, max(low, after)),
            }
        )
        parts = [store.table(s).drop_columns([ARRIVAL]) for s in kept]
        if not parts:
            schema = to_arrow_schema(_panes(query).partial_schema, timezone="UTC")
            parts = [schema.empty_table()]
        rows = pa.concat_tables(parts)
        found.append(_with_windows(rows, panes.grid, panes.width_us, closed.seq, bound))
    if not any(rows.num_rows for rows in found):
        return [query.schema.empty_table() for query in queries], ranges
    merge = Merge([_panes(query) for query in queries])
    merged = run(merge.sql, {PARTIALS: (merge.rows(found), merge.schema)})
    return merge.cut(merged, [query.schema for query in queries]), ranges


def _panes(query: WindowQuery) -> Panes:
    assert query.checked.panes is not None
    return query.checked.panes


def _fill(
    queries: Sequence[WindowQuery], starts: Sequence[Cursor], store: SegmentStore, run: RunText
) -> Cursor:
    """Makes partials of the segments that have none; returns where the stream goes on."""
    end = store.end(_panes(queries[0]).stream).seq
    by_first: dict[int, list[WindowQuery]] = {}
    for query, start in zip(queries, starts, strict=True):
        held = store.segments(pane_stream(query.name))
        # A partial that was made by a job that did not commit.
        first = max(start.seq, held[-1].batch_id if held else 0)
        by_first.setdefault(first, []).append(query)
        end = max(end, first)
    for first, some in by_first.items():
        _fill_from(first, end, some, store, run)
    return Cursor(end, 0)


def _fill_from(
    first: int, end: int, queries: Sequence[WindowQuery], store: SegmentStore, run: RunText
) -> None:
    panes, windowing = _panes(queries[0]), queries[0].checked.windowing
    assert windowing is not None
    fresh = [s for s in store.segments(panes.stream) if first <= s.seq < end]
    if not fresh:
        return
    parts = [_paned(store.table(s), windowing, panes, s.before_us) for s in fresh]
    rows = pa.concat_tables(parts)
    if rows.num_rows:
        fill = Fill([_panes(query) for query in queries])
        made = fill.cut(run(fill.sql, {PANED: (rows, panes.paned_schema)}))
        for query, partials in zip(queries, made, strict=True):
            held, arrival_ns = pane_stream(query.name), fresh[-1].arrival_ns
            store.append(held, "panes", end, [first, end], partials, arrival_ns)


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
    rows = [np.empty(0, np.int64)]
    ends = [np.empty(0, np.int64)]
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
    return partials.take(pa.array(taken)).append_column(WINDOW, window)


# Taking apart


def panes_of(aggregate: Aggregate, schema: StructType, analyse: Analyse) -> Panes | None:
    """How an aggregate is made of panes; None if they are of no use, or cannot be merged.

    ``schema``: the columns of its stream.
    """
    width = width_us(aggregate.grid)
    merging = _Merging()
    try:
        merged = tuple((c.name, c.with_calls(merging.merged)) for c in aggregate.columns)
    except _Unmergeable:
        return None
    if width is None:
        return None
    more = StructType.fromDDL(f"{PANE} BIGINT, {LATE} BIGINT")
    assert isinstance(more, StructType)
    paned = StructType([*schema.fields, *more.fields])
    partials = tuple(merging.partials)
    panes = Panes(aggregate, width, partials, merged, paned, StructType())
    partial = analyse(Fill([panes]).partial_sql, {PANED: paned}).schema
    panes = replace(panes, partial_schema=partial)
    merge = Merge([panes])
    merged_types = _types(analyse(merge.sql, {PARTIALS: merge.schema}))
    return panes if merged_types == _types(analyse(Together([aggregate]).sql, {})) else None


def _types(frame: DataFrame) -> list[DataType]:
    return [field.dataType for field in frame.schema.fields]


class _Unmergeable(Exception):
    """An aggregate function whose partials cannot be merged."""


class _Merging:
    """Partials of the aggregate functions of a query, and how they are merged."""

    def __init__(self) -> None:
        self.partials: list[Partial] = []

    def merged(self, call: Call) -> str:
        """The text that merges the partials of a call."""
        if call.is_distinct or not call.arguments:
            raise _Unmergeable
        listed, only = ", ".join(call.arguments), call.only
        if call.kind == "Count":
            return f"sum({self._holder('count', listed, only)})"
        if call.kind in ("Min", "Max"):
            name = call.kind.lower()
            return f"{name}({self._holder(name, listed, only)})"
        if call.kind == "Sum" and "INTERVAL" not in call.type:
            return f"CAST(sum({self._holder('sum', listed, only)}) AS {call.type})"
        if call.kind == "Average" and call.type == "DOUBLE":
            total = self._holder("sum", f"CAST({listed} AS DOUBLE)", only)
            return f"try_divide(sum({total}), sum({self._holder('count', listed, only)}))"
        raise _Unmergeable

    def _holder(self, function: str, argument: str, only: str | None) -> str:
        """The column that holds a partial, one for all that ask for the same."""
        partial = Partial(function, argument, only)
        if partial not in self.partials:
            self.partials.append(partial)
        return f"__p{self.partials.index(partial)}"
