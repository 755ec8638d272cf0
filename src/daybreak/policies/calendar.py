"""A calendar queue: constant-time priorities by bucket sort (Brown 1988; fas-mcq-paper 4.5).

Each bucket holds one class of priorities, a fixed ratio wide, so that the same buckets serve
rates of any magnitude. Which buckets hold something is one integer, a bit each: the best one is
its highest bit. Within a bucket the best item is looked for, hence the answer is exact, and the
same as a heap's; with buckets narrower than the spread of priorities there are few to look at.
"""

from __future__ import annotations

from math import log2

#: Octaves below and above 1 that have buckets of their own; beyond, priorities share the last.
OCTAVES = 64


class CalendarQueue:
    """Items 0, 1, 2, ... with a priority >= 0 each; the highest first, ties by item."""

    def __init__(self, items: int, buckets_per_octave: int = 16) -> None:
        self._per_octave = buckets_per_octave
        self._shift = OCTAVES * buckets_per_octave + 1
        self._last = 2 * self._shift
        self._buckets: list[dict[int, float]] = [{} for _ in range(self._last + 1)]
        self._filled = 0
        #: The bucket each item is in, -1 for none.
        self._at = [-1] * items

    def __len__(self) -> int:
        return sum(len(b) for b in self._buckets)

    def __contains__(self, item: int) -> bool:
        return self._at[item] >= 0

    def put(self, item: int, priority: float) -> None:
        """Inserts the item, or gives it another priority."""
        at = int(log2(priority) * self._per_octave) + self._shift if priority > 0 else 0
        at = min(max(at, 0), self._last)
        held = self._at[item]
        if held != at:
            if held >= 0:
                self.remove(item)
            self._at[item] = at
            self._filled |= 1 << at
        self._buckets[at][item] = priority

    def remove(self, item: int) -> None:
        """Takes the item out if it is there."""
        at = self._at[item]
        if at < 0:
            return
        bucket = self._buckets[at]
        del bucket[item]
        self._at[item] = -1
        if not bucket:
            self._filled ^= 1 << at

    def best(self) -> int | None:
        """The item of the highest priority, which stays; None if there is none."""
        if not self._filled:
            return None
        bucket = self._buckets[self._filled.bit_length() - 1]
        if len(bucket) == 1:
            return next(iter(bucket))
        return min(bucket, key=lambda item: (-bucket[item], item))
