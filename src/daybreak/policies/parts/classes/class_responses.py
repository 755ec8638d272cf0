"""Response times by class since some instant, as a policy watches them itself.

The mean, or a percentile from a histogram of logarithmic buckets about one hundredth wide,
interpolated: a few hundred counters per class however many results there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

#: Buckets per octave: neighbours differ by 1.1 %.
FINENESS = 64


class ClassResponses:
    """Cumulative since the last ``reset``. ``percentile`` None watches the mean."""

    def __init__(self, classes: int, percentile: int | None = None) -> None:
        self.percentile = percentile
        self._classes = classes
        self.reset()

    def reset(self) -> None:
        self.counts = [0] * self._classes
        self._sums_ns = [0] * self._classes
        self._buckets: list[dict[int, int]] = [{} for _ in range(self._classes)]

    def add(
        self, cls: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int = 1
    ) -> None:
        """Results of a class left, each for so many tuples."""
        if not departures_ns:
            return
        self.counts[cls] += len(departures_ns) * tuples
        self._sums_ns[cls] += (sum(departures_ns) - sum(arrivals_ns)) * tuples
        if self.percentile is None:
            return
        buckets = self._buckets[cls]
        for arrival, departure in zip(arrivals_ns, departures_ns, strict=True):
            at = round(FINENESS * math.log2(max(1, departure - arrival)))
            buckets[at] = buckets.get(at, 0) + tuples

    def response_ns(self, cls: int) -> float:
        """At the mean or the percentile; NaN for a class without results."""
        count = self.counts[cls]
        if not count:
            return math.nan
        if self.percentile is None:
            return self._sums_ns[cls] / count
        buckets = self._buckets[cls]
        wanted = self.percentile / 100 * count
        reached = 0
        for at in sorted(buckets):
            if reached + buckets[at] >= wanted:
                break
            reached += buckets[at]
        # Within the bucket too: two classes may well be closer than it is wide.
        share = (wanted - reached) / buckets[at]
        return float(2 ** ((at - 0.5 + share) / FINENESS))

    def all_ns(self) -> list[float]:
        return [self.response_ns(c) for c in range(self._classes)]
