"""Calendar queues: constant-time priorities by bucket sort (Brown 1988; fas-mcq-paper 4.5,
aurora-thesis 4.4.2.1).

``RankedLists`` are multi-lists: items in numbered buckets, within a bucket in order of entry. They
know which buckets hold something, as one integer, a bit each: the best one is its highest bit.
``CalendarQueue`` puts rates into such buckets.
"""

from __future__ import annotations

from collections import OrderedDict
from math import log2

#: Octaves below and above 1 that have buckets of their own; beyond, priorities share the last.
OCTAVES = 64


class Lists:
    """Items 0, 1, 2, ..., each in one numbered bucket or in none."""

    def __init__(self, items: int) -> None:
        self._buckets: dict[int, dict[int, float]] = {}
        #: The bucket each item is in, -1 for none.
        self._at = [-1] * items
        self._count = 0

    def added(self, item: int) -> None:
        """There is one more item, or another one in this place; it is in no bucket."""
        if item == len(self._at):
            self._at.append(-1)
        self.remove(item)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, item: int) -> bool:
        return self._at[item] >= 0

    def enter(self, item: int, at: int, key: float = 0.0) -> None:
        """Puts the item into a bucket; one that is there already keeps its place in it."""
        held = self._at[item]
        if held != at:
            if held >= 0:
                self.remove(item)
            self._at[item] = at
            self._count += 1
            if at not in self._buckets:
                self._buckets[at] = self._bucket()
        self._buckets[at][item] = key

    def _bucket(self) -> dict[int, float]:
        return {}

    def remove(self, item: int) -> None:
        """Takes the item out if it is there."""
        at = self._at[item]
        if at >= 0:
            del self._buckets[at][item]
            self._at[item] = -1
            self._count -= 1


class RankedLists(Lists):
    """Lists in which buckets of higher numbers come first."""

    def __init__(self, items: int) -> None:
        super().__init__(items)
        self._filled = 0

    def enter(self, item: int, at: int, key: float = 0.0) -> None:
        super().enter(item, at, key)
        self._filled |= 1 << at

    def remove(self, item: int) -> None:
        at = self._at[item]
        super().remove(item)
        if at >= 0 and not self._buckets[at]:
            self._filled ^= 1 << at

    def _bucket(self) -> dict[int, float]:
        # Ordered: the first of a plain dict costs the more to find the more went before it.
        return OrderedDict()

    def first(self) -> int:
        """The number of the highest bucket that holds something; -1 if none does."""
        return self._filled.bit_length() - 1

    def pop(self) -> tuple[int, int]:
        """Takes out the first item of the highest bucket; (item, bucket)."""
        at = self.first()
        item = next(iter(self._buckets[at]))
        self.remove(item)
        return item, at


class CalendarQueue(RankedLists):
    """Items with a priority >= 0 each; the highest first, ties by item.

    Each bucket holds one class of priorities, a fixed ratio wide, so that the same buckets serve
    rates of any magnitude. Within a bucket the best item is looked for, hence the answer is
    exact, and the same as a heap's; with buckets narrower than the spread of priorities there
    are few to look at.
    """

    def __init__(self, items: int, buckets_per_octave: int = 16) -> None:
        super().__init__(items)
        self._per_octave = buckets_per_octave
        self._shift = OCTAVES * buckets_per_octave + 1
        self._last = 2 * self._shift

    def put(self, item: int, priority: float) -> None:
        """Inserts the item, or gives it another priority."""
        at = int(log2(priority) * self._per_octave) + self._shift if priority > 0 else 0
        self.enter(item, min(max(at, 0), self._last), priority)

    def best(self) -> int | None:
        """The item of the highest priority, which stays; None if there is none."""
        if not self._filled:
            return None
        bucket = self._buckets[self.first()]
        if len(bucket) == 1:
            return next(iter(bucket))
        return min(bucket, key=lambda item: (-bucket[item], item))
