"""Quality of service inside the classes of MBD (class-based-thesis 7.3, named as future work).

The schedule says which class a slot belongs to, and how often each query runs in a round. Within
the class, a query may change places with one whose turn comes later in the round, if that saves
utility by their QoS graphs: what the later one's oldest tuple would lose by waiting for its turn
(its slope, once its slack is used up), less what the earlier one's loses by waiting instead.
Classes keep what their priorities give them, and the even spacing of the ruler is disturbed only
where it pays.
"""

from __future__ import annotations

from bisect import insort
from math import nan

from daybreak.policies.base import View, Work
from daybreak.policies.mbd import MulticoreBroadcastDisks


class QosBroadcastDisks(MulticoreBroadcastDisks):
    """Each query runs as often in a round as under MBD, in another order within its class."""

    name = "mbd-qos"
    summary = "mbd whose queries change places within a class where that saves utility"

    def attach(self, view: View, work: Work, seed: int) -> None:
        self._graphs = [q.qos for q in view.network.queries]
        self._round_ns = nan
        self._slot_ns = nan
        super().attach(view, work, seed)

    def _begin_round(self) -> None:
        super()._begin_round()
        #: Where each unit's certain slots lie in the round; what depends on the lot stays put.
        self._places: list[list[int]] = [[] for _ in self._plans]
        for place, (unit, chance) in enumerate(self._slots):
            if chance == 1.0:
                self._places[unit].append(place)
        self._members: dict[int, list[int]] = {}
        for unit, queries in enumerate(self._units.queries):
            # Units over several classes belong to none, and stay where they are.
            if len({self._class[q] for q in queries}) == 1 and self._graphs[queries[0]]:
                self._members.setdefault(self._class[queries[0]], []).append(unit)

    def next_slot(self, now_ns: int, worker: int) -> int | None:
        at = self._cursor
        if not at:
            # How long a slot takes is known from the round before.
            self._slot_ns = (now_ns - self._round_ns) / len(self._slots)
            self._round_ns = now_ns
        unit, chance = self._slots[at]
        if chance == 1.0:
            self._places[unit].remove(at)
            if self._slot_ns > 0:  # not NaN, in the first round
                self._exchange(unit, at, now_ns)
        return super().next_slot(now_ns, worker)

    def _exchange(self, unit: int, at: int, now_ns: int) -> None:
        """Gives the slot to the member of the class that saves most by it, if any does."""
        cls = self._class[self._units.queries[unit][0]]
        mine_ns = self._late_ns(unit, now_ns)
        best, chosen = 0.0, -1
        for other in self._members.get(cls, ()):
            places = self._places[other]
            if other == unit or not places or not self.can_run(other):
                continue
            late_ns = self._late_ns(other, now_ns)
            if late_ns is None:
                continue
            self.work.evaluated += 1
            wait_ns = (places[0] - at) * self._slot_ns
            saved = self._loss(other, late_ns, wait_ns)
            if saved > best:
                saved -= self._loss(unit, mine_ns, wait_ns) if mine_ns is not None else 0.0
                if saved > best:
                    best, chosen = saved, other
        if chosen >= 0:
            later = self._places[chosen].pop(0)
            insort(self._places[unit], later)
            self._slots[at], self._slots[later] = self._slots[later], self._slots[at]

    def _late_ns(self, unit: int, now_ns: int) -> int | None:
        """How long its oldest tuple has waited; None if it holds none."""
        pending, head = self.view.pending, self.view.head_ns
        heads = [head[b] for b in self._units.boxes[unit] if pending[b]]
        return now_ns - min(heads) if heads else None

    def _loss(self, unit: int, late_ns: float, wait_ns: float) -> float:
        """Utility its oldest tuple loses by waiting so much longer."""
        graph = self._graphs[self._units.queries[unit][0]]
        return graph.worth(late_ns) - graph.worth(late_ns + wait_ns) if graph else 0.0
