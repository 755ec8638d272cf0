"""RB-MCQ: the highest output rate first, for response time (fas-mcq-paper 5.1)."""

from __future__ import annotations

from daybreak.policies.parts.priorities.prioritised import PrioritisedQueries


class RateBased(PrioritisedQueries):
    """GR = S / C^avg: results to expect per unit of work (eq. 13)."""

    name = "rb-mcq"
    summary = "the query that yields the most results per unit of work first"

    def priority(self, query: int) -> float:
        pending = self.view.pending
        outputs = cost_ns = 0.0
        for box, each, each_ns in self.expected[query]:
            if held := pending[box]:
                outputs += held * each
                cost_ns += held * each_ns
        return outputs / cost_ns
