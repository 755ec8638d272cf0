"""Quotas and negative credit: level 1 of CQC (class-based-thesis, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor


def quotas(priorities: Sequence[float], period: float) -> list[float]:
    """T_i = P_i k / sum P: 6, 3, 1 with k = 20 give 12, 6, 2."""
    total = sum(priorities)
    return [p * period / total for p in priorities]


class Credits:
    """How much time each class may take at its turn."""

    def __init__(self, quota: Sequence[float]) -> None:
        self.quota = list(quota)
        self.credit = list(quota)

    def begins(self, cls: int) -> bool:
        """Whether the class may run at this turn; one in debt skips it and gains its quota."""
        if self.credit[cls] > 0:
            return True
        self.credit[cls] += self.quota[cls]
        return False

    def debt(self, cls: int) -> int:
        """How many turns the class skips before it begins again."""
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
