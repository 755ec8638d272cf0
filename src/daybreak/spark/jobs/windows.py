"""Windows that closed: which rows of the log they hold, and how a query moves on past them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # its usual name

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.event_time import (
    ANCHORS,
    FOREVER,
    NEVER,
    At,
    Band,
    Grid,
    Times,
    Windowing,
)
from daybreak.spark.log.rows import Cursor, CursorMove, Move, ProgressMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sql.composite import quoted
from daybreak.spark.tasks.segment_frames import SegmentFrames
from daybreak.spark.tasks.task import LeafRows, Leaves

#: The first row of each stream that a query over windows still needs.
Places = Mapping[str, Cursor]


class Range(NamedTuple):
    """Rows of a segment with ``begin_us`` <= event time < ``end_us``."""

    segment: Segment
    begin_us: int
    end_us: int

    def holds(self, at_us: At) -> Any:
        """Tells of each row with an event time whether it is one: an array, or Spark's column."""
        return (at_us >= self.begin_us) & (at_us < self.end_us)


def past(
    query: str,
    windowing: Windowing,
    taken: Sequence[Waiting],
    store: SegmentStore,
    places: Places,
) -> list[Move]:
    """How a query moves on when the windows that ``taken`` closed are done with."""
    closed_us = taken[-1].closes_us
    moves: list[Move] = [ProgressMove(query, taken[0].after_us, closed_us)]
    for stream in windowing.times:
        needed = low_water(windowing, store, stream, places[stream], closed_us)
        moves.append(CursorMove(query, stream, places[stream], needed))
    return moves


def low_water(
    windowing: Windowing, store: SegmentStore, stream: str, start: Cursor, closed_us: int
) -> Cursor:
    """The first segment with a row that windows after ``closed_us`` may hold."""
    needed_us = windowing.needed_from(stream, closed_us)
    kept = _from(store, stream, start)
    for segment in kept:
        if segment.high_us is not None and segment.high_us >= needed_us:
            return max(start, Cursor(segment.seq, 0))
    return Cursor(kept[-1].seq + 1, 0) if kept else start


def _from(store: SegmentStore, stream: str, start: Cursor) -> list[Segment]:
    return [s for s in store.segments(stream) if s.seq >= start.seq]


