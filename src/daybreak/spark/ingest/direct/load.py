"""Batches are larger where the run has no time for many small ones."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: The next batch of a stream holds what comes in so much time at least, while there is load. Half
#: of it doubles the segments that a busy loop has to hear of; twice as long doubles what is added
#: to the latency of rows.
LEAST_S = 0.02
#: Segments cost too much beyond this share of a core. Half of it makes streams wait while there is
#: time; twice as much leaves less of the interpreter to jobs.
MOST_SHARE = 0.1
#: The decision loop is behind if it takes so long to hear of a segment. Half of it is what one
#: decision takes; twice as long, and jobs start later before ingest slows down.
BEHIND_S = 0.005
#: What is kept of a measured share for the next second. Half: one pause is forgotten sooner.
_KEPT = 0.5


class SegmentLoad:
    """Follows what the segments of all streams cost. Methods may be called from any thread."""

    def __init__(self, behind_s: Callable[[], float] = lambda: 0.0) -> None:
        """``behind_s``: how far the decision loop is behind."""
        self._behind_s = behind_s
        self._guard = threading.Lock()
        self._since_s = time.monotonic()
        self._spent_s = 0.0
        self._share = 0.0

    def spent(self, seconds: float) -> None:
        """A segment has taken so much time beside the reading of its rows."""
        with self._guard:
            self._spent_s += seconds
            self._measure(time.monotonic())

    def least_s(self) -> float:
        """How much time the rows of the next batch should cover."""
        with self._guard:
            self._measure(time.monotonic())
            busy = self._share > MOST_SHARE
        return LEAST_S if busy or self._behind_s() > BEHIND_S else 0.0

    def _measure(self, now_s: float) -> None:
        passed_s = now_s - self._since_s
        if passed_s >= 1.0:
            kept = _KEPT**passed_s
            self._share = kept * self._share + (1 - kept) * self._spent_s / passed_s
            self._since_s, self._spent_s = now_s, 0.0
