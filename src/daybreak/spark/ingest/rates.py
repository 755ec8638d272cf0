"""Arrival rates of the streams."""

from __future__ import annotations

import time
from collections.abc import Mapping

from daybreak.policies.parts.rates.arrival_rates import ArrivalRates


class StreamRates:
    """How many rows of each stream arrive per second, over the last while."""

    def __init__(self) -> None:
        self._rates = ArrivalRates(time.monotonic_ns())
        self._index: dict[str, int] = {}

    def note(self, arrived_rows: Mapping[str, int]) -> None:
        """Called now and then with how many rows have arrived so far."""
        for stream in list(arrived_rows):
            self._index.setdefault(stream, len(self._index))
        self._rates.note(time.monotonic_ns(), [arrived_rows[s] for s in self._index])

    def per_s(self, stream: str) -> float:
        index = self._index.get(stream)
        return 0.0 if index is None else self._rates.long_per_s(index)
