"""Minimum slack first (section 3.3): the tuple that can wait least, whatever its class."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import count

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler


class MinSlack(Scheduler):
    """A heap by the latest start; O(log waiting) per tuple.

    All slacks shrink alike as time passes, so the order never changes while a tuple waits.
    """

    def __init__(self, classes: Sequence[LinkClass], bandwidth_bytes_per_s: float) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        #: (latest start, tie-breaker, tuple)
        self._heap: list[tuple[float, int, LinkTuple]] = []
        self._turn = count()

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        del free_ns
        latest_start = item.deadline_ns - item.size_bytes * self.ns_per_byte
        heappush(self._heap, (latest_start, next(self._turn), item))

    def pick(self, now_ns: int) -> LinkTuple | None:
        heap = self._heap
        while heap:
            latest_start, _, item = heappop(heap)
            if latest_start >= now_ns:
                return item
            self.drop(item, DropReason.EXPIRED)
        return None

    def clear(self) -> list[LinkTuple]:
        items = [item for _, _, item in sorted(self._heap)]
        self._heap.clear()
        return items
