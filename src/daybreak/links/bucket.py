"""A token bucket that paces whole tuples to a bandwidth."""

from __future__ import annotations

from daybreak.model.qos import NS_PER_S

#: A thread that wakes late may catch up this much, or the bandwidth would never be reached.
CATCH_UP_NS = 50_000_000


class TokenBucket:
    """Says when the link is free again. Holds at most one tuple, plus what a late wake-up lost.

    Over any span of T seconds it lets through at most ``bandwidth * (T + 0.05)`` bytes and one
    tuple.
    """

    def __init__(self, bandwidth_bytes_per_s: float, now_ns: int) -> None:
        self.ns_per_byte = NS_PER_S / bandwidth_bytes_per_s
        #: From when on the next tuple may be sent.
        self.free_ns = now_ns

    def idle(self, now_ns: int) -> None:
        """Nothing waited until now: what was not used is gone."""
        self.free_ns = max(self.free_ns, now_ns)

    def take(self, size_bytes: int, now_ns: int) -> None:
        """A tuple goes out now; call only when ``free_ns`` has come."""
        began = max(self.free_ns, now_ns - CATCH_UP_NS)
        self.free_ns = began + int(size_bytes * self.ns_per_byte)
