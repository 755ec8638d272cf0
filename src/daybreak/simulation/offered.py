"""How much work has come in so far: what a report tells capacity overload by."""

from __future__ import annotations

import numpy as np

from daybreak.engine.shedding import work_ahead_ns
from daybreak.engine.state import SystemState
from daybreak.simulation.arrivals import ArrivalSchedule


class OfferedWork:
    """Adds up the work of arrivals as time goes on."""

    def __init__(self, state: SystemState, schedule: ArrivalSchedule) -> None:
        ahead = work_ahead_ns(state)
        feeds = state.network.stream_boxes
        self._stream_ns = np.array([sum([ahead[b] for b in boxes]) for boxes in feeds])
        self._schedule = schedule
        self._counted, self._sum_ns = 0, 0.0

    def until(self, now_ns: int) -> float:
        """The work (ns) of all arrivals up to this instant; instants must not decrease."""
        end = int(np.searchsorted(self._schedule.at_ns, now_ns, side="right"))
        self._sum_ns += float(self._stream_ns[self._schedule.stream[self._counted : end]].sum())
        self._counted = end
        return self._sum_ns
