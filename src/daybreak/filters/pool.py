"""The tuples in the system, kept so that a filter finds its next one without a search.

What may happen next to a tuple depends only on the set of filters it passed, so *free* tuples
(nobody works on them) wait in one queue per such set, oldest first. *Busy* tuples are at most
as many as there are threads.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from daybreak.filters.filter_tuples import StreamTuple

#: How much a filter wants tuples that passed this set of filters; larger is sooner.
Preference = Callable[[int], float]


def most_passed(passed: int) -> float:
    """Most filters passed first: what is nearly done leaves, nothing starves."""
    return passed.bit_count()


class Pool:
    """Tuples in the system, free or busy."""

    def __init__(self, filters: int, keep_started: bool = False) -> None:
        #: Whether a tuple counts in a filter's queue until that filter has finished with it.
        self.keep_started = keep_started
        self._free: dict[int, list[tuple[int, StreamTuple]]] = {}
        self.busy: dict[int, StreamTuple] = {}
        #: Per filter, how many tuples of the pool it may take and has not: its queue's length.
        self.queued = [0] * filters
        self._counted: dict[int, int] = {}

    def add(self, t: StreamTuple) -> None:
        """A tuple enters, or the last filter that worked on it has finished."""
        heappush(self._free.setdefault(t.passed, []), (t.sequence, t))
        self._count(t, t.frontier)

    def take_free(self, filter_: int, preference: Preference) -> StreamTuple | None:
        """The free tuple the filter wants most, oldest among equals; it becomes busy."""
        best: tuple[float, int] | None = None
        chosen = -1
        for passed, queue in self._free.items():
            sequence, head = queue[0]
            if head.may_go_to(filter_):
                key = (preference(passed), -sequence)
                if best is None or key > best:
                    best, chosen = key, passed
        if best is None:
            return None
        queue = self._free[chosen]
        _, t = heappop(queue)
        if not queue:
            del self._free[chosen]
        self.busy[t.sequence] = t
        self._count(t, t.frontier if self.keep_started else t.frontier & ~(1 << filter_))
        return t

    def take_busy(self, filter_: int, wish: Callable[[StreamTuple], Any]) -> StreamTuple | None:
        """The busy tuple that others work on and the filter wants most."""
        candidates = [t for t in self.busy.values() if t.may_go_to(filter_)]
        if not candidates:
            return None
        t = max(candidates, key=wish)
        if not self.keep_started:
            self._count(t, t.frontier & ~t.running & ~(1 << filter_))
        return t

    def release(self, t: StreamTuple) -> None:
        """A filter has finished with the tuple and it is undecided."""
        if t.num_running == 0:
            del self.busy[t.sequence]
            self.add(t)
        else:
            self._count(t, t.frontier if self.keep_started else t.frontier & ~t.running)

    def forget(self, t: StreamTuple) -> None:
        """The tuple is decided."""
        del self.busy[t.sequence]
        self._count(t, 0)
        del self._counted[t.sequence]

    def _count(self, t: StreamTuple, waiting: int) -> None:
        old = self._counted.get(t.sequence, 0)
        self._counted[t.sequence] = waiting
        changed = old ^ waiting
        while changed:
            bit = changed & -changed
            self.queued[bit.bit_length() - 1] += 1 if waiting & bit else -1
            changed ^= bit
