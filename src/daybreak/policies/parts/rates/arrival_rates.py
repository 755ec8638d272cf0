"""How fast tuples arrive, from counts that are noted now and then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from daybreak.model.qos import NS_PER_S

_AT_NS = attrgetter("at_ns")


class _Sample(NamedTuple):
    at_ns: int
    counts: list[int]


class ArrivalRates:
    """Arrivals per second by index (of queries, streams or boxes), over any time up to ``long_s``.

    An index that comes later has a rate from then on. One thread notes, any thread may read.
    """

    #: Samples per short window, at most.
    _PER_SHORT = 8

    def __init__(
        self, start_ns: int | None = None, *, short_s: float = 1.0, long_s: float = 10.0
    ) -> None:
        """``start_ns``: when nothing had arrived yet; left out, the first note is the beginning."""
        self.short_s = short_s
        self.long_s = long_s
        self._apart_ns = round(short_s * NS_PER_S / self._PER_SHORT)
        self._long_ns = round(long_s * NS_PER_S)
        # Replaced as a whole, so that readers on other threads never see it change.
        self._samples: list[_Sample] = [] if start_ns is None else [_Sample(start_ns, [])]

    def note(self, now_ns: int, counts: Sequence[int]) -> None:
        """How many have arrived so far, by index; as often as is convenient."""
        samples = self._samples
        # The newest sample is replaced while it is too close to the one before.
        close = len(samples) > 1 and now_ns - samples[-2].at_ns < self._apart_ns
        kept = samples[:-1] if close else samples[:]
        # One sample at or before the beginning of the long window has to stay.
        first = bisect_right(kept, now_ns - self._long_ns, key=_AT_NS) - 1
        self._samples = [*kept[max(0, first) :], _Sample(now_ns, list(counts))]

    def per_s(self, index: int, over_s: float) -> float:
        """Over the last ``over_s`` before the newest note, or as long as there are notes."""
        samples = self._samples
        if not samples or index >= len(samples[-1].counts):
            return 0.0
        last = samples[-1]
        first = max(0, bisect_right(samples, last.at_ns - over_s * NS_PER_S, key=_AT_NS) - 1)
        # Nothing had arrived where the index was not known.
        while first + 2 < len(samples) and index >= len(samples[first + 1].counts):
            first += 1
        begin = samples[first]
        known = begin.counts[index] if index < len(begin.counts) else 0
        span_ns = last.at_ns - begin.at_ns
        # Another query may have taken the index: its count begins at nothing again.
        return max(0, last.counts[index] - known) / span_ns * NS_PER_S if span_ns > 0 else 0.0

    def short_per_s(self, index: int) -> float:
        return self.per_s(index, self.short_s)

    def long_per_s(self, index: int) -> float:
        return self.per_s(index, self.long_s)

    def burst_per_s(self, index: int) -> float:
        """The larger of the two: what to be prepared for where waiting is expensive."""
        return max(self.short_per_s(index), self.long_per_s(index))

    def all_per_s(self, over_s: float) -> list[float]:
        """The rates of all indices that are known."""
        samples = self._samples
        return [self.per_s(i, over_s) for i in range(len(samples[-1].counts) if samples else 0)]
