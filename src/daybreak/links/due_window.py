"""Due per window (ours): like `due`, but every tumbling window has its own account.

`due` meets the share over the whole run and may leave single windows short. Here a tuple is
due while its own window has sent less than m/n of what was made of it, and no longer when
the window has its m, or has already lost too many to reach them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler


class _Window:
    """The account of one window of one class."""

    __slots__ = ("lost", "made", "sent")

    def __init__(self) -> None:
        self.made = self.sent = self.lost = 0


class DueWindow(Scheduler):
    """A queue per class; O(classes) per tuple."""

    def __init__(self, classes: Sequence[LinkClass], bandwidth_bytes_per_s: float) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        self._queues: list[deque[LinkTuple]] = [deque() for _ in self.classes]
        self._windows: list[dict[int, _Window]] = [{} for _ in self.classes]

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        queue = self._queues[item.cls]
        while queue and self.late(queue[0], free_ns):
            self.drop(queue.popleft(), DropReason.EXPIRED)
        queue.append(item)
        window = self._window(item)
        # By number, not by counting: behind the first link of a chain some never arrive.
        window.made = max(window.made, item.number % self.classes[item.cls].n + 1)

    def pick(self, now_ns: int) -> LinkTuple | None:
        chosen: deque[LinkTuple] | None = None
        least = float("inf")
        for cls, queue in enumerate(self._queues):
            while queue and self.late(queue[0], now_ns):
                self.drop(queue.popleft(), DropReason.EXPIRED)
            if not queue:
                continue
            head = queue[0]
            if self._is_due(cls, head):
                chosen = queue
                break
            latest_start = head.deadline_ns - head.size_bytes * self.ns_per_byte
            if latest_start < least:
                chosen, least = queue, latest_start
        if chosen is None:
            return None
        item = chosen.popleft()
        self._window(item).sent += 1
        return item

    def clear(self) -> list[LinkTuple]:
        items = [item for queue in self._queues for item in queue]
        for queue in self._queues:
            queue.clear()
        return items

    def drop(self, item: LinkTuple, reason: DropReason) -> None:
        self._window(item).lost += 1
        super().drop(item, reason)

    def give_back(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        for item in items:
            self._window(item).sent -= 1
        super().give_back(items, now_ns)

    def _is_due(self, cls: int, head: LinkTuple) -> bool:
        window, needs = self._window(head), self.classes[cls]
        if window.lost > needs.n - needs.m:
            return False
        return window.sent * needs.n < needs.m * window.made

    def _window(self, item: LinkTuple) -> _Window:
        windows = self._windows[item.cls]
        at = item.number // self.classes[item.cls].n
        found = windows.get(at)
        if found is None:
            found = windows[at] = _Window()
            # Those long past hold no waiting tuple any more.
            queue = self._queues[item.cls]
            oldest = queue[0].number // self.classes[item.cls].n if queue else at
            for past in [w for w in windows if w < oldest - 1]:
                del windows[past]
        return found
