"""ML: a lottery among queries on many cores (class-based-thesis 6.2.1).

A query's tickets are its priority as MBD works it out, the class's priority times its part of
the class's cost per tuple; under MOL, a box's tickets are its own part of that. Every scheduling
point is a draw; there is no bound on how long a loser waits.
"""

from __future__ import annotations

from random import Random

from daybreak.policies.base import Change, Plan, View, Work
from daybreak.policies.parts.classes.candidates import ChoosesQueries
from daybreak.policies.parts.classes.priority_shares import query_shares
from daybreak.policies.parts.classes.tickets import Tickets


class MulticoreLottery(ChoosesQueries):
    """ML."""

    name = "ml"
    summary = "queries drawn by lot, with tickets by class priority and cost (multicore lottery)"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._random = Random(f"{seed}/{self.name}")
        self._tickets = Tickets(len(self.candidates))
        self._hand_out()

    def shares(self) -> list[float]:
        """Tickets of each unit."""
        return query_shares(self.view)

    def _hand_out(self) -> None:
        self._held = self.shares()
        for unit, tickets in enumerate(self._held):
            self._tickets.give(unit, tickets)

    def on_change(self, change: Change, now_ns: int) -> None:
        self._hand_out()

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        """Draws until a unit can run; losers of this draw get their tickets back after it."""
        tickets, candidates = self._tickets, self.candidates
        barred: list[int] = []
        while (unit := tickets.draw(self._random)) is not None and not candidates.can_run(unit):
            tickets.give(unit, 0.0)
            barred.append(unit)
        for loser in barred:
            tickets.give(loser, self._held[loser])
        if unit is None:
            return None
        self.work.invocations += 1
        self.work.compared += len(candidates).bit_length()
        return candidates.plans[unit]
