"""How tuples come, one by one or as files: the time between arrivals, and what one brings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median_low

#: How much the last gap counts among earlier ones. One that is so many times longer is a pause.
_LATEST, _PAUSE = 0.2, 3.0
#: So many arrivals show how many tuples come together; most of them, whatever the others bring.
_KEPT = 9


class ArrivalInstants:
    """What arrives at a box at one instant is one arrival; rates do not show how many there are."""

    def __init__(self) -> None:
        self._last_ns: dict[int, int] = {}
        self._gap_ns: dict[int, float] = {}
        self._sizes: dict[int, deque[int]] = {}

    def arrived(self, box: int, count: int, now_ns: int) -> None:
        last_ns = self._last_ns.get(box)
        if last_ns == now_ns:
            self._sizes[box][-1] += count
            return
        if last_ns is None:
            self._sizes[box] = deque(maxlen=_KEPT)
        else:
            gap_ns = now_ns - last_ns
            before_ns = self._gap_ns.get(box, gap_ns)
            self._gap_ns[box] = before_ns + _LATEST * (min(gap_ns, _PAUSE * before_ns) - before_ns)
        self._sizes[box].append(count)
        self._last_ns[box] = now_ns

    def next_ns(self, boxes: Iterable[int], shortest_ns: float) -> int | None:
        """When the next arrival is expected; None if not known, or gaps are shorter than this."""
        known = ((b, self._gap_ns[b]) for b in boxes if b in self._gap_ns)
        found = [self._last_ns[b] + round(gap_ns) for b, gap_ns in known if gap_ns >= shortest_ns]
        return min(found, default=None)

    def gap_ns(self, boxes: Iterable[int]) -> float:
        """How far apart arrivals are at the box of these that has the most; 0 if not known."""
        return min((self._gap_ns[b] for b in boxes if b in self._gap_ns), default=0.0)

    def together(self, box: int) -> int:
        """How many tuples an arrival usually brings, lately."""
        return max(median_low(self._sizes.get(box) or (1,)), 1)
