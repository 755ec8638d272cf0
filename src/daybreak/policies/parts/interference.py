"""How much longer jobs take because others are under way, learned from the jobs themselves."""

from __future__ import annotations

#: How much a job counts after each further one.
MEMORY = 0.98
#: A slope is believed as far as the number of other jobs has varied more than this (a variance).
DOUBT = 0.03
#: What a job may take by itself, as a share of what it takes among others.
LEAST_ALONE = 0.5
#: A job that differs by more than this factor from what was expected says nothing of others: it was
#: compiled, or had nothing to do.
MOST_OFF = 3.0


class Interference:
    """A line through what jobs took, over what was expected, by how many others ran meanwhile.

    A job may use cores that nobody else does, and what others compute is in its way. So a cell
    would take less if others made way.
    """

    def __init__(self) -> None:
        self._weight = self._others = self._off = self._square = self._product = 0.0

    def ended(self, off: float, others: float) -> None:
        """A job took ``off`` times as long as expected, beside so many others on average."""
        if not 1 / MOST_OFF < off < MOST_OFF:
            return
        sums = self._weight, self._others, self._off, self._square, self._product
        more = 1.0, others, off, others * others, others * off
        self._weight, self._others, self._off, self._square, self._product = (
            MEMORY * was + now for was, now in zip(sums, more, strict=True)
        )

    @property
    def alone(self) -> float:
        """The share of what jobs take on average that they would take by themselves."""
        if not self._weight:
            return 1.0
        others, off = self._others / self._weight, self._off / self._weight
        variance = self._square / self._weight - others * others
        slope = (self._product / self._weight - others * off) / (variance + DOUBT)
        return min(max(1.0 - slope * others / off, LEAST_ALONE), 1.0)
