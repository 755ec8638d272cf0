"""Windows over large segments: their rows are picked, computed and written by executors.

Which rows belong to windows that close, and which are late, is decided as for rows in memory
(``windows.Picker``, ``panes``): a range of event time per segment, here a condition for Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import DataType, TimestampNTZType

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.spark.event_time import FOREVER, NEVER, Windowing
from daybreak.spark.jobs.executor_jobs import Cut, ExecutorJobs, Result, Written
from daybreak.spark.jobs.windows import Range, cut
from daybreak.spark.log.rows import SegmentRow
from daybreak.spark.log.tables import joined_rows
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.windows.pane_plans import LATE, PANE, Panes


@dataclass(frozen=True)
class CutWindows:
    """Each query's rows without windows that were emitted before, or are still open."""

    results: Cut
    windowings: tuple[Windowing, ...]
    first_us: int
    last_us: int

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return [
            cut(own, result, self.first_us, self.last_us)
            for own, result in zip(self.windowings, self.results(table), strict=True)
        ]


def range_frame(jobs: ExecutorJobs, stream: str, time: str, wanted: Range) -> DataFrame:
    """The rows of a range of a large segment: of its files, those that may hold some."""
    frame = jobs.frame(stream, parts_within(wanted))
    at, kind = F.col(quoted(time)), frame.schema[time].dataType
    inside = at.isNotNull()
    if wanted.begin_us > NEVER:
        inside &= _not_before(at, kind, wanted.begin_us)
    if wanted.end_us <= FOREVER:
        inside &= ~_not_before(at, kind, wanted.end_us)
    return frame.where(inside)


def parts_within(wanted: Range) -> list[Waiting]:
    """The files of a large segment with rows in a range."""
    segment, found, row = wanted.segment, [], 0
    for part in segment.parts:
        if part.low_us is not None and part.high_us is not None:
            inside = part.high_us >= wanted.begin_us and part.low_us < wanted.end_us
            item = Waiting(
                segment.arrival_ns, segment.stream, part.rows, segment.seq, row, whole=True
            )
            found += [item] if inside else []
        row += part.rows
    return found


def paned_frame(
    jobs: ExecutorJobs, segment: SegmentRow, windowing: Windowing, panes: Panes
) -> DataFrame:
    """The rows of a large segment with the end of their pane; as ``panes.paned`` in memory."""
    frame = jobs.frame(panes.stream, by_borders(segment))
    time = windowing.times[panes.stream]
    grid, width = panes.grid, panes.width_us
    before = NEVER if segment.before_us is None else segment.before_us
    at = micros(F.col(quoted(time)), frame.schema[time].dataType)
    first_end = _next(at, grid.offset_us + grid.length_us, grid.slide_us)
    last_end = _next(at, grid.offset_us, grid.slide_us) - grid.slide_us + grid.length_us
    pane = _next(at, grid.offset_us, width)
    late = F.when(first_end <= before, F.lit(before)).otherwise(F.lit(NEVER))
    columns = [F.col(quoted(name)).alias(f"c{i}") for i, name in enumerate(frame.columns)]
    inside = at.isNotNull() & (last_end > before)
    return frame.where(inside).select(
        *columns,
        F.coalesce(pane, F.lit(NEVER)).alias(PANE),
        late.cast("long").alias(LATE),
    )


def micros(at: Column, kind: DataType) -> Column:
    """An instant as microseconds since 1970; of one without a time zone, as if it were UTC."""
    if not isinstance(kind, TimestampNTZType):
        return F.unix_micros(at)
    days = F.datediff(at.cast("date"), F.lit("1970-01-01").cast("date")).cast("long")
    seconds = (F.date_part(F.lit("SECOND"), at) * 1_000_000).cast("long")
    hours = days * 24 + F.hour(at)
    return (hours * 60 + F.minute(at)) * 60_000_000 + seconds


def _not_before(at: Column, kind: DataType, us: int) -> Column:
    """In a form that Spark can compare with what files state of themselves, if there is one."""
    if isinstance(kind, TimestampNTZType):
        return micros(at, kind) >= us
    return at >= F.timestamp_micros(F.lit(us).cast("long"))


def _next(at: Column, offset_us: int, step_us: int) -> Column:
    """The first of ``offset + k x step`` after an instant."""
    return at - F.pmod(at - offset_us, F.lit(step_us).cast("long")) + step_us


def joined(results: Sequence[Sequence[Result]]) -> list[Result]:
    """The results of each query over several steps as one."""
    found: list[Result] = []
    for mine in zip(*results, strict=True):
        if isinstance(mine[0], Written):
            files = tuple(file for one in mine for file in one.files)
            found.append(Written(files, sum(one.num_rows for one in mine)))
        else:
            found.append(joined_rows(mine, mine[0].schema))
    return found
