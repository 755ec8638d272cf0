"""How often the watermark of a direct source moves: once for what was found together.

Rows are late by the watermark before their segment. Files of two producers that are a moment apart
are not late by each other as long as the watermark does not move between them: it moves once per
discovery, with its last piece, and at most once per trigger.
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
        every_s: float,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``every_s``: the stream's trigger."""
        self._store = store
        self._stream = stream
        self._every_s = every_s
        self._monotonic_s = monotonic_s
        self._moved_s = -every_s

    def moves(self, *, is_last: bool) -> bool:
        """Tells whether the watermark moves with the next segment; see ``SegmentStore.append``.

        ``is_last``: nothing else of its discovery is left.
        """
        now_s = self._monotonic_s()
        if not is_last or now_s - self._moved_s < self._every_s:
            return False
        self._moved_s = now_s
        return True

    def due_s(self) -> float | None:
        """In how many seconds ``move`` is to be called, if no rows come; None: it is not."""
        clock = self._store.clock(self._stream)
        if clock is None or clock.held_us is None:
            return None
        return max(0.0, self._moved_s + self._every_s - self._monotonic_s())

    def move(self) -> int | None:
        """Moves a watermark that was held, whether due or not; gives it if it has moved.

        Call it between discoveries: where the last one found nothing, or no more is to come.
        """
        self._moved_s = self._monotonic_s()
        return self._store.move_held_time(self._stream)
