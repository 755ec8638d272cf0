"""fixed: one order for all tuples, by decreasing capacity over selectivity (section 6.1)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.routers.base import OneAtATime


class Fixed(OneAtATime):
    """Chosen once, when it is attached, and never changed."""

    name = "fixed"

    def __init__(self, route: Sequence[int] | None = None) -> None:
        self.route = tuple(route) if route is not None else None

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        super().attach(estimates, dependencies, rng)
        if self.route is None:
            # capacity / selectivity decreasing = selectivity / capacity increasing, which also
            # orders filters of selectivity 0.
            self.route = tuple(
                sorted(
                    range(len(estimates)),
                    key=lambda i: estimates[i].selectivity / estimates[i].capacity_per_s,
                )
            )

    def next_filter(self, t: StreamTuple) -> int:
        assert self.route is not None
        return next(i for i in self.route if t.may_go_to(i))
