"""What waits for a query on Spark, by its form: rows, or windows that are closed and not emitted.

Rows of an open window are nobody's work yet. When a segment is durable that closes windows, they
become pending, and the response time of their results runs from then. Pending is counted in rows,
as for other queries: those that came since windows were last closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Self

from daybreak.engine.inbox import Arrival, EntireInbox, Inbox, Tick, WholeInbox, closing
from daybreak.spark.log.event_time import NEVER, Windowing
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sql.forms import Form, OverRetained, OverState, OverWindows


def inbox_of(
    form: Form,
    store: SegmentStore,
    starts: Mapping[str, Cursor],
    closed_us: int = NEVER,
    end_seq: Callable[[str], int | None] = lambda _stream: None,
) -> Inbox:
    """``starts``: the next row of each stream. ``closed_us``: windows up to here are emitted.

    ``end_seq``: the segment of a stream that is announced next; None: none of those kept is.
    """
    if isinstance(form, OverWindows):
        return replayed(form.windowing, store, starts, closed_us)
    kind = EntireInbox if isinstance(form, OverRetained | OverState) else Inbox
    return kind.of(item for s, at in starts.items() for item in store.waiting(s, at, end_seq(s)))


def first_row(form: Form, store: SegmentStore, stream: str) -> Cursor:
    """Where a new query begins: with what comes next, in complete mode with what is retained."""
    return store.begin(stream) if isinstance(form, OverRetained) else store.end(stream)


class WindowInbox(WholeInbox):
    """Turns segments and marks into closed windows that wait. Used by the loop's thread."""

    def __init__(self, windowing: Windowing, closed_us: int = NEVER) -> None:
        super().__init__()
        self._windowing = windowing
        self._watermarks = dict.fromkeys(windowing.times, NEVER)
        self._closed_us = NEVER
        self._rows = 0
        #: Windows up to here are emitted, or wait.
        self._put_us = closed_us

    def copy(self) -> Self:
        twin = super().copy()
        twin._watermarks = dict(self._watermarks)
        return twin

    def arrive(self, segment: Arrival) -> int:
        assert segment.after_us is not None
        tick = Tick(segment.arrival_ns, segment.stream, segment.rows, segment.after_us)
        return self.tick(tick)

    def tick(self, tick: Tick) -> int:
        """Moves a stream's watermark; returns how many tuples are pending because of it."""
        self._rows += tick.rows
        known = self._watermarks[tick.stream]
        self._watermarks[tick.stream] = max(known, tick.watermark_us)
        if NEVER in self._watermarks.values():
            return 0  # a stream that has not spoken yet
        bound = self._windowing.bound(self._watermarks)
        if bound <= self._closed_us:
            return 0
        rows, self._rows, self._closed_us = max(1, self._rows), 0, bound
        if bound <= self._put_us:
            return 0
        self.put(closing(tick.arrival_ns, tick.stream, rows, self._put_us, bound))
        self._put_us = bound
        return rows


def replayed(
    windowing: Windowing,
    store: SegmentStore,
    starts: Mapping[str, Cursor],
    closed_us: int = NEVER,
) -> WindowInbox:
    """The inbox as the log has it: what is closed and not emitted is pending again.

    ``starts``: from where on the query still looks at each stream.
    """
    inbox = WindowInbox(windowing, closed_us)
    for tick in sorted(_ticks(windowing, store, starts)):
        inbox.tick(tick)
    return inbox


def _ticks(
    windowing: Windowing, store: SegmentStore, starts: Mapping[str, Cursor]
) -> Iterable[Tick]:
    for stream in windowing.times:
        newest_ns = 0
        for s in store.segments(stream):
            newest_ns = s.arrival_ns
            if s.after_us is not None:
                rows = s.rows if s.seq >= starts[stream].seq else 0
                yield Tick(s.arrival_ns, stream, rows, s.after_us)
        clock = store.clock(stream)
        if clock is not None and clock.watermark_us > NEVER:
            yield Tick(newest_ns + 1, stream, 0, clock.watermark_us)
