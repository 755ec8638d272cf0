"""Capacity as the report measures it (chapter 4): on an emptied service, with test tuples.

``measurement`` is the decision alone: a generator that yields how many tuples to send at once
and is sent how long all of them took. Whoever drives it, over asyncio or in virtual time, first
lets the service run empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass

#: ">> st" in the report's table: this much more than one service time means waiting. One tuple
#: too many takes two service times, so the middle tells them apart.
MUCH_MORE = 1.5


@dataclass(frozen=True, slots=True)
class Capacity:
    """One measurement: the parallelism of a service and the time one tuple takes."""

    threads: int
    service_time_s: float

    @property
    def per_s(self) -> float:
        return self.threads / self.service_time_s


def measurement(
    previous: int = 1, network_s: float = 0.0, most: int = 4096
) -> Generator[int, float, Capacity]:
    """Finds threads_i and st_i: one tuple, an interval by doubling or halving, bisection.

    Yields k; send it the seconds until all k tuples came back. ``network_s`` (a ping) is taken
    off every time. ``previous`` is the last known number of threads, 1 at the start; ``most``
    bounds the search.
    """
    st = max((yield 1) - network_s, 1e-9)

    def parallel(took_s: float) -> bool:
        """Whether all were worked on at once; then their time refines st (note in 4.2)."""
        nonlocal st
        if took_s - network_s > MUCH_MORE * st:
            return False
        st = (st + took_s - network_s) / 2
        return True

    left = max(1, previous)
    right = 2 * left
    while True:
        if left > 1 and not parallel((yield left)):  # case 1; one tuple never waits
            left, right = left // 2, left
        elif right <= most and parallel((yield right)):  # case 3
            left, right = right, 2 * right
        else:  # case 2
            break
    while right - left > 1:
        middle = (left + right) // 2
        if parallel((yield middle)):
            left = middle
        else:
            right = middle
    return Capacity(left, st)


def measure(send: Callable[[int], float], previous: int = 1, network_s: float = 0.0) -> Capacity:
    """Drives the measurement with a function that sends k tuples and returns the seconds."""
    steps = measurement(previous, network_s)
    k = next(steps)
    while True:
        try:
            k = steps.send(send(k))
        except StopIteration as done:
            result: Capacity = done.value
            return result


class Trigger:
    """When to measure again (section 4.1): on a timer, or when return times change drastically."""

    def __init__(self, every_s: float = 60.0, factor: float = 2.0, smoothing: float = 0.2) -> None:
        self._every_s = every_s
        self._factor = factor
        self._smoothing = smoothing
        self._measured_s = -math.inf
        self._expected_s: float | None = None
        self._recent_s: float | None = None

    def measured(self, now_s: float) -> None:
        """A measurement has ended; return times from here on are the normal ones."""
        self._measured_s = now_s
        self._expected_s = self._recent_s = None

    def returned(self, took_s: float) -> None:
        """A tuple came back after so long."""
        if self._recent_s is None:
            self._expected_s = self._recent_s = took_s
        else:
            self._recent_s += self._smoothing * (took_s - self._recent_s)

    def due(self, now_s: float) -> bool:
        if now_s - self._measured_s >= self._every_s:
            return True
        if self._recent_s is None or self._expected_s is None:
            return False
        ratio = self._recent_s / self._expected_s
        return not 1 / self._factor < ratio < self._factor
