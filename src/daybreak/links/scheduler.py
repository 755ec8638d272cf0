"""What every link scheduler is: tuples arrive, the link becomes free, one is sent.

Transfers are atomic. A tuple's *slack* is its deadline minus the end of its transfer if that
began now; with a negative slack it is worth nothing and must never be sent (section 3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum

from daybreak.links.link_classes import LinkClass, ranked
from daybreak.links.link_tuples import LinkTuple
from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S


class DropReason(Enum):
    """Why a tuple was not sent."""

    #: It could no longer arrive in time.
    EXPIRED = "expired"
    #: Its place was taken by one that matters more.
    EVICTED = "evicted"


class Scheduler(ABC):
    """Decides what a link sends next. Pure: no clock, no I/O, one caller at a time.

    ``arrive`` is called for every tuple in order of arrival, ``pick`` whenever the link is
    free. Every tuple handed in leaves exactly once: returned by ``pick``, or in ``dropped``.
    """

    def __init__(self, classes: Sequence[LinkClass], bandwidth_bytes_per_s: float) -> None:
        self.classes = ranked(classes)
        #: What was given up and why, oldest first; whoever reads it may clear it.
        self.dropped: list[tuple[LinkTuple, DropReason]] = []
        self._set_bandwidth(bandwidth_bytes_per_s)

    @abstractmethod
    def arrive(self, item: LinkTuple, free_ns: int) -> None:
        """Takes a tuple in. ``free_ns`` is now, or when the transfer under way will end."""

    @abstractmethod
    def pick(self, now_ns: int) -> LinkTuple | None:
        """The tuple to send now; None if nothing that waits could still arrive in time."""

    @abstractmethod
    def clear(self) -> list[LinkTuple]:
        """Takes every waiting tuple out, in the order it would be kept in."""

    def give_back(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        """Takes tuples back whose transfer was lost; they are older than all that wait."""
        self._refill([*items, *self.clear()], now_ns)

    def retune(self, bandwidth_bytes_per_s: float, now_ns: int) -> None:
        """The link is faster or slower from now on."""
        self._set_bandwidth(bandwidth_bytes_per_s)
        self._refill(self.clear(), now_ns)

    def expire(self, now_ns: int) -> None:
        """Drops whatever could no longer arrive in time, wherever it waits."""
        self._refill(self.clear(), now_ns)

    def drop(self, item: LinkTuple, reason: DropReason) -> None:
        self.dropped.append((item, reason))

    def late(self, item: LinkTuple, now_ns: int) -> bool:
        """Whether the slack is negative."""
        return now_ns + item.size_bytes * self.ns_per_byte > item.deadline_ns

    def _refill(self, items: Sequence[LinkTuple], now_ns: int) -> None:
        for item in items:
            if self.late(item, now_ns):
                self.drop(item, DropReason.EXPIRED)
            else:
                self.arrive(item, now_ns)

    def _set_bandwidth(self, bandwidth_bytes_per_s: float) -> None:
        if not 1e-3 <= bandwidth_bytes_per_s <= 1e12:
            raise ConfigError(
                "link", f"bandwidth of {bandwidth_bytes_per_s} bytes/s", "give 0.001 to 1e12"
            )
        self.bandwidth_bytes_per_s = bandwidth_bytes_per_s
        self.ns_per_byte = NS_PER_S / bandwidth_bytes_per_s
