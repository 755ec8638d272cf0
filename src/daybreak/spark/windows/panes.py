"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The partials are segments of a stream of their own, and the rows they stand for need not be kept.

What a partial segment stands for is written with it (the segments of the stream it was made
from), and it follows from the log. So a crash between a partial and the commit of its job leaves
a partial that the next job finds and does not make again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.runtime.inbox import Waiting
from daybreak.spark.logrows import Cursor
from daybreak.spark.segments import ARRIVAL, SegmentStore
from daybreak.spark.windows.clock import instants
from daybreak.spark.windows.pane_plans import LATE, PANE, WINDOW, Panes
from daybreak.spark.windows.runner import CLOSED, Ranges, WindowQuery
from daybreak.spark.windows.times import NEVER, Grid, Windowing


class PaneJobs(Protocol):
    """Runs the two plans of queries that share stream, windows and keys."""

    def fill(self, queries: Sequence[Any], rows: pa.Table) -> list[pa.Table]:
        """The partials of each query, from rows with their panes."""

    def merge(self, queries: Sequence[Any], partials: Sequence[pa.Table]) -> list[pa.Table]:
        """The result of each query, from its partials with their windows."""


def pane_stream(query: str) -> str:
    """The stream that holds a query's partials."""
    return f"{query}#panes"


def compute(
    queries: Sequence[WindowQuery],
    taken: Sequence[Waiting],
    store: SegmentStore,
    cursors: Mapping[tuple[str, str], Cursor],
    jobs: PaneJobs,
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
    end = _fill(queries, starts, store, jobs)
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
    return jobs.merge(queries, found), ranges


def _panes(query: WindowQuery) -> Panes:
    assert query.checked.panes is not None
    return query.checked.panes


def _fill(
    queries: Sequence[WindowQuery], starts: Sequence[Cursor], store: SegmentStore, jobs: PaneJobs
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
        _fill_from(first, end, some, store, jobs)
    return Cursor(end, 0)


def _fill_from(
    first: int, end: int, queries: Sequence[WindowQuery], store: SegmentStore, jobs: PaneJobs
) -> None:
    panes, windowing = _panes(queries[0]), queries[0].checked.windowing
    assert windowing is not None
    fresh = [s for s in store.segments(panes.stream) if first <= s.seq < end]
    if not fresh:
        return
    parts = [_paned(store.table(s), windowing, panes, s.before_us) for s in fresh]
    rows = pa.concat_tables(parts)
    if rows.num_rows:
        made = jobs.fill(queries, rows)
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
    rows = table.drop_columns([ARRIVAL])
    # Named by position: a column of the user's may be called as ours are.
    rows = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    rows = rows.append_column(PANE, pa.array(pane))
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
