"""MRR, MORR and MPRR: round robin on many cores (class-based-thesis 6.2.1).

MRR runs queries in turn, each from input to output on all that had arrived; MORR runs boxes in
turn. Both know no classes. MPRR runs queries in turn, but lets a query take only a share of its
input queue, its class's share of all priorities, and one tuple at least.
"""

from __future__ import annotations

from typing import ClassVar

from daybreak.policies.base import Change, Granularity, Plan, Step, View, Work
from daybreak.policies.candidates import Candidates, ChoosesQueries, Turns


class QueriesInTurn(ChoosesQueries):
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


class BoxesInTurn(QueriesInTurn):
    """MORR."""

    name = "morr"
    summary = "boxes in turn, whatever query they belong to (multicore operator round robin)"
    granularity: ClassVar[Granularity] = "box"

    def make_candidates(self) -> Candidates:
        return Candidates.boxes(self.view)


class ProportionalInTurn(QueriesInTurn):
    """MPRR."""

    name = "mprr"
    summary = "queries in turn, each takes its class's share of its input queue"

    def make_candidates(self) -> Candidates:
        view = self.view
        inputs = frozenset(view.network.input_boxes)
        total = sum(view.class_priority)

        def step(query: int, box: int) -> Step:
            share = view.class_priority[view.query_class[query]] / total
            return Step(box, fraction=share if box in inputs else 1.0)

        return Candidates.queries(view, step)

    def on_change(self, change: Change, now_ns: int) -> None:
        self.candidates.plans = self.make_candidates().plans
