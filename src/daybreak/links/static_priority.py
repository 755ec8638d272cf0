"""Static priority (section 3.2): the most valuable class that has anything to send."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler


class StaticPriority(Scheduler):
    """A queue per class, or two with ``best_effort``; O(classes) per tuple.

    With ``best_effort`` the optional tuples of a window wait in queues of their own, and the
    lowest class's mandatory tuples go before the highest class's optional ones.
    """

    def __init__(
        self,
        classes: Sequence[LinkClass],
        bandwidth_bytes_per_s: float,
        *,
        best_effort: bool = False,
    ) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        self._best_effort = best_effort
        count = len(self.classes) * (2 if best_effort else 1)
        self._queues: list[deque[LinkTuple]] = [deque() for _ in range(count)]

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        optional = self._best_effort and not item.mandatory
        queue = self._queues[item.cls + len(self.classes) if optional else item.cls]
        # A starved class is never picked from: without this its queue would grow for ever.
        while queue and self.late(queue[0], free_ns):
            self.drop(queue.popleft(), DropReason.EXPIRED)
        queue.append(item)

    def pick(self, now_ns: int) -> LinkTuple | None:
        ns_per_byte = self.ns_per_byte
        for queue in self._queues:
            while queue:
                item = queue.popleft()
                if now_ns + item.size_bytes * ns_per_byte <= item.deadline_ns:
                    return item
                self.drop(item, DropReason.EXPIRED)
        return None

    def clear(self) -> list[LinkTuple]:
        items = [item for queue in self._queues for item in queue]
        for queue in self._queues:
            queue.clear()
        return items
