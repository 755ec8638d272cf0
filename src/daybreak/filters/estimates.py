"""What routers know of the services: one estimate per filter, and how often it changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from daybreak.filters.declared_filters import Estimate


class Estimates:
    """The current estimate of every filter; routers read it, estimators write it."""

    def __init__(self, estimates: Sequence[Estimate], drift: float = 0.1) -> None:
        self._now = list(estimates)
        #: The values at the last revision: drift is judged against them, so that a slow
        #: creep is noticed as surely as a jump.
        self._revised = list(estimates)
        self._drift = drift
        #: Grows when a value left the band of ``drift`` around its last revision; routers that
        #: plan ahead plan anew when it grew.
        self.revision = 0

    def __len__(self) -> int:
        return len(self._now)

    def __getitem__(self, filter_: int) -> Estimate:
        return self._now[filter_]

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self._now)

    def update(self, filter_: int, estimate: Estimate) -> None:
        self._now[filter_] = estimate
        old = self._revised[filter_]
        if (
            _moved(old.capacity_per_s, estimate.capacity_per_s, self._drift)
            or abs(old.selectivity - estimate.selectivity) > self._drift / 2
        ):
            self._revised[filter_] = estimate
            self.revision += 1


def _moved(old: float, new: float, drift: float) -> bool:
    return abs(new - old) > drift * old
