"""The dynamic quota slice of ABD (class-based-thesis 5.2.1, Algorithm 3)."""

from __future__ import annotations


class QuotaSlice:
    """How long a class may run per slot; follows what the classes turn out to need."""

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