class Picker:
    """Picks from the segments of a query's streams the rows of windows that close."""

    def __init__(self, windowing: Windowing, store: SegmentStore, places: Places) -> None:
        """``places``: the first rows that open windows may hold."""
        self.windowing = windowing
        self._store = store
        self._kept = {s: _from(store, s, places[s]) for s in windowing.times}

    def steps(self, closed_us: int, bound_us: int) -> Iterator[tuple[int, int]]:
        """Ranges of ends, each of which has one set of rows.

        Where windows overlap, a row may come too late for some of its windows and in time for
        others. Windows before and after that point are then computed apart.
        """
        grid = self.windowing.over
        cuts = {closed_us, bound_us}
        if isinstance(grid, Grid) and grid.overlaps:
            for segment in (s for kept in self._kept.values() for s in kept):
                if _has_late(segment, grid):
                    cut = grid.last_closed(_before(segment))
                    cuts |= {cut} if closed_us < cut < bound_us else set()
        yield from pairwise(sorted(cuts))

    def leaves(
        self, first_us: int, last_us: int, arrival_ns: int, *, past_driver: bool
    ) -> Leaves | None:
        """The rows whose windows end in (first, last]; None if no window has a row.

        ``past_driver``: executors read those of large segments.
        """
        ranges = self._all_ranges(first_us, last_us)
        rows = {
            name: self._rows(name, some, past_driver=past_driver) for name, some in ranges.items()
        }
        deciding = (rows[name] for name in self._deciding(rows))
        if not any(one.table.num_rows or one.large for one in deciding):
            return None
        return Leaves(rows, past_driver, arrival_ns)

    def _deciding(self, names: Iterable[str]) -> list[str]:
        """The names of the rows without which there is no result."""
        over = self.windowing.over
        return [_anchors(over)] if isinstance(over, Band) else list(names)

    def _all_ranges(self, first_us: int, last_us: int) -> dict[str, list[Range]]:
        """Where the rows are whose windows end in (first, last], by the name of their view."""
        over = self.windowing.over
        if last_us == FOREVER:  # that instant, too
            last_us += 1
        found: dict[str, list[Range]] = {}
        for stream in self.windowing.times:
            if isinstance(over, Band):
                if stream == over.anchor:
                    found[_anchors(over)] = self._ranges(stream, first_us, last_us)
                if stream == over.partner:
                    low, high = first_us + over.low_us, last_us + over.high_us
                    found[stream] = self._ranges(stream, low, high)
            else:
                begin = over.begin(first_us) if first_us > NEVER else NEVER
                found[stream] = self._ranges(stream, begin, last_us, first_us)
        return found

    def _ranges(
        self, stream: str, begin_us: int, end_us: int, first_us: int = NEVER
    ) -> list[Range]:
        """Rows with begin <= event time < end that are not late."""
        found = []
        for segment in self._kept[stream]:
            if segment.low_us is None or segment.high_us is None:
                continue
            begin = self._in_time(segment, begin_us, first_us)
            if begin is None or segment.high_us < begin or segment.low_us >= end_us:
                continue
            found.append(Range(segment, begin, end_us))
        return found

    def _in_time(self, segment: Segment, begin_us: int, first_us: int) -> int | None:
        """From which event time on rows of a segment are not late; None if all of them are."""
        before, over = _before(segment), self.windowing.over
        if isinstance(over, Band):
            return max(begin_us, before)
        if not over.overlaps:
            return max(begin_us, over.last_closed(before)) if before > NEVER else begin_us
        # ``steps`` has cut so that all windows in question lie on one side of ``before``.
        late = _has_late(segment, over) and over.last_closed(before) > first_us
        return None if late else begin_us

    def _rows(self, name: str, ranges: Sequence[Range], *, past_driver: bool) -> LeafRows:
        stream = name.removeprefix(ANCHORS)
        large = [one for one in ranges if past_driver and one.segment.parts]
        time = self.windowing.times[stream]
        return LeafRows(
            self._picked(stream, [one for one in ranges if one not in large]),
            large=tuple(partial(_large_rows, stream, time, one) for one in large),
        )

    def _picked(self, stream: str, ranges: Sequence[Range]) -> pa.Table:
        """The rows of ranges, in memory."""
        found = []
        for one in ranges:
            table = self._store.table(one.segment)
            column = table[self.windowing.times[stream]]
            inside = one.holds(instants(column)) & is_timed(column)
            table = table.drop_columns([ARRIVAL])
            found.append(table if inside.all() else table.filter(pa.array(inside)))
        return pa.concat_tables(found) if found else pa.table({})


def _large_rows(stream: str, time: str, wanted: Range, frames: SegmentFrames) -> DataFrame:
    """The rows of a range of a large segment: of its files, those that may hold some."""
    frame = frames.frame(stream, _files(wanted))
    at = Times.of(F.col(quoted(time)), frame.schema[time].dataType)
    return frame.where(wanted.holds(at))


def _files(wanted: Range) -> list[Waiting]:
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


def _anchors(band: Band) -> str:
    """The name of the view of a band's anchors."""
    return ANCHORS + band.anchor if band.anchor == band.partner else band.anchor


def _before(segment: Segment) -> int:
    return NEVER if segment.before_us is None else segment.before_us


def _has_late(segment: Segment, grid: Grid) -> bool:
    """Whether some row of the segment misses one of its windows."""
    if segment.low_us is None:
        return False
    return bool(grid.first_end(np.array([segment.low_us]))[0] <= _before(segment))
