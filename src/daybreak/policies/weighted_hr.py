"""WeHR: the highest output rate times class priority first (class-based-thesis 5.3)."""

from __future__ import annotations

from daybreak.policies.hr import HighestRate


class WeightedHighestRate(HighestRate):
    """WeHR: output rate times class priority."""

    name = "weighted-hr"
    summary = "the box with the highest output rate times class priority first"
    by_priority = True
