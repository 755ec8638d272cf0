"""Due (ours, beyond the text): classes that are behind their minimum go first.

When the link frees, the highest class that has delivered less than (m/n)(1 + margin) of its
arrivals sends its oldest tuple; when nobody is behind, the smallest slack decides. It needs
neither a threshold nor an estimate of the bandwidth, and takes any number of classes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler
from daybreak.model.errors import ConfigError

#: Without a margin a class hovers at its minimum and ends below it in half of all runs.
MARGIN = 0.02


class Due(Scheduler):
    """A queue per class; O(classes) per tuple."""

    def __init__(
        self,
        classes: Sequence[LinkClass],
        bandwidth_bytes_per_s: float,
        *,
        margin: float = MARGIN,
    ) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        if not 0 <= margin <= 1:
            raise ConfigError("due", f"margin {margin}", "give 0 to 1, such as 0.02")
        self._goals = [c.minimum * (1 + margin) for c in self.classes]
        self._queues: list[deque[LinkTuple]] = [deque() for _ in self.classes]
        #: Tuples of each class made so far, and sent.
        self._made = [0] * len(self.classes)
        self._sent = [0] * len(self.classes)

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        queue = self._queues[item.cls]
        # A starved class is never picked from: without this its queue would grow for ever.
        while queue and self.late(queue[0], free_ns):
            self.drop(queue.popleft(), DropReason.EXPIRED)
        queue.append(item)
        # By number, not by counting: behind the first link of a chain some never arrive.
        if item.number >= self._made[item.cls]:
            self._made[item.cls] = item.number + 1

    def pick(self, now_ns: int) -> LinkTuple | None:
        ns_per_byte = self.ns_per_byte
        chosen: deque[LinkTuple] | None = None
        least = float("inf")
        for cls, queue in enumerate(self._queues):
            while queue:
                head = queue[0]
                latest_start = head.deadline_ns - head.size_bytes * ns_per_byte
                if latest_start >= now_ns:
                    break
                self.drop(queue.popleft(), DropReason.EXPIRED)
            else:
                continue
            if self._sent[cls] < self._goals[cls] * self._made[cls]:
                chosen = queue
                break
            if latest_start < least:
                chosen, least = queue, latest_start
        if chosen is None:
            return None
        item = chosen.popleft()
        self._sent[item.cls] += 1
        return item

    def clear(self) -> list[LinkTuple]:
        items = [item for queue in self._queues for item in queue]
        for queue in self._queues:
            queue.clear()
        return items

    def give_back(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        for item in items:
            self._sent[item.cls] -= 1
        super().give_back(items, now_ns)
