"""The inbox of a query on Spark, by its form, with what already waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from daybreak.engine.inbox import EntireInbox, Inbox, Tick
from daybreak.engine.window_inbox import WindowInbox
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


def replayed(
    windowing: Windowing,
    store: SegmentStore,
    starts: Mapping[str, Cursor],
    closed_us: int = NEVER,
) -> WindowInbox:
    """The inbox as the log has it: what is closed and not emitted is pending again.

    ``starts``: from where on the query still looks at each stream.
    """
    inbox = WindowInbox(windowing.closing, closed_us)
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
