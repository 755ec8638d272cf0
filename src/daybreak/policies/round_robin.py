"""Round-robin: everything runnable in a fixed random order (aurora-thesis 4.2.1)."""

from __future__ import annotations

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
        place, cursor, n = self._place, self._cursor, len(self._place)
        # A list shorter than all that is ready goes on where the last one stopped.
        chosen = sorted(ready, key=lambda u: (place[u] - cursor - 1) % n)[:size]
        self._cursor = place[chosen[-1]]
        return chosen
