"""Round-robin: everything runnable in a fixed random order (aurora-thesis 4.2.1)."""

from __future__ import annotations

from bisect import bisect_right
from random import Random

from daybreak.policies.base import View, Work
from daybreak.policies.listed import ListPolicy


class RoundRobin(ListPolicy):
    """All that is ready when the list is made, in an order drawn once from the seed."""

    name = "round-robin"
    summary = "everything runnable in a fixed random order"
    starves_nothing = True

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._place = list(range(len(self.units.units)))
        Random(f"{seed}/round-robin").shuffle(self._place)
        self._cursor = -1

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        place = self._place
        around = sorted(ready, key=place.__getitem__)
        if size < len(around):
            # A list shorter than all that is ready goes on where the last one stopped.
            first = bisect_right(around, self._cursor, key=place.__getitem__)
            around = (around[first:] + around[:first])[:size]
            self._cursor = place[around[-1]]
        return around
