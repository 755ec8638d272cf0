"""The queues of the polling system: whole trains, inputs merged in order of time, tuples held.

A box has one queue, or one per input where it waits for all of them. A queue holds the arrival
times of its tuples and their lucks, in order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from math import ceil

from daybreak.engine.state import SystemState
from daybreak.simulation.loop import NEVER

Train = tuple[list[int], list[float]]


class Queues:
    """Keeps the state's view of what is pending up to date."""

    def __init__(self, state: SystemState, waits: Collection[int], holds: Collection[int]) -> None:
        """``waits``: boxes that merge their inputs; ``holds``: that keep their newest tuple."""
        network = state.network
        boxes = len(network.boxes)
        self._state, self._holds = state, holds
        #: No more input will come: nothing waits any longer.
        self.ended = False
        #: The box of each queue, and the queues of a box that waits.
        self.box = list(range(boxes))
        self._inputs: list[tuple[int, ...]] = [() for _ in range(boxes)]
        #: The queues that each stream and each box feeds.
        self.entries: list[list[int]] = [[] for _ in network.streams]
        self.feeds: list[list[int]] = [[] for _ in range(boxes)]
        for b, declared in enumerate(network.boxes):
            for name in declared.inputs:
                queue = b
                if b in waits:
                    queue = len(self.box)
                    self.box.append(b)
                    self._inputs[b] += (queue,)
                if name in network.stream_index:
                    self.entries[network.stream_index[name]].append(queue)
                else:
                    self.feeds[network.box_index[name]].append(queue)
        self.arrivals: list[list[int]] = [[] for _ in self.box]
        self.lucks: list[list[float]] = [[] for _ in self.box]
        #: Arrival of the newest tuple each queue has seen.
        self.reached = [-1] * len(self.box)
        #: Boxes that take whatever they are handed, at once.
        self.direct = [b not in waits and b not in holds for b in range(boxes)]

    def put(self, queue: int, stamps: list[int], lucks: list[float]) -> int:
        """Queues tuples at a box; returns the box."""
        state, box = self._state, self.box[queue]
        if not state.pending[box]:
            state.head_ns[box] = stamps[0]
        state.pending[box] += len(stamps)
        state.arrival_sum_ns[box] += sum(stamps)
        self.reached[queue] = max(self.reached[queue], stamps[-1])
        self.arrivals[queue] += stamps
        self.lucks[queue] += lucks
        return box

    def take(self, box: int, limit: int | None, fraction: float) -> Train:
        """What a call may work on: all that is queued, less what must wait and what is barred."""
        state = self._state
        held = state.pending[box]
        if limit is None and fraction == 1.0 and self.direct[box]:
            stamps, lucks = self.arrivals[box], self.lucks[box]
            self.arrivals[box], self.lucks[box] = [], []
            state.pending[box] = state.arrival_sum_ns[box] = 0
            return stamps, lucks
        most = held
        if limit is not None or fraction < 1.0:
            most = min(max(1, ceil(held * fraction)), held if limit is None else limit)
        if self._inputs[box]:
            stamps, lucks = self._merge(self._inputs[box], most)
        elif box in self._holds and not self.ended:
            stamps, lucks = self._cut(box, min(most, held - 1))
        else:
            stamps, lucks = self._cut(box, most)
        state.pending[box] = held - len(stamps)
        if not state.pending[box]:
            state.arrival_sum_ns[box] = 0
        else:
            state.arrival_sum_ns[box] -= sum(stamps)
            queues = self._inputs[box] or (box,)
            state.head_ns[box] = min(self.arrivals[q][0] for q in queues if self.arrivals[q])
        return stamps, lucks

    def _cut(self, queue: int, count: int) -> Train:
        arrivals, lucks = self.arrivals[queue], self.lucks[queue]
        taken = arrivals[:count], lucks[:count]
        del arrivals[:count], lucks[:count]
        return taken

    def _merge(self, queues: Sequence[int], most: int) -> Train:
        """Of all inputs, in order of time, what every input has reached."""
        reached = NEVER if self.ended else min(self.reached[q] for q in queues)
        ready: list[tuple[int, float, int]] = []
        for q in queues:
            count = bisect_right(self.arrivals[q], reached)
            pairs = zip(self.arrivals[q][:count], self.lucks[q][:count], strict=True)
            ready.extend((stamp, luck, q) for stamp, luck in pairs)
        ready.sort()
        del ready[most:]
        for q in queues:
            self._cut(q, sum(1 for _, _, at in ready if at == q))
        return [stamp for stamp, _, _ in ready], [luck for _, luck, _ in ready]
