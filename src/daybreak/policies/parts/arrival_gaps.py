"""When more is expected: the time between arrivals at each box, lately."""

from __future__ import annotations

from collections.abc import Iterable

#: How much the last gap counts among earlier ones.
_LATEST = 0.2


class ArrivalGaps:
    """Tuples may come one by one, or as a file every few seconds; rates do not show which."""

    def __init__(self) -> None:
        self._last_ns: dict[int, int] = {}
        self._gap_ns: dict[int, float] = {}

    def arrived(self, box: int, now_ns: int) -> None:
        """What arrives at one instant is one arrival."""
        last_ns = self._last_ns.get(box)
        if last_ns is not None and now_ns > last_ns:
            gap_ns = now_ns - last_ns
            before_ns = self._gap_ns.get(box, gap_ns)
            self._gap_ns[box] = before_ns + _LATEST * (gap_ns - before_ns)
        self._last_ns[box] = now_ns

    def next_ns(self, boxes: Iterable[int], shortest_ns: float) -> int | None:
        """When the next arrival is expected; None if not known, or gaps are shorter than this."""
        known = ((b, self._gap_ns[b]) for b in boxes if b in self._gap_ns)
        found = [self._last_ns[b] + round(gap_ns) for b, gap_ns in known if gap_ns >= shortest_ns]
        return min(found, default=None)
