"""MPRR: queries in turn on many cores, each on a share of its queue (class-based-thesis 6.2.1).

A query takes its class's share of all priorities from its input queue, one tuple at least.
"""

from __future__ import annotations

from daybreak.policies.base import Change, Step
from daybreak.policies.mrr import MulticoreRoundRobin
from daybreak.policies.parts.classes.candidates import Candidates


class MulticoreProportionalRoundRobin(MulticoreRoundRobin):
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
