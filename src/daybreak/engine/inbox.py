"""What waits for a query: ranges of its streams, oldest first.

An inbox is the only position of a query in its streams while it runs. What a job takes from it is
the range that the job reads, and that its commit moves the query past.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, Self


class Arrival(Protocol):
    """Tuples of a stream that arrived together: a segment."""

    @property
    def arrival_ns(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def borders(self) -> Sequence[int]:
        """Where trains over it are cut: rows from one border to the next; empty: anywhere."""

    @property
    def after_us(self) -> int | None:
        """The stream's watermark afterwards, where it has one."""


class Waiting(NamedTuple):
    """So many tuples of one segment from row ``row`` on, stamped with one arrival.

    For a query over windows it stands for windows instead (``closing``): those that end after
    ``after_us`` and up to ``closes_us``.
    """

    arrival_ns: int
    stream: str
    tuples: int
    seq: int
    row: int = 0
    after_us: int = 0
    closes_us: int = 0
    #: Of a segment that executors read by themselves: a train takes it whole, and nothing else but
    #: others of the kind.
    whole: bool = False

    @property
    def begin(self) -> tuple[str, int, int, int]:
        """Where it begins: a row, or a point in event time."""
        return self.stream, self.seq, self.row, self.after_us

    @property
    def end(self) -> tuple[str, int, int, int]:
        row = self.row + self.tuples if self.seq >= 0 else 0
        return self.stream, self.seq, row, self.closes_us


class Tick(NamedTuple):
    """A stream's watermark after a segment, or after a mark, which has no rows."""

    arrival_ns: int
    stream: str
    rows: int
    watermark_us: int


def closing(arrival_ns: int, stream: str, tuples: int, after_us: int, closes_us: int) -> Waiting:
    """Windows that wait since a stream closed them; ``tuples`` came since the ones before."""
    return Waiting(arrival_ns, stream, tuples, -1, 0, after_us, closes_us)


@dataclass
class Inbox:
    """Pending tuples of one query over all streams it reads, in order of arrival.

    Each stream's tuples are in the order of its segments, so any prefix of the inbox is a
    prefix of every stream: what a job takes is one range per stream.
    """

    waiting: deque[Waiting] = field(default_factory=deque)
    tuples: int = 0
    arrival_sum_ns: int = 0
    #: The tuples by stream; 0 where all were taken.
    by_stream: dict[str, int] = field(default_factory=dict)
    #: How many of the tuples last taken the job is to read at most; None: all of them.
    allowed: int | None = None

    @classmethod
    def of(cls, waiting: Iterable[Waiting]) -> Inbox:
        """With what waits already, in the order of each stream; streams in any order.

        Streams are merged by arrival. Within one, stamps may go back (a clock that was set, rows
        of a view), and its order counts.
        """
        inbox = cls()
        newest: dict[str, int] = {}
        merged: list[tuple[int, Waiting]] = []
        for item in waiting:
            at_ns = max(item.arrival_ns, newest.get(item.stream, item.arrival_ns))
            newest[item.stream] = at_ns
            merged.append((at_ns, item))
        for _, item in sorted(merged, key=lambda pair: pair[0]):
            inbox.put(item)
        return inbox

    def copy(self) -> Self:
        """An inbox that holds the same, and changes by itself."""
        twin = copy(self)
        twin.waiting = self.waiting.copy()
        twin.by_stream = self.by_stream.copy()
        return twin

    def arrive(self, segment: Arrival) -> int:
        """A segment has come; returns how many tuples are pending because of it."""
        for item in by_borders(segment):
            self.put(item)
        return segment.rows

    def tick(self, tick: Tick) -> int:
        """A stream's watermark has moved; returns how many tuples are pending because of it."""
        del tick
        return 0

    def put(self, item: Waiting) -> None:
        self.waiting.append(item)
        self._count(item, 1)

    def take(self, limit: int | None, *, cuts: bool = False) -> list[Waiting]:
        """The oldest tuples, at most ``limit`` of them; of whole items one at least.

        ``cuts``: whole items are divided, too.
        """
        left = self.tuples if limit is None else min(limit, self.tuples)
        taken: list[Waiting] = []
        while left > 0 and self.waiting:
            item = self.waiting[0]
            is_whole = item.whole and not cuts
            if taken and (item.whole != taken[0].whole or (is_whole and item.tuples > left)):
                break
            self.waiting.popleft()
            self._count(item, -1)
            if item.tuples > left and not is_whole:
                rest = item._replace(tuples=item.tuples - left, row=item.row + left)
                self.waiting.appendleft(rest)
                self._count(rest, 1)
                item = item._replace(tuples=left)
            taken.append(item)
            left -= item.tuples
        return taken

    def put_back(self, taken: list[Waiting]) -> None:
        """Undoes a ``take`` whose job failed."""
        for item in reversed(taken):
            self.waiting.appendleft(item)
            self._count(item, 1)

    def arrived_by(self, now_ns: int) -> None:
        """What waits has arrived by now, whatever clock has stamped it: an earlier process may
        have had one that was ahead, and nobody can wait for a tuple of tomorrow."""
        if any(item.arrival_ns > now_ns for item in self.waiting):
            arrived = [w._replace(arrival_ns=min(w.arrival_ns, now_ns)) for w in self.waiting]
            self.waiting = deque(arrived)
            self.arrival_sum_ns = sum(w.tuples * w.arrival_ns for w in arrived)

    @property
    def head_ns(self) -> int:
        return self.waiting[0].arrival_ns if self.waiting else 0

    def _count(self, item: Waiting, sign: int) -> None:
        counted = sign * item.tuples
        self.tuples += counted
        self.arrival_sum_ns += counted * item.arrival_ns
        self.by_stream[item.stream] = self.by_stream.get(item.stream, 0) + counted


class WholeInbox(Inbox):
    """What became pending together is taken together: windows that one segment closed."""

    def take(self, limit: int | None, *, cuts: bool = False) -> list[Waiting]:
        """As few items as hold ``limit`` tuples, so it may be more than that."""
        del cuts
        taken: list[Waiting] = []
        while self.waiting and (limit is None or limit > 0):
            item = self.waiting.popleft()
            self._count(item, -1)
            taken.append(item)
            limit = None if limit is None else limit - item.tuples
        return taken


class EntireInbox(Inbox):
    """What waits is taken together: a job computes the whole result anyway."""

    def take(self, limit: int | None, *, cuts: bool = False) -> list[Waiting]:
        """Everything, unless nothing is asked for."""
        del cuts
        if limit is not None and limit <= 0:
            return []
        taken = list(self.waiting)
        self.waiting.clear()
        for item in taken:
            self._count(item, -1)
        return taken


def by_borders(segment: Arrival, row: int = 0) -> list[Waiting]:
    """The tuples of a segment from ``row`` on, as trains may take them."""
    if not segment.borders:
        return [Waiting(segment.arrival_ns, segment.stream, segment.rows - row, segment.seq, row)]
    found, begin = [], 0
    for rows in segment.borders:
        first, begin = max(begin, row), begin + rows
        if first < begin:
            item = Waiting(
                segment.arrival_ns, segment.stream, begin - first, segment.seq, first, whole=True
            )
            found.append(item)
    return found


def same_range(one: Sequence[Waiting], other: Sequence[Waiting]) -> bool:
    """Whether two queries over one stream took the same of it, in whatever pieces."""
    return one[0].begin == other[0].begin and one[-1].end == other[-1].end
