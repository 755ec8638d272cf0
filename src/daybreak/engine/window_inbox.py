"""What waits for a query over windows: windows that are closed and not yet emitted.

Rows of an open window are nobody's work yet. When a segment is durable that closes windows, they
become pending, and the response time of their results runs from then. Pending is counted in rows,
as for other queries: those that came since windows were last closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

from daybreak.engine.inbox import Arrival, Tick, WholeInbox, closing

#: The first and the last instant that a TIMESTAMP can hold, in microseconds since 1970. As
#: watermarks: nothing was heard yet, and all windows are closed.
NEVER, FOREVER = -(2**63), 2**63 - 1


class GridClosing(NamedTuple):
    """Windows ``[start, start + length)`` with ``start = offset + k x slide`` over some streams."""

    streams: tuple[str, ...]
    length_us: int
    slide_us: int
    offset_us: int = 0
    #: Length of the panes they are computed from; None: from rows.
    pane_us: int | None = None

    def bound(self, watermarks: Mapping[str, int]) -> int:
        """Up to where windows are closed when the streams are at these watermarks."""
        reached = min(watermarks[stream] for stream in self.streams)
        if reached >= FOREVER:
            return FOREVER
        if self.pane_us is not None:
            return reached - (reached - self.offset_us) % self.pane_us
        return max(NEVER, reached - (reached - self.offset_us - self.length_us) % self.slide_us)


class BandClosing(NamedTuple):
    """One band around each row of a stream: its partners are complete ``high`` after it."""

    streams: tuple[str, ...]
    anchor: str
    partner: str
    high_us: int

    def bound(self, watermarks: Mapping[str, int]) -> int:
        """Up to which anchors are complete when the streams are at these watermarks."""
        partner = watermarks[self.partner]
        if partner < FOREVER:  # else no partner comes any more
            partner -= self.high_us
        return min(watermarks[self.anchor], partner)


Closing = GridClosing | BandClosing


class WindowInbox(WholeInbox):
    """Turns segments and marks into closed windows that wait. Used by the loop's thread."""

    def __init__(self, rule: Closing, closed_us: int = NEVER) -> None:
        """``closed_us``: windows up to here are emitted."""
        super().__init__()
        self.rule = rule
        self._watermarks = dict.fromkeys(rule.streams, NEVER)
        self._closed_us = NEVER
        self._rows = 0
        #: Windows up to here are emitted, or wait.
        self._put_us = closed_us

    def copy(self) -> Self:
        twin = super().copy()
        twin._watermarks = dict(self._watermarks)
        return twin

    def state(self) -> tuple[dict[str, int], int, int, int]:
        """What it knows beside what waits, for ``restore``."""
        return dict(self._watermarks), self._closed_us, self._rows, self._put_us

    def restore(
        self, watermarks: Mapping[str, int], closed_us: int, rows: int, put_us: int
    ) -> None:
        """Sets what another inbox of these windows knew."""
        self._watermarks = dict(watermarks)
        self._closed_us, self._rows, self._put_us = closed_us, rows, put_us

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
        bound = self.rule.bound(self._watermarks)
        if bound <= self._closed_us:
            return 0
        rows, self._rows, self._closed_us = max(1, self._rows), 0, bound
        if bound <= self._put_us:
            return 0
        self.put(closing(tick.arrival_ns, tick.stream, rows, self._put_us, bound))
        self._put_us = bound
        return rows
