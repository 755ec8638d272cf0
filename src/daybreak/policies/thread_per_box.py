"""A thread per box, as an operating system would schedule them (aurora-thesis 3.4.2)."""

from __future__ import annotations

from daybreak.policies.baat import BoxAtATime


class ThreadPerBox(BoxAtATime):
    """Every box is a thread of the operating system, which switches among them in turn.

    The baseline of Figure 3.3. A context switch costs the fixed part of a scheduling step plus
    one candidate scanned per thread: run queues, caches and locks all grow with the threads.
    """

    name = "thread-per-box"
    summary = "a thread per box, switched in turn at a cost that grows with their number"

    def examined(self, ready: int) -> int:
        return len(self.units.units)
