"""Reads a range of a stream as a job does: what it takes of an inbox is what it reads."""

from __future__ import annotations

import pyarrow as pa

from daybreak.engine.inbox import Inbox, Waiting
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import SegmentStore


def read(
    store: SegmentStore, stream: str, start: Cursor, limit: int | None = None
) -> tuple[pa.Table, Cursor]:
    """At most ``limit`` rows from ``start`` on, and the cursor after them."""
    inbox, taken, left = Inbox.of(store.waiting(stream, start)), list[Waiting](), limit
    # A job takes rows of files, or rows in memory.
    while left != 0 and (more := inbox.take(left, cuts=True)):
        taken += more
        left = None if left is None else left - sum(item.tuples for item in more)
    if not taken:
        return store.table(store.segments(stream)[-1]).slice(0, 0), start
    [(began, end)] = store.passed(taken).values()
    assert began == start
    return store.read(taken), end
