"""Source operators on cores of their own (class-based-thesis 2.2.2).

They hand tuples over as they come round to them, so a tuple is available somewhat after its
arrival. Sources never wait for anything but their turn: when each is polled follows from the
polling order and the load alone, and can be worked out before the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError
from daybreak.simulation.arrivals import ArrivalSchedule, Instants


@dataclass(frozen=True)
class Deliveries:
    """Every tuple of a run in the order in which it becomes available."""

    at_ns: Instants
    arrival_ns: Instants
    stream: NDArray[np.int32]

    @classmethod
    def at_once(cls, schedule: ArrivalSchedule) -> Deliveries:
        return cls(schedule.at_ns, schedule.at_ns, schedule.stream)


def through_sources(
    schedule: ArrivalSchedule,
    turns: Sequence[int],
    *,
    cores: int = 1,
    poll_ns: float = 100.0,
    tuple_ns: float = 500.0,
) -> Deliveries:
    """What the source cores hand over; ``turns`` lists the streams in polling order.

    A stream may have several turns in a round (the operator-level MBD of section 6.3.6). Turns
    are dealt to the cores in order. A round lasts as long as its polls and the tuples that
    arrive meanwhile take, on average over the run: rounds are some ten microseconds long, and
    their length hardly varies beside response times of milliseconds.
    """
    at, stream = schedule.at_ns, schedule.stream
    if not len(schedule):
        return Deliveries.at_once(schedule)
    rate_per_ns = len(schedule) / max(float(at[-1]), 1.0)
    load = rate_per_ns * tuple_ns / cores
    if load >= 1:
        raise ConfigError(
            "source cores", f"{load:.2f} times what they can do", "give sources more cores"
        )
    slot_ns = poll_ns / (1 - load) / cores
    round_ns = slot_ns * len(turns)
    phases: dict[int, list[float]] = {}
    for turn, s in enumerate(turns):
        phases.setdefault(s, []).append(turn * slot_ns)
    ready = np.empty(len(at), dtype=np.float64)
    for s in np.unique(stream):
        mine = stream == s
        when = at[mine].astype(np.float64)
        polls = [phase + np.ceil((when - phase) / round_ns) * round_ns for phase in phases[int(s)]]
        ready[mine] = np.min(polls, axis=0) + tuple_ns
    available = np.rint(ready).astype(np.int64)
    order = np.argsort(available, kind="stable")
    return Deliveries(available[order], at[order], stream[order])
