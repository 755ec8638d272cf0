"""How often the watermark of a direct source moves: once for what came together.

Rows are late by the watermark before their segment. Files of two producers that are a moment apart
are not late by each other as long as the watermark does not move between them: it moves with the
last piece of a discovery, and a trigger after the first rows that raise it, so disorder within a
trigger is tolerated as in the micro-batches of a StreamingQuery.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from daybreak.spark.log.segments import SegmentStore


class TimePace:
    """Decides when one stream's watermark moves. Used by the thread of its source."""

    def __init__(
        self,
        store: SegmentStore,
        stream: str,
        hold_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``hold_s``: the stream's trigger."""
        self._store = store
        self._stream = stream
        self._hold_s = hold_s
        self._monotonic_s = monotonic_s
        #: Since when rows are there that have not moved the watermark.
        self._held_s = monotonic_s()

    def moves(self, *, is_last: bool) -> bool:
        """Tells whether the watermark moves with the next segment; see ``SegmentStore.append``.

        ``is_last``: nothing else of its discovery is left.
        """
        now_s = self._monotonic_s()
        if self._held_us() is None:
            self._held_s = now_s
        return is_last and now_s - self._held_s >= self._hold_s

    def due_s(self) -> float | None:
        """In how many seconds ``move`` is to be called, if no rows come; None: it is not."""
        if self._held_us() is None:
            return None
        return max(0.0, self._held_s + self._hold_s - self._monotonic_s())

    def move(self) -> int | None:
        """Moves a watermark that was held, whether due or not; gives it if it has moved.

        Call it between discoveries: where the last one found nothing, or no more is to come.
        """
        return self._store.move_held_time(self._stream)

    def _held_us(self) -> int | None:
        clock = self._store.clock(self._stream)
        return None if clock is None else clock.held_us
