"""The contract of a router, and the two ways of keeping tuples most of them share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.pool import Pool


class Routing(ABC):
    """Decides which tuple a filter with a free thread takes next.

    One thread calls everything. The dispatcher owns the tuples' state (`StreamTuple`); a router
    reads it and keeps its own queues. It knows no clock, and draws only from the stream given
    to ``attach``.
    """

    name: ClassVar[str]
    estimates: Estimates
    dependencies: Dependencies
    rng: Random

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        """Called once, first. ``estimates`` stays current while tuples flow."""
        self.estimates = estimates
        self.dependencies = dependencies
        self.rng = rng
        #: Filters a new tuple may go to: only their queues can call for new tuples.
        self.entries = [i for i in range(len(estimates)) if dependencies.initial >> i & 1]

    def order(self, idle: Sequence[int]) -> Sequence[int]:
        """In which order filters with free threads choose; all of ``idle``, each once."""
        return idle

    @abstractmethod
    def arrive(self, t: StreamTuple) -> None:
        """A new tuple stands at the input."""

    @abstractmethod
    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        """The next tuple for a free thread of the filter; it starts at once.

        Called until it returns None. With ``duplicate`` false, tuples others work on must not
        be picked (further tuples of a batch: a batch is for throughput, a duplicate for
        latency).
        """

    @abstractmethod
    def release(self, t: StreamTuple, filter_: int) -> None:
        """The filter let the tuple pass, or its service failed; others may still work on it."""

    @abstractmethod
    def forget(self, t: StreamTuple, filter_: int) -> None:
        """The filter's result decided the tuple: dropped, or passed by all."""


class OneAtATime(Routing):
    """Routers under which a tuple waits in one queue at a time, first in, first out."""

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        super().attach(estimates, dependencies, rng)
        self.queues: list[deque[StreamTuple]] = [deque() for _ in estimates]

    @abstractmethod
    def next_filter(self, t: StreamTuple) -> int:
        """Where the tuple goes now; one of its frontier."""

    def arrive(self, t: StreamTuple) -> None:
        self.queues[self.next_filter(t)].append(t)

    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        queue = self.queues[filter_]
        return queue.popleft() if queue else None

    def release(self, t: StreamTuple, filter_: int) -> None:
        if t.passed >> filter_ & 1:
            self.queues[self.next_filter(t)].append(t)
        else:  # its service failed: it keeps its place
            self.queues[filter_].appendleft(t)

    def forget(self, t: StreamTuple, filter_: int) -> None:
        pass


class Fetching(Routing):
    """Routers that fetch from the input queue by the report's rule (section 5.1).

    A tuple is fetched when some filter's queue holds fewer than ``fetch_below`` tuples. A tuple
    counts in the queue of every filter it has yet to go to, even while others work on it.
    """

    #: Whether it also counts in the queue of the filter that works on it, until that has finished.
    keep_started: ClassVar[bool] = False

    def __init__(self, fetch_below: int = 1) -> None:
        self.fetch_below = fetch_below

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        super().attach(estimates, dependencies, rng)
        self.pool = Pool(len(estimates), self.keep_started)
        self.input: deque[StreamTuple] = deque()

    def fetch(self) -> None:
        queued = self.pool.queued
        while self.input and min(queued[i] for i in self.entries) < self.fetch_below:
            self.pool.add(self.input.popleft())

    def arrive(self, t: StreamTuple) -> None:
        self.input.append(t)

    def release(self, t: StreamTuple, filter_: int) -> None:
        self.pool.release(t)

    def forget(self, t: StreamTuple, filter_: int) -> None:
        self.pool.forget(t)
