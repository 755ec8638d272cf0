"""The inbox of a query, by its form, with what already waits for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from daybreak.engine.inbox import EntireInbox, Inbox
from daybreak.spark.jobs.window_inbox import replayed
from daybreak.spark.log.event_time import NEVER
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
