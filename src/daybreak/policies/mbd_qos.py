"""Quality of service inside the classes of MBD (class-based-thesis 7.3, named as future work).

The schedule says which class a slot belongs to, and how often each query runs in a round. Which
of the class's queries takes the slot is decided by their QoS graphs, as aurora-thesis 4.2 orders
queries: by slope, the utility lost per further delay of the oldest tuple, then by slack, the time
until utility begins to drop; equals in order of the schedule. So classes keep what their
priorities give them, and within a class what is about to lose utility goes first.
"""

from __future__ import annotations

from math import inf

from daybreak.policies.base import View, Work
from daybreak.policies.mbd import MulticoreBroadcastDisks


class QosBroadcastDisks(MulticoreBroadcastDisks):
    """Each query runs as often in a round as under MBD, in another order within its class."""

    name = "mbd-qos"
    summary = "mbd whose classes run first what loses utility fastest, then what has least slack"

    def attach(self, view: View, work: Work, seed: int) -> None:
        self._qos = [q.qos for q in view.network.queries]
        super().attach(view, work, seed)

    def _begin_round(self) -> None:
        super()._begin_round()
        #: Runs left in this round by unit; the lots are drawn at its beginning.
        self._left = [0] * len(self._plans)
        for unit, chance in self._slots:
            self._left[unit] += chance == 1.0 or self._random() < chance
        self._class_of_unit = [
            min((self._class[q] for q in qs), key=lambda c: (-self._priority[c], c))
            for qs in self._units.queries
        ]
        self._members: dict[int, list[int]] = {}
        for unit, cls in enumerate(self._class_of_unit):
            self._members.setdefault(cls, []).append(unit)

    def next_slot(self, now_ns: int, worker: int) -> int | None:
        unit, _ = self._slots[self._cursor]
        self._cursor += 1
        left, cls = self._left, self._class_of_unit[unit]
        members = [u for u in self._members[cls] if left[u] and self.can_run(u)]
        self.work.scanned += len(members)
        waiting = [(self._urgency(u, now_ns), u) for u in members if self._holds(u)]
        if waiting:
            unit = min(waiting)[1]
        if not left[unit]:
            return None  # it has had its runs, and nobody else of the class wants the slot
        left[unit] -= 1
        return unit

    def _holds(self, unit: int) -> bool:
        pending = self.view.pending
        return any(pending[b] for b in self._units.boxes[unit])

    def _urgency(self, unit: int, now_ns: int) -> tuple[float, float]:
        """Smallest first: steepest slope, then least slack."""
        pending, head = self.view.pending, self.view.head_ns
        boxes = self._units.boxes[unit]
        late_ns = now_ns - min(head[b] for b in boxes if pending[b])
        slope, slack = 0.0, inf
        for q in self._units.queries[unit]:
            graph = self._qos[q]
            if graph is not None:
                slope = max(slope, graph.gradient(late_ns))
                slack = min(slack, graph.slack_ns(late_ns))
        return -slope, slack
