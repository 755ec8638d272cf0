"""First in, first out (section 3.1): order of arrival, and nothing that would be late."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler


class Fifo(Scheduler):
    """O(1) per tuple."""

    def __init__(self, classes: Sequence[LinkClass], bandwidth_bytes_per_s: float) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        self._queue: deque[LinkTuple] = deque()

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        del free_ns
        self._queue.append(item)

    def pick(self, now_ns: int) -> LinkTuple | None:
        queue, ns_per_byte = self._queue, self.ns_per_byte
        while queue:
            item = queue.popleft()
            if now_ns + item.size_bytes * ns_per_byte <= item.deadline_ns:
                return item
            self.drop(item, DropReason.EXPIRED)
        return None

    def clear(self) -> list[LinkTuple]:
        items = list(self._queue)
        self._queue.clear()
        return items
