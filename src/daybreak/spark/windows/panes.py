"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The commit of the job that made them keeps the partials, and the rows they stand for need not be
kept (``windows.partials``).
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
from daybreak.spark.composite import plain_schema, typed
from daybreak.spark.logrows import Cursor, CursorMove, Move, PartialsMove, ProgressMove
from daybreak.spark.segments import SegmentStore
from daybreak.spark.tables import ARRIVAL
from daybreak.spark.windows.aggregate import Aggregate, Analyse, Call, filter_clause
from daybreak.spark.windows.clock import instants
from daybreak.spark.windows.partials import Partials, kept
from daybreak.spark.windows.runner import Places, WindowQuery
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


def width_us(grid: Grid) -> int | None:
    """How long a pane is; None where panes are of no use."""
    if not grid.overlaps and grid.length_us <= LONG_US:
        return None
    return gcd(grid.length_us, grid.slide_us, LONG_US)


def compute(
    queries: Sequence[WindowQuery],
    taken: Sequence[Waiting],
    store: SegmentStore,
    partials: Partials,
    places: Places,
    run: RunText,
) -> tuple[list[pa.Table], list[list[Move]]]:
    """The rows of all windows that ``taken`` closed, by query, and how the queries move on.

    The queries share stream, windows and keys, and all are at ``places``.
    """
    panes, windowing = _panes(queries[0]), queries[0].checked.windowing
    assert windowing is not None
    after_us, closed_us = taken[0].after_us, taken[-1].closes_us
    start, end = places[panes.stream], store.end(panes.stream)
    needed_us = windowing.needed_from(panes.stream, closed_us)
    found: list[pa.Table] = []
    moves: list[list[Move]] = []
    for query, made in zip(queries, _made(queries, start, end, store, run), strict=True):
        rows = pa.concat_tables([*partials.tables(query.name, made.schema), made])
        found.append(_with_windows(rows, panes.grid, panes.width_us, after_us, closed_us))
        added = tuple(kept(made, PANE, needed_us))
        moves.append(
            [
                PartialsMove(query.name, panes.stream, start.seq, end.seq, added, needed_us),
                CursorMove(query.name, panes.stream, start, end),
                ProgressMove(query.name, after_us, closed_us),
            ]
        )
    if not any(rows.num_rows for rows in found):
        return [query.schema.empty_table() for query in queries], moves
    merge = Merge([_panes(query) for query in queries])
    merged = run(merge.sql, {PARTIALS: (merge.rows(found), merge.schema)})
    return merge.cut(merged, [query.schema for query in queries]), moves


def _panes(query: WindowQuery) -> Panes:
    assert query.checked.panes is not None
    return query.checked.panes


def _made(
    queries: Sequence[WindowQuery], start: Cursor, end: Cursor, store: SegmentStore, run: RunText
) -> list[pa.Table]:
    """The partials of each query of the rows it has not read yet."""
    panes, windowing = _panes(queries[0]), queries[0].checked.windowing
    assert windowing is not None
    schemas = [kept_schema(_panes(query)) for query in queries]
    fresh = [s for s in store.segments(panes.stream) if start.seq <= s.seq < end.seq]
    parts = [_paned(store.table(s), windowing, panes, s.before_us) for s in fresh]
    rows = pa.concat_tables(parts) if parts else pa.table({})
    if not rows.num_rows:
        return [schema.empty_table() for schema in schemas]
    fill = Fill([_panes(query) for query in queries])
    made = fill.cut(run(fill.sql, {PANED: (rows, panes.paned_schema)}))
    return [typed(table, schema) for table, schema in zip(made, schemas, strict=True)]


def kept_schema(panes: Panes) -> pa.Schema:
    """The columns of partials, as they are kept."""
    return plain_schema(to_arrow_schema(panes.partial_schema, timezone="UTC"))


def way_of(panes: Panes | None) -> str:
    """Identifies how partials are made of a query: others may have the same columns.

    Without types, which change with the schema of the stream: partials are widened as rows are.
    """
    if panes is None:
        return ""
    keys, functions = panes.aggregate.plain_keys, [p.function for p in panes.partials]
    return f"{panes.width_us} us by {', '.join(keys)}: {', '.join(functions)}"


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
