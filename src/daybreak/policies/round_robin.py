"""Round-robin: everything runnable in a fixed random order (aurora-thesis 4.2.1)."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from daybreak.policies.base import View, Work
from daybreak.policies.parts.queues.execution_list import ListPolicy


class RoundRobin(ListPolicy):
    """All that is ready when the list is made, in an order drawn once from the seed."""

    name = "round-robin"
    summary = "everything runnable in a fixed random order"
    starves_nothing = True

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._seed = f"{seed}/round-robin"
        self._draw()
        self._cursor: float = -1

    def _draw(self) -> None:
        self._place: list[float] = list(range(len(self.units.units)))
        Random(self._seed).shuffle(self._place)
        self._used = False

    def on_query_added(self, query: int, now_ns: int) -> None:
        """It goes anywhere between the others, whose order stays as it was drawn."""
        super().on_query_added(query, now_ns)
        if not self._used:
            self._draw()  # as if the query had been there from the start
            return
        for unit in range(len(self._place), len(self.units.units)):
            self._place.append(Random(f"{self._seed}/{unit}").uniform(-0.5, unit - 0.5))

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        place = self._place
        self._used = True
        around = sorted(ready, key=place.__getitem__)
        if size < len(around):
            # A list shorter than all that is ready goes on where the last one stopped.
            first = bisect_right(around, self._cursor, key=place.__getitem__)
            around = (around[first:] + around[:first])[:size]
            self._cursor = place[around[-1]]
        return around
