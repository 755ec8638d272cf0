"""Panes: long or overlapping windows, computed from partial aggregates of short stretches.

A row of a window of 60 s by 1 s belongs to sixty windows. Instead of reading it sixty times, each
stretch of one second (a pane) is aggregated once, and a window merges the partials of its panes.
The commit of the job that made them keeps the partials, and the rows they stand for need not be
kept (``log.partials``).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.inbox import by_borders
from daybreak.model.errors import ConfigError
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.event_time import NEVER, Grid, Times, Windowing, following
from daybreak.spark.log.segments import Segment
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sql.composite import plain_schema, quoted
from daybreak.spark.sql.windows.pane_plans import LATE, PANE, WINDOW, Panes
from daybreak.spark.tasks.segment_frames import SegmentFrames


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


def large_rows(
    segment: Segment,
    windowing: Windowing,
    panes: Panes,
    after_us: int,
    frames: SegmentFrames,
) -> DataFrame:
    """The rows of a large segment as ``paned`` gives them, for executors to read."""
    frame = frames.frame(panes.stream, by_borders(segment))
    before = NEVER if segment.before_us is None else segment.before_us
    time = windowing.times[panes.stream]
    at = Times.of(F.col(quoted(time)), frame.schema[time].dataType)
    late = F.when(windowing.late(at, before), F.lit(before)).otherwise(F.lit(NEVER))
    wanted = at.us.isNotNull() & (panes.grid.last_end(at) > max(before, after_us))
    return frame.where(wanted).select(
        *(F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(frame.columns)),
        following(at, panes.grid.offset_us, panes.width_us).us.alias(PANE),
        late.cast("long").alias(LATE),
    )


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
