"""First come, first served: the oldest tuple at the head of any queue goes first."""

from __future__ import annotations

import heapq

from daybreak.policies.listed import ListPolicy


class FirstComeFirstServed(ListPolicy):
    """Oldest head-of-queue tuple first; ties by index."""

    name = "fcfs"
    summary = "the oldest tuple at the head of a queue first"
    starves_nothing = True
    list_size = 1

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        pending, head = self.view.pending, self.view.head_ns
        units = self.units.units

        def oldest(unit: int) -> tuple[int, int]:
            return min(head[b] for b in units[unit] if pending[b]), unit

        self.work.sorted(len(ready))
        return heapq.nsmallest(size, ready, key=oldest)
