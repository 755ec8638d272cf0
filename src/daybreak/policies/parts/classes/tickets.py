"""Tickets: draws among holders in proportion to what each holds (Waldspurger and Weihl).

Holders are numbered; they may be classes, queries, operators, whatever a policy shares among.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


class Tickets:
    """Who holds how many tickets. Giving and drawing take O(log holders)."""

    def __init__(self, holders: int) -> None:
        #: A tree of sums over the holders, padded to a power of two: node i covers nodes 2i and
        #: 2i + 1. Sums are taken anew on every change, so rounding errors never add up.
        self._leaf = 1 << max(0, holders - 1).bit_length()
        self._sums = [0.0] * (2 * self._leaf)

    def added(self, holder: int) -> None:
        """There is one more holder, or another one in this place; it has none so far."""
        if holder == self._leaf:
            # The tree as it is becomes the left half of one twice its size.
            held = self._sums[self._leaf :]
            self._leaf *= 2
            self._sums = [0.0] * self._leaf + held + [0.0] * (self._leaf - len(held))
            for node in reversed(range(1, self._leaf)):
                self._sums[node] = self._sums[2 * node] + self._sums[2 * node + 1]
        self.give(holder, 0.0)

    def __getitem__(self, holder: int) -> float:
        return self._sums[self._leaf + holder]

    @property
    def total(self) -> float:
        return self._sums[1]

    def give(self, holder: int, tickets: float) -> None:
        """From now on the holder has so many, which may be fractions; 0 means it is out."""
        node, sums = self._leaf + holder, self._sums
        sums[node] = tickets
        while node > 1:
            node >>= 1
            sums[node] = sums[2 * node] + sums[2 * node + 1]

    def draw(self, random: Random) -> int | None:
        """The holder of a ticket drawn at random, or None if nobody holds any."""
        sums = self._sums
        if sums[1] <= 0:
            return None
        at, node = random.random() * sums[1], 1
        while node < self._leaf:
            node *= 2
            # By rounding, what is left may exceed what the right half holds: never go to an
            # empty half.
            if at >= sums[node] and sums[node + 1] > 0:
                at -= sums[node]
                node += 1
        return node - self._leaf


def shared(priorities: Sequence[float], holders: Sequence[int]) -> float:
    """What a part that serves several holders of priorities gets: their sum.

    Shares of time add up: a box run for two queries is run with the rights of both
    (aurora-thesis 6.3.2 leaves it open).
    """
    return sum([priorities[h] for h in holders])
