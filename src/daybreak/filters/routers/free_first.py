"""free-first: nobody works twice on a tuple while any tuple has nobody (ours)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.pool import Pool, most_passed
from daybreak.filters.routers.base import Routing


class FreeFirst(Routing):
    """The report's priorities with another fetch rule.

    A filter takes, among tuples nobody works on, the one most filters have passed, then the
    oldest; a tuple at the input is simply one that no filter has passed. Only when no tuple is
    free for it does it join others on theirs. Under load every thread then does work that
    nobody else does, which is what the optimum needs; at low load all filters work on each
    tuple at once. Idle filters choose in order of cost / (1 - selectivity).
    """

    name = "free-first"

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        super().attach(estimates, dependencies, rng)
        self.pool = Pool(len(estimates))

    def order(self, idle: Sequence[int]) -> Sequence[int]:
        return sorted(idle, key=lambda i: (self.estimates[i].rank_s, i))

    def arrive(self, t: StreamTuple) -> None:
        self.pool.add(t)

    def pick(self, filter_: int, duplicate: bool) -> StreamTuple | None:
        t = self.pool.take_free(filter_, most_passed)
        if t is None and duplicate:
            t = self.pool.take_busy(filter_, lambda b: (-b.num_running, b.num_passed, -b.sequence))
        return t

    def release(self, t: StreamTuple, filter_: int) -> None:
        self.pool.release(t)

    def forget(self, t: StreamTuple, filter_: int) -> None:
        self.pool.forget(t)
