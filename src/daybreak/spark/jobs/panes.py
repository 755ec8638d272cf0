"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The commit of the job that made them keeps the partials, and the rows they stand for need not be
kept (``log.partials``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.inbox import Waiting
from daybreak.model.errors import ConfigError
from daybreak.spark.event_time import NEVER, Grid, Windowing, following
from daybreak.spark.jobs.windows import Places, WindowQuery
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.partials import Partials, kept
from daybreak.spark.log.rows import CursorMove, Move, PartialsMove, ProgressMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sql.composite import plain_schema, typed
from daybreak.spark.sql.forms import PanedAggregate
from daybreak.spark.sql.windows.pane_plans import LATE, PANE, WINDOW, Panes


class PaneJobs(Protocol):
    """Runs the two plans of queries that share stream, windows and keys."""

    def fill(self, queries: Sequence[Any], rows: pa.Table) -> list[pa.Table]:
        """The partials of each query, from rows with their panes."""

    def merge(self, queries: Sequence[Any], partials: Sequence[pa.Table]) -> list[pa.Table]:
        """The result of each query, from its partials with their windows."""

    def fill_large(self, queries: Sequence[Any], segments: Sequence[Segment]) -> list[pa.Table]:
        """The partials of each query, from all rows of large segments."""


def compute(
    queries: Sequence[WindowQuery],
    forms: Sequence[PanedAggregate],
    taken: Sequence[Waiting],
    store: SegmentStore,
    partials: Partials,
    places: Places,
    jobs: PaneJobs,
) -> tuple[list[pa.Table], list[list[Move]]]:
    """The rows of all windows that ``taken`` closed, by query, and how the queries move on.

    The queries share stream, windows and keys, and all are at ``places``; ``forms`` in their order.
    """
    panes, windowing = forms[0].panes, forms[0].windowing
    after_us, closed_us = taken[0].after_us, taken[-1].closes_us
    start, end = places[panes.stream], store.end(panes.stream)
    needed_us = windowing.needed_from(panes.stream, closed_us)
    found: list[pa.Table] = []
    moves: list[list[Move]] = []
    fresh = [s for s in store.segments(panes.stream) if start.seq <= s.seq < end.seq]
    for query, made in zip(
        queries, _made(queries, forms, fresh, after_us, store, jobs), strict=True
    ):
        rows = pa.concat_tables([*partials.tables(query.name, made.schema), made])
        found.append(with_windows(rows, panes.grid, panes.width_us, after_us, closed_us))
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
    return jobs.merge(queries, found), moves


def _made(
    queries: Sequence[WindowQuery],
    forms: Sequence[PanedAggregate],
    fresh: Sequence[Segment],
    after_us: int,
    store: SegmentStore,
    jobs: PaneJobs,
) -> list[pa.Table]:
    """The partials of each query of segments it has not read yet, for windows after an instant."""
    panes, windowing = forms[0].panes, forms[0].windowing
    schemas = [kept_schema(form.panes) for form in forms]
    small = [segment for segment in fresh if not segment.parts]
    parts = [paned(store.table(s), windowing, panes, s.before_us, after_us) for s in small]
    rows = pa.concat_tables(parts) if parts else pa.table({})
    made = [jobs.fill(queries, rows)] if rows.num_rows else []
    large = [segment for segment in fresh if segment.parts]
    made += [jobs.fill_large(queries, large)] if large else []
    if not made:
        return [schema.empty_table() for schema in schemas]
    return [
        pa.concat_tables([typed(table, schema) for table in tables])
        for tables, schema in zip(zip(*made, strict=True), schemas, strict=True)
    ]


def kept_schema(panes: Panes) -> pa.Schema:
    """The columns of partials, as they are kept."""
    return plain_schema(to_arrow_schema(panes.partial_schema, timezone="UTC"))


def way_of(panes: Panes) -> str:
    """Identifies how partials are made of a query: others may have the same columns.

    Without types, which change with the schema of the stream: partials are widened as rows are.
    """
    keys = ", ".join(field.name for field in panes.key_fields)
    return f"{panes.width_us} us by {keys}: {', '.join(panes.functions)}"


def paned(
    table: pa.Table, windowing: Windowing, panes: Panes, before_us: int | None, after_us: int
) -> pa.Table:
    """The rows with the end of their pane, and the watermark that some windows of theirs missed.

    Without rows whose windows all end by ``after_us``. ``ConfigError`` if a window of the others
    is none that a TIMESTAMP holds.
    """
    grid, width = panes.grid, panes.width_us
    before = NEVER if before_us is None else before_us
    column = table[windowing.times[panes.stream]]
    at = instants(column)
    wanted = is_timed(column) & (grid.last_end(at) > max(before, after_us))
    if not grid.holds(at[wanted]):
        raise ConfigError(
            f"stream {panes.stream!r}",
            "has an event time in a window that begins or ends beyond what a TIMESTAMP holds",
            "leave such rows out where they are made, or go past them: daybreak resume --skip",
        )
    rows = table.drop_columns([ARRIVAL])
    # Named by position: a column of the user's may be called as ours are.
    rows = rows.rename_columns([f"c{i}" for i in range(rows.num_columns)])
    rows = rows.append_column(PANE, pa.array(following(at, grid.offset_us, width)))
    late = np.where(windowing.late(at, before), before, NEVER)
    rows = rows.append_column(LATE, pa.array(late))
    return rows if wanted.all() else rows.filter(pa.array(wanted))


def with_windows(
    partials: pa.Table, grid: Grid, width: int, closed_us: int, bound_us: int
) -> pa.Table:
    """Each partial once for every window it belongs to that ends in (closed, bound]."""
    first = partials[PANE].to_numpy() - width
    late = partials[LATE].to_numpy()
    rows = [np.empty(0, np.int64)]
    ends = [np.empty(0, np.int64)]
    end, last = grid.first_end(first), grid.last_end(first)
    more = (last - end) // grid.slide_us  # windows after the first: none ends beyond FOREVER
    for step in range(int(more.max(initial=-1)) + 1):
        ends_at = end + step * grid.slide_us
        inside = (ends_at > closed_us) & (ends_at <= bound_us) & (ends_at > late)
        at = np.flatnonzero(inside & (step <= more))
        rows.append(at)
        ends.append(ends_at[at])
    taken, when = np.concatenate(rows), np.concatenate(ends)
    stamp = pa.timestamp("us", "UTC")
    columns = [pa.array(us).cast(stamp) for us in (when - grid.length_us, when)]
    window = pa.StructArray.from_arrays(columns, ["start", "end"])
    return partials.take(pa.array(taken)).append_column(WINDOW, window)
