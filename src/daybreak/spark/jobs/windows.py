"""Computes the windows that closed: their rows, picked from the log, and the query's own SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.event_time import ANCHORS, FOREVER, NEVER, Band, Grid, Windowing
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.rows import Cursor, CursorMove, Move, ProgressMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL, joined_rows

Tables = dict[str, pa.Table]
#: The first row of each stream that a query over windows still needs.
Places = Mapping[str, Cursor]


class Range(NamedTuple):
    """Rows of a segment with ``begin_us`` <= event time < ``end_us``."""

    segment: Segment
    begin_us: int
    end_us: int


class WindowQuery(Protocol):
    """What is asked of a query."""

    @property
    def name(self) -> str: ...
    @property
    def schema(self) -> pa.Schema: ...


def compute(
    queries: Sequence[WindowQuery],
    windowings: Sequence[Windowing],
    taken: Sequence[Waiting],
    store: SegmentStore,
    places: Places,
    run: Callable[[Tables], Sequence[pa.Table]],
) -> tuple[list[pa.Table], list[list[Move]]]:
    """The rows of all windows that ``taken`` closed, by query, and how the queries move on.

    The queries share streams and windows, and all are at ``places``; ``windowings`` tell their
    result columns. ``run`` gives their results over one table per stream.
    """
    moves, picker = begin(queries, windowings[0], taken, store, places)
    results: list[list[pa.Table]] = [[] for _ in queries]
    for first, last in picker.steps(taken[0].after_us, taken[-1].closes_us):
        for tables in picker.tables(first, last):
            each = zip(windowings, results, run(tables), strict=True)
            for own, found, result in each:
                found.append(cut(own, result, first, last))
    pairs = zip(queries, results, strict=True)
    return [joined_rows(found, query.schema) for query, found in pairs], moves


def begin(
    queries: Sequence[WindowQuery],
    windowing: Windowing,
    taken: Sequence[Waiting],
    store: SegmentStore,
    places: Places,
) -> tuple[list[list[Move]], Picker]:
    """How queries move on past the windows that ``taken`` closed, and what finds their rows."""
    moves = [past(query.name, windowing, taken, store, places) for query in queries]
    kept = {s: _from(store, s, places[s]) for s in windowing.times}
    return moves, Picker(windowing, store, kept)


def cut(windowing: Windowing, result: pa.Table, first_us: int, last_us: int) -> pa.Table:
    """Without windows that were emitted before, or are still open."""
    grid, marks = windowing.over, windowing.marks
    if not isinstance(grid, Grid) or not grid.overlaps:
        return result
    column, kind = next(iter(marks.items()))
    told = result[column]
    if kind == "window":
        told = pa.chunked_array([chunk.field("end") for chunk in told.chunks], told.type[1].type)
    at = instants(told) + (grid.length_us if kind == "start" else 0)
    return result.filter(pa.array((at > first_us) & (at <= last_us)))


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


def with_anchors(windowing: Windowing | None, rows: Tables) -> Tables:
    """Any rows under all names that the query's text has for them."""
    over = None if windowing is None else windowing.over
    if not isinstance(over, Band) or over.anchor != over.partner:
        return rows
    return {**rows, ANCHORS + over.anchor: rows[over.anchor]}


class Picker:
    """Picks from the segments of a query's streams the rows of windows that close."""

    def __init__(
        self, windowing: Windowing, store: SegmentStore, kept: Mapping[str, Sequence[Segment]]
    ) -> None:
        self.windowing = windowing
        self._store = store
        self._kept = kept

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

    def tables(self, first_us: int, last_us: int) -> Iterator[Tables]:
        """One table per stream of the rows whose windows end in (first, last], if there are any."""
        found = self.ranges(first_us, last_us)
        tables = {name: self._picked(name, ranges) for name, ranges in found.items()}
        if any(tables[name].num_rows for name in self.deciding(tables)):
            yield tables

    def deciding(self, names: Iterable[str]) -> list[str]:
        """The names of the rows without which there is no result."""
        over = self.windowing.over
        return [_anchors(over)] if isinstance(over, Band) else list(names)

    def ranges(self, first_us: int, last_us: int) -> dict[str, list[Range]]:
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

    def _picked(self, name: str, ranges: Sequence[Range]) -> pa.Table:
        stream = name.removeprefix(ANCHORS)
        parts = [self.rows(stream, one) for one in ranges]
        if not parts:
            kept = self._kept[stream]
            return pa.table({}) if not kept else self._empty(kept[0])
        return pa.concat_tables(parts)

    def _empty(self, segment: Segment) -> pa.Table:
        return _without_stamp(self._store.sample(segment, 1).slice(0, 0))

    def rows(self, stream: str, wanted: Range) -> pa.Table:
        """The rows of a range, in memory."""
        table = self._store.table(wanted.segment)
        column = table[self.windowing.times[stream]]
        at = instants(column)
        inside = (at >= wanted.begin_us) & (at < wanted.end_us) & is_timed(column)
        return _without_stamp(table if inside.all() else table.filter(pa.array(inside)))


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


def _without_stamp(table: pa.Table) -> pa.Table:
    return table.drop_columns([ARRIVAL])
