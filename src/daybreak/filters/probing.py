"""The report's capacity measurement (chapter 4), driven over asyncio against a real replica."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from statistics import median
from typing import Any

from daybreak.filters.measurement import Capacity, measurement
from daybreak.filters.services.base import Replica

_PINGS = 3
_TRIES = 2


async def measure_replica(
    replica: Replica, sample: Any, previous: int, clock: Callable[[], float]
) -> Capacity:
    """Sends copies of a sample tuple, k at once, to a replica that is otherwise empty."""
    pings = [await _timed(replica.ping, clock) for _ in range(_PINGS)]
    steps = measurement(previous, median(pings))
    k = next(steps)
    while True:

        async def together(k: int = k) -> None:
            await asyncio.gather(*(replica.ask([sample]) for _ in range(k)))

        # Twice, and the shorter counts: what disturbs a measurement only ever adds to it, and
        # the first try may have to open connections.
        took_s = min([await _timed(together, clock) for _ in range(_TRIES)])
        try:
            k = steps.send(took_s)
        except StopIteration as done:
            capacity: Capacity = done.value
            return capacity


async def _timed(action: Callable[[], Any], clock: Callable[[], float]) -> float:
    began_s = clock()
    await action()
    return clock() - began_s
