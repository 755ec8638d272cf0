"""Instants in order, at a cost that hardly grows with their number.

A calendar queue (Brown 1988): instants are put into days, and only today is in order. Nothing is
searched for when an item leaves: its entry stays behind, is known to be void since the item has
another instant now, and goes when its day comes. Entries lie close together and numbers in
arrays, because with a hundred thousand items what costs is fetching memory.
"""

from __future__ import annotations

from array import array
from heapq import heapify, heappop, heappush

#: (instant, item).
Entry = tuple[float, int]
#: In place of an instant.
NEVER = -1.0
#: Days that get no more entries than this are put in order one by one.
FEW = 8


class TimerQueue:
    """Items 0, 1, 2, ..., each with an instant from 0 on, or with none."""

    __slots__ = ("_at", "_count", "_day_ns", "_days", "_order")

    def __init__(self, instants: array[float], day_ns: float) -> None:
        """``instants`` may be shared: an item is in one of the queues that share it at a time."""
        self._at = instants
        self._day_ns = max(day_ns, 1.0)
        self._count = 0
        #: By day: what was added since it was last looked at, and a heap of the rest.
        self._days: dict[int, tuple[list[Entry], list[Entry]]] = {}
        #: A heap of the days that have entries.
        self._order: list[int] = []

    @staticmethod
    def no_instants(items: int) -> array[float]:
        return array("d", [NEVER]) * items

    @staticmethod
    def added(instants: array[float]) -> None:
        """There is one more item, in no queue."""
        instants.append(NEVER)

    def __len__(self) -> int:
        return self._count

    def put(self, item: int, at_ns: float) -> None:
        """Inserts the item, or gives it another instant."""
        at_ns = float(at_ns)  # as it is kept: of a clock since 1970 the last 8 bits are lost
        held = self._at[item]
        if held == at_ns:
            return
        if held < 0:
            self._count += 1
        self._at[item] = at_ns
        day = int(at_ns // self._day_ns)
        entries = self._days.get(day)
        if entries is None:
            entries = self._days[day] = ([], [])
            heappush(self._order, day)
        entries[0].append((at_ns, item))

    def remove(self, item: int) -> None:
        """Takes the item out if it is there."""
        if self._at[item] >= 0:
            self._at[item] = NEVER
            self._count -= 1
            if not self._count:
                self._days.clear()
                self._order.clear()

    def first(self) -> Entry:
        """The soonest instant, and its item; there must be one."""
        at, order = self._at, self._order
        while True:
            fresh, heap = self._days[order[0]]
            if len(fresh) > FEW:
                heap.extend([entry for entry in fresh if at[entry[1]] == entry[0]])
                heapify(heap)
                fresh.clear()
            while fresh:
                heappush(heap, fresh.pop())
            while heap:
                entry = heap[0]
                if at[entry[1]] == entry[0]:
                    return entry
                heappop(heap)
            del self._days[heappop(order)]

    def due(self, now_ns: float) -> list[int]:
        """Takes out what has fallen due, in order."""
        found: list[int] = []
        while self._count:
            at_ns, item = self.first()
            if at_ns > now_ns:
                break
            found.append(item)
            self.remove(item)
        return found
