"""MRR: round robin on many cores (class-based-thesis 6.2.1).

Queries run in turn, each from input to output on all that had arrived. MORR runs boxes in turn.
Neither knows classes; MPRR does.
"""

from __future__ import annotations

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.parts.classes.candidates import ChoosesQueries, Turns


class MulticoreRoundRobin(ChoosesQueries):
    """MRR."""

    name = "mrr"
    summary = "queries in turn, each from input to output (multicore round robin)"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._turns = Turns(self.candidates, range(len(self.candidates)))

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        unit = self._turns.next()
        if unit is None:
            return None
        self.work.invocations += 1
        return self.candidates.plans[unit]
