"""First come, first served: the oldest tuple at the head of any queue goes first."""

from __future__ import annotations

import heapq

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.parts.queues.execution_list import ListPolicy


class FirstComeFirstServed(ListPolicy):
    """Oldest head-of-queue tuple first; ties by index."""

    name = "fcfs"
    summary = "the oldest tuple at the head of a queue first"
    starves_nothing = True
    list_size = 1

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        #: (head, unit) of queries, as old as they are or older; looked at when picked.
        self._heads: list[tuple[int, int]] = []
        self._one_query = self.params.level == "query" and self._size == 1
        if self._one_query:
            self._heads = sorted(self._oldest(unit) for unit in self.units.ready)
            self.__dict__["on_arrival"] = self._arrived

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        super().on_completion(plan, worker, cost_ns, now_ns)
        if self._one_query:
            serves, ready = self.view.network.box_queries, self.units.ready
            for unit in {u for step in plan.steps for u in serves[step.box] if u in ready}:
                heapq.heappush(self._heads, self._oldest(unit))

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        self.work.sorted(len(ready))
        if self._one_query:
            return [self._pick(ready)]
        return [unit for _, unit in heapq.nsmallest(size, map(self._oldest, ready))]

    def _arrived(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        # The first in an empty queue is its head; none at all means: the box is free again.
        if count in (0, self.view.pending[box]):
            for unit in self.view.network.box_queries[box]:
                heapq.heappush(self._heads, (self.view.head_ns[box], unit))

    def _pick(self, ready: set[int]) -> int:
        """The same as the minimum over all that is ready, in logarithmic time."""
        heads = self._heads
        while True:
            entry = heapq.heappop(heads)
            unit = entry[1]
            if unit in ready:
                current = self._oldest(unit)
                if current == entry:
                    return unit
                heapq.heappush(heads, current)

    def _oldest(self, unit: int) -> tuple[int, int]:
        pending, head = self.view.pending, self.view.head_ns
        return min([head[b] for b in self.units.units[unit] if pending[b]]), unit
