"""Policies that choose a class first: which boxes a class has, and how long its turn may last.

``Credits`` are level 1 of CQC (class-based-thesis, Algorithm 1), ``QuotaSlice`` is the dynamic
quota slice of ABD (5.2.1, Algorithm 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from daybreak.policies.base import View


class ClassBoxes:
    """A box counts in the most important class it serves. ``refresh`` after every change."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.refresh()

    def refresh(self) -> None:
        view = self._view
        network, priority, query_class = view.network, view.class_priority, view.query_class
        #: Classes by their current priority, highest first.
        self.order = sorted(range(len(priority)), key=lambda c: (-priority[c], c))
        rank = {c: i for i, c in enumerate(self.order)}
        self.cls = [min((query_class[q] for q in qs), key=rank.__getitem__)
                    for qs in network.box_queries]  # fmt: skip
        #: The boxes of each class, query by query, each in the direction of flow.
        self.boxes: list[list[int]] = [[] for _ in priority]
        listed: set[int] = set()
        for q, boxes in enumerate(network.query_boxes):
            for b in boxes:
                if self.cls[b] == query_class[q] and b not in listed:
                    listed.add(b)
                    self.boxes[self.cls[b]].append(b)


def quotas(priorities: Sequence[float], period: float) -> list[float]:
    """T_i = P_i k / sum P: 6, 3, 1 with k = 20 give 12, 6, 2."""
    total = sum(priorities)
    return [p * period / total for p in priorities]


class Credits:
    """Keeps how much time each class may take at its turn."""

    def __init__(self, quota: Sequence[float]) -> None:
        self.quota = list(quota)
        self.credit = list(quota)

    def begins(self, cls: int) -> bool:
        """Tells whether the class may run at this turn; in debt it skips it and gains its quota."""
        if self.credit[cls] > 0:
            return True
        self.credit[cls] += self.quota[cls]
        return False

    def debt(self, cls: int) -> int:
        """Returns how many turns the class skips before it begins again."""
        credit, quota = self.credit[cls], self.quota[cls]
        if credit > 0:
            return 0
        return floor(-credit / quota) + 1

    def idle(self, cls: int, turns: int) -> int:
        """Goes through so many turns at once, with nothing to run; returns how many began."""
        begun = max(0, turns - self.debt(cls))
        self.credit[cls] = self.quota[cls] if begun else self.credit[cls] + turns * self.quota[cls]
        return begun

    def ended(self, cls: int, used: float) -> None:
        """What was not used is dropped; what was overdrawn is owed.

        Step 3b prints c = T - (tu - T), which would forget a debt carried over from an earlier
        turn; what was overdrawn is tu - c.
        """
        over = max(0.0, used - self.credit[cls])
        self.credit[cls] = self.quota[cls] - over


class QuotaSlice:
    """Sets how long a class may run per slot, following what the classes turn out to need."""

    def __init__(self, initial_ns: float) -> None:
        self.slice_ns = initial_ns
        self._last_growth_ns = 0.0
        self._grew = False

    def fell_short(self, over_ns: float, needed_ns: float) -> None:
        """A class overran its slice, or left tuples at the operator it stopped at."""
        self._last_growth_ns = over_ns + needed_ns
        self.slice_ns += self._last_growth_ns
        self._grew = True

    def round_ended(self) -> None:
        """A round that needed no more gives the last growth back.

        Algorithm 3 never clears its flag, so that the slice could shrink only until it first
        grew; it is cleared every round here.
        """
        if not self._grew and self.slice_ns > self._last_growth_ns:
            self.slice_ns -= self._last_growth_ns
        self._grew = False
