"""Reads a range of a stream as a job does: what it takes of an inbox is what it reads."""

from __future__ import annotations

import pyarrow as pa

from daybreak.engine.inbox import Inbox
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import SegmentStore


def read(
    store: SegmentStore, stream: str, start: Cursor, limit: int | None = None
) -> tuple[pa.Table, Cursor]:
    """At most ``limit`` rows from ``start`` on, and the cursor after them."""
    taken = Inbox.of(store.waiting(stream, start)).take(limit)
    if not taken:
        return store.table(store.segments(stream)[-1]).slice(0, 0), start
    [(began, end)] = store.passed(taken).values()
    assert began == start
    return store.read(taken), end
