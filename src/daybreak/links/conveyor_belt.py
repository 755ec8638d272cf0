"""Conveyor belt (section 3.4): a schedule of slots, filled from the latest feasible one.

Slot 0 is the next transfer: slots are counted from the moment the link frees. A newcomer
scans from the latest slot it could use towards the head, in three passes: empty slots, then
slots of optional tuples, then slots of lower classes. What it replaces is discarded. The belt
conserves work: when the link frees, empty head slots are jumped.

The text assumes equal sizes. Here a tuple takes as many neighbouring slots as it needs; with
equal sizes that is one, and the belt is exactly the text's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, gcd
from typing import Literal, get_args

from daybreak.links.link_classes import LinkClass
from daybreak.links.link_tuples import LinkTuple
from daybreak.links.scheduler import DropReason, Scheduler
from daybreak.model.errors import ConfigError, suggestion

#: By its place in the window, or by what has become of the window so far.
Marking = Literal["static", "dynamic"]
MARKINGS: tuple[str, ...] = get_args(Marking)
#: Whether what is in a slot yields to a newcomer.
_Yields = Callable[[LinkTuple | None, LinkTuple], bool]
#: The largest class takes at most this many slots: finer slots cost time and win little.
MOST_SLOTS_PER_TUPLE = 16
#: No tuple is planned further ahead, however long its deadline: a belt takes memory.
LONGEST_BELT = 50_000


class ConveyorBelt(Scheduler):
    """O(slots until the longest deadline) per tuple.

    With ``marks="dynamic"`` a tuple is mandatory as long as fewer than m of its window are on
    the belt or sent, instead of by its place in the window.
    """

    def __init__(
        self,
        classes: Sequence[LinkClass],
        bandwidth_bytes_per_s: float,
        *,
        marks: Marking = "static",
        slot_bytes: int | None = None,
    ) -> None:
        super().__init__(classes, bandwidth_bytes_per_s)
        if marks not in MARKINGS:
            raise ConfigError("conveyor-belt", f"marks {marks!r}", suggestion(marks, MARKINGS))
        if slot_bytes is not None and slot_bytes < 1:
            raise ConfigError("conveyor-belt", f"slot_bytes {slot_bytes}", "give at least 1")
        self._dynamic = marks == "dynamic"
        self._slot_bytes = slot_bytes or _slot_bytes(self.classes)
        #: The tuple in each slot; one that needs several slots is listed in all of them.
        self._belt: list[LinkTuple | None] = []
        #: Dynamic marks: (class, window) -> tuples of it on the belt or sent.
        self._kept: dict[tuple[int, int], int] = {}

    @property
    def belt(self) -> tuple[LinkTuple | None, ...]:
        """The schedule as it stands, head first."""
        return tuple(self._belt)

    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        slot_ns = self._slot_bytes * self.ns_per_byte
        slack_ns = item.deadline_ns - free_ns - item.size_bytes * self.ns_per_byte
        if slack_ns < 0:
            self.drop(item, DropReason.EXPIRED)
            return
        if self._dynamic:
            item = self._marked(item)
        latest = min(int(slack_ns // slot_ns), LONGEST_BELT)
        width = -(-item.size_bytes // self._slot_bytes)
        insert = self._insert_one if width == 1 else self._insert_wide
        if not insert(item, latest, width):
            self.drop(item, DropReason.EVICTED)
        elif self._dynamic:
            self._count(item, 1)

    def pick(self, now_ns: int) -> LinkTuple | None:
        belt, ns_per_byte = self._belt, self.ns_per_byte
        while belt:
            head = 0
            while head < len(belt) and belt[head] is None:
                head += 1
            if head == len(belt):
                belt.clear()
                return None
            item = belt[head]
            assert item is not None
            del belt[: head + -(-item.size_bytes // self._slot_bytes)]
            if now_ns + item.size_bytes * ns_per_byte <= item.deadline_ns:
                return item
            # Only where the link was held up: at a steady bandwidth every slot is in time.
            self._lose(item, DropReason.EXPIRED)
        return None

    def clear(self) -> list[LinkTuple]:
        items: list[LinkTuple] = []
        for item in self._belt:
            if item is not None and (not items or items[-1] is not item):
                items.append(item)
                self._count(item, -1)
        self._belt.clear()
        return items

    def give_back(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        for item in items:
            self._count(item, -1)
        super().give_back(items, now_ns)

    def _insert_one(self, item: LinkTuple, latest: int, width: int) -> bool:
        """All three passes in one scan, for a tuple of one slot."""
        del width
        belt = self._belt
        if latest >= len(belt):
            belt.extend([None] * (latest + 1 - len(belt)))
            belt[latest] = item
            return True
        mandatory, cls = item.mandatory, item.cls
        optional_at = lower_at = -1
        for slot in range(latest, -1, -1):
            there = belt[slot]
            if there is None:
                belt[slot] = item
                return True
            if mandatory:
                if not there.mandatory:
                    if optional_at < 0:
                        optional_at = slot
                elif there.cls > cls and lower_at < 0:
                    lower_at = slot
        slot = optional_at if optional_at >= 0 else lower_at
        if slot < 0:
            return False
        self._evict(slot)
        belt[slot] = item
        return True

    def _insert_wide(self, item: LinkTuple, latest: int, width: int) -> bool:
        """One pass after the other, each looking for ``width`` slots before the deadline.

        They need not be neighbours: what lies between them can slide towards the head, where
        it is in time as well. Without that, wide tuples would find gaps but no room.
        """
        belt, end = self._belt, latest + width
        if end > len(belt):
            belt.extend([None] * (end - len(belt)))
        for yields in (_if_empty, _if_optional, _if_lower)[: 3 if item.mandatory else 1]:
            last = self._whole_end(item, end, yields)
            found = [s for s in range(last - 1, -1, -1) if yields(belt[s], item)][:width]
            if len(found) == width:
                for slot in found:
                    self._evict(slot)
                kept = [there for there in belt[found[-1] : last] if there is not None]
                room = last - found[-1] - len(kept) - width
                belt[found[-1] : last] = [*kept, *[None] * room, *[item] * width]
                return True
        return False

    def _whole_end(self, item: LinkTuple, end: int, yields: _Yields) -> int:
        """Before a tuple that stays and lies across ``end``: it cannot be cut in two."""
        across = self._belt[end - 1]
        if across is None or yields(across, item) or end == len(self._belt):
            return end
        if self._belt[end] is not across:
            return end
        while end > 0 and self._belt[end - 1] is across:
            end -= 1
        return end

    def _evict(self, slot: int) -> None:
        """Discards the tuple in this slot, if there still is one, with all its slots."""
        out = self._belt[slot]
        if out is None:
            return
        width = -(-out.size_bytes // self._slot_bytes)
        for at in range(max(0, slot - width + 1), min(len(self._belt), slot + width)):
            if self._belt[at] is out:
                self._belt[at] = None
        self._lose(out, DropReason.EVICTED)

    def _lose(self, item: LinkTuple, reason: DropReason) -> None:
        """Drops a tuple that was on the belt."""
        self._count(item, -1)
        self.drop(item, reason)

    def _marked(self, item: LinkTuple) -> LinkTuple:
        cls = self.classes[item.cls]
        kept = self._kept.get((item.cls, item.number // cls.n), 0)
        return replace(item, mandatory=kept < cls.m)

    def _count(self, item: LinkTuple, change: int) -> None:
        """Dynamic marks: one more or less of its window is on the belt or sent."""
        if not self._dynamic:
            return
        cls, window = item.cls, item.number // self.classes[item.cls].n
        kept = self._kept.get((cls, window), 0) + change
        self._kept[cls, window] = max(0, kept)
        # Windows tumble: those before the last one can receive no newcomer any more.
        self._kept.pop((cls, window - 2), None)


def _if_empty(there: LinkTuple | None, newcomer: LinkTuple) -> bool:
    del newcomer
    return there is None


def _if_optional(there: LinkTuple | None, newcomer: LinkTuple) -> bool:
    del newcomer
    return there is None or not there.mandatory


def _if_lower(there: LinkTuple | None, newcomer: LinkTuple) -> bool:
    return there is None or not there.mandatory or there.cls > newcomer.cls


def _slot_bytes(classes: Sequence[LinkClass]) -> int:
    sizes = [c.size_bytes for c in classes]
    return max(gcd(*sizes), ceil(max(sizes) / MOST_SLOTS_PER_TUPLE))
