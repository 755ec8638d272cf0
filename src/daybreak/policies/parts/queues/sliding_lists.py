"""The lists of bucketing: units in numbered buckets, and units that slide along a row of them.

A row of buckets is one class of utility, the buckets in it are classes of slack. A unit enters a
bucket at the end of its list. When waiting takes it out of there, it need not be moved from list
to list: all units of a row slide alike, so that they enter each further bucket in the order of
their critical instants, and are kept in that order.
"""

from __future__ import annotations

from array import array
from collections import deque

from daybreak.policies.parts.queues.timer_queue import Entry, TimerQueue

NOWHERE = -1


class Queue(deque[Entry]):
    """One bucket: (instant of entry, unit), with entries in between that are void."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        super().__init__()
        #: Units in it: entries that are not void.
        self.held = 0


class SlidingLists:
    """Units 0, 1, 2, ..., each in a list, sliding along a row of lists, or nowhere.

    List ``at`` belongs to row ``at // columns``; higher lists come first.
    """

    def __init__(self, units: int, columns: int, width_ns: float) -> None:
        self._columns = columns
        #: By unit: its list, or -2 - row of one that slides; when it entered; its critical instant.
        self._at = array("q", [NOWHERE]) * units
        self._entered = array("q", [0]) * units
        self._critical = TimerQueue.no_instants(units)
        self._day_ns = width_ns / 8
        self._queues: dict[int, Queue] = {}
        self._slides: dict[int, TimerQueue] = {}
        #: The lists of each row that hold something, a bit each; the same for rows that do, and
        #: for rows along which something slides.
        self._filled: dict[int, int] = {}
        self._filled_rows = 0
        self._sliding_rows = 0

    def added(self) -> None:
        """There is one more unit, nowhere so far."""
        self._at.append(NOWHERE)
        self._entered.append(0)
        TimerQueue.added(self._critical)

    def entered_ns(self, unit: int) -> int:
        """When a unit that is in a list or slides entered the last list it was put into."""
        return self._entered[unit]

    def list_of(self, unit: int) -> int:
        """The list a unit is in; below 0 if in none."""
        return self._at[unit]

    def enter(self, unit: int, at: int, now_ns: int) -> None:
        """Puts a unit at the end of a list, unless it is in this list already."""
        held = self._at[unit]
        if held == at:
            return
        if held != NOWHERE:
            self.remove(unit)
        self._at[unit] = at
        self._entered[unit] = now_ns
        queue = self._queues.get(at)
        if queue is None:
            queue = self._queues[at] = Queue()
        if not queue.held:
            row = at // self._columns
            self._filled[row] = self._filled.get(row, 0) | 1 << at % self._columns
            self._filled_rows |= 1 << row
        elif len(queue) > 2 * queue.held + 16:
            self._tidy(at, queue)
        queue.append((now_ns, unit))
        queue.held += 1

    def slide(self, unit: int, row: int, critical_ns: float) -> None:
        """Lets a unit slide along a row until an instant."""
        self.remove(unit)
        self._at[unit] = -2 - row
        slide = self._slides.get(row)
        if slide is None:
            slide = self._slides[row] = TimerQueue(self._critical, self._day_ns)
        slide.put(unit, critical_ns)
        self._sliding_rows |= 1 << row

    def remove(self, unit: int) -> None:
        """Takes a unit out, wherever it is."""
        at = self._at[unit]
        if at == NOWHERE:
            return
        self._at[unit] = NOWHERE
        if at < 0:
            row = -2 - at
            slide = self._slides[row]
            slide.remove(unit)
            if not slide:
                self._sliding_rows ^= 1 << row
            return
        queue = self._queues[at]
        queue.held -= 1
        if not queue.held:
            queue.clear()
            row = at // self._columns
            self._filled[row] ^= 1 << at % self._columns
            if not self._filled[row]:
                self._filled_rows ^= 1 << row

    def _tidy(self, at: int, queue: Queue) -> None:
        held = [entry for entry in queue if self._holds(at, entry)]
        queue.clear()
        queue.extend(held)

    def _holds(self, at: int, entry: Entry) -> bool:
        entered_ns, unit = entry
        return self._at[unit] == at and self._entered[unit] == entered_ns

    def first_list(self) -> int:
        """The highest list that holds something; -1 if none does."""
        row = self._filled_rows.bit_length() - 1
        if row < 0:
            return -1
        return row * self._columns + self._filled[row].bit_length() - 1

    def first_in(self, at: int) -> Entry:
        """When the first unit of a list entered it, and which; it must hold something."""
        queue = self._queues[at]
        while not self._holds(at, queue[0]):
            queue.popleft()
        return queue[0]

    def first_sliding_row(self) -> int:
        """The highest row along which something slides; -1 if nothing does."""
        return self._sliding_rows.bit_length() - 1

    def foremost(self, row: int) -> Entry:
        """The first critical instant of those that slide along a row, and whose it is."""
        return self._slides[row].first()

    def arrived(self, now_ns: int) -> list[int]:
        """Takes out those that have slid to their critical instants."""
        found: list[int] = []
        rows = self._sliding_rows
        while rows:
            row = rows.bit_length() - 1
            rows ^= 1 << row
            slide = self._slides[row]
            for unit in slide.due(now_ns):
                self._at[unit] = NOWHERE
                found.append(unit)
            if not slide:
                self._sliding_rows ^= 1 << row
        return found
