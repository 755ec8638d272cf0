"""least-cost: each tuple goes where it is expected back soonest (section 5.1)."""

from __future__ import annotations

from collections import deque
from random import Random

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.routers.base import OneAtATime


class LeastCost(OneAtATime):
    """Judged anew for every tuple on every return, by service time and tuples ahead.

    A tuple is fetched from the input when some service's queue is shorter than ``fetch_below``.
    """

    name = "least-cost"

    def __init__(self, fetch_below: int = 1) -> None:
        self.fetch_below = fetch_below

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        super().attach(estimates, dependencies, rng)
        self.input: deque[StreamTuple] = deque()
        self._working = [0] * len(estimates)

    def arrive(self, t: StreamTuple) -> None:
        self.input.append(t)

    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        while self.input and min(len(self.queues[i]) for i in self.entries) < self.fetch_below:
            super().arrive(self.input.popleft())
        t = super().pick(filter_, duplicate)
        if t is not None:
            self._working[filter_] += 1
        return t

    def next_filter(self, t: StreamTuple) -> int:
        return min(
            (i for i in range(len(self.queues)) if t.may_go_to(i)), key=self._expected_time_s
        )

    def _expected_time_s(self, filter_: int) -> float:
        """Waiting for a thread, then the service time."""
        e = self.estimates[filter_]
        ahead = len(self.queues[filter_]) + self._working[filter_]
        waits = max(0.0, ahead + 1 - e.threads) / e.threads
        return e.service_time_s * (1 + waits)

    def release(self, t: StreamTuple, filter_: int) -> None:
        self._working[filter_] -= 1
        super().release(t, filter_)

    def forget(self, t: StreamTuple, filter_: int) -> None:
        self._working[filter_] -= 1
