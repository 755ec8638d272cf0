"""Arrival rates of the streams."""

from __future__ import annotations

from daybreak.engine.view import EngineView
from daybreak.policies.parts.rates.arrival_rates import ArrivalRates
from daybreak.runtime.clock import CLOCK


class StreamRates:
    """How many rows of each stream arrive per second, over the last while."""

    def __init__(self) -> None:
        self._rates = ArrivalRates(CLOCK.now_ns())
        self._index: dict[str, int] = {}

    def note(self, view: EngineView) -> None:
        """Called now and then; the view says how many rows had arrived at its instant."""
        arrived = view.arrived_rows
        for stream in arrived:
            self._index.setdefault(stream, len(self._index))
        self._rates.note(view.at_ns, [arrived[s] for s in self._index])

    def per_s(self, stream: str) -> float:
        index = self._index.get(stream)
        return 0.0 if index is None else self._rates.long_per_s(index)
