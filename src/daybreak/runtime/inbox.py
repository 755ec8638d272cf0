"""What waits for a query: runs of tuples that arrived together, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class Arrival(Protocol):
    """Tuples of a stream that arrived together: a segment."""

    @property
    def arrival_ns(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def rows(self) -> int: ...
    @property
    def after_us(self) -> int | None:
        """The stream's watermark afterwards, where it has one."""


class Waiting(NamedTuple):
    """So many tuples of one stream, stamped with one arrival."""

    arrival_ns: int
    stream: str
    tuples: int
    #: For a window query: up to where these tuples close its windows.
    closes_us: int = 0


@dataclass
class Inbox:
    """Pending tuples of one query over all streams it reads, in order of arrival.

    Each stream's tuples are in the order of its segments, so any prefix of the inbox is a
    prefix of every stream: what a job takes is one range per stream.
    """

    waiting: deque[Waiting] = field(default_factory=deque)
    tuples: int = 0
    arrival_sum_ns: int = 0

    @classmethod
    def of(cls, waiting: Iterable[Waiting]) -> Inbox:
        """With what waits already, in any order."""
        inbox = cls()
        for item in sorted(waiting, key=lambda w: w.arrival_ns):
            inbox.put(item)
        return inbox

    def arrive(self, segment: Arrival) -> int:
        """A segment has come; returns how many tuples are pending because of it."""
        self.put(Waiting(segment.arrival_ns, segment.stream, segment.rows))
        return segment.rows

    def put(self, item: Waiting) -> None:
        self.waiting.append(item)
        self._count(item, 1)

    def take(self, limit: int | None) -> list[Waiting]:
        """The oldest tuples, at most ``limit`` of them."""
        left = self.tuples if limit is None else min(limit, self.tuples)
        taken: list[Waiting] = []
        while left:
            item = self.waiting.popleft()
            self._count(item, -1)
            if item.tuples > left:
                self.waiting.appendleft(item._replace(tuples=item.tuples - left))
                self._count(self.waiting[0], 1)
                item = item._replace(tuples=left)
            taken.append(item)
            left -= item.tuples
        return taken

    def put_back(self, taken: list[Waiting]) -> None:
        """Undoes a ``take`` whose job failed."""
        for item in reversed(taken):
            self.waiting.appendleft(item)
            self._count(item, 1)

    @property
    def head_ns(self) -> int:
        return self.waiting[0].arrival_ns if self.waiting else 0

    def _count(self, item: Waiting, sign: int) -> None:
        self.tuples += sign * item.tuples
        self.arrival_sum_ns += sign * item.tuples * item.arrival_ns
