"""FAS-MCQ: the query that makes most freshness per unit of work first (fas-mcq-paper 4 and 5.2).

V = alpha (1 - (1 - S)^(N^beta)) / (N^beta C^avg), eqs. 11, 12 and 15: the chance that the query
is stale, per unit of the work that makes it fresh. With beta = 0 the number of pending updates
does not count, which is RB-MCQ; beta = 1 is the policy for freshness proper.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1, inf, log1p
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.policies.parts.priorities.prioritised import DrainParams, PrioritisedQueries


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshnessParams(DrainParams):
    """Parameters of fas-mcq; the weights alpha are the queries' own."""

    #: From 0 (for response time) to 1 (for freshness).
    beta: float = 1.0

    def __post_init__(self) -> None:
        DrainParams.__post_init__(self)
        if not 0 <= self.beta <= 1:
            raise ConfigError("policy", f"beta {self.beta}", "give a number in [0, 1]")


class FreshnessAware(PrioritisedQueries):
    """Weighted FAS-MCQ(beta). Weights may change while it runs."""

    name = "fas-mcq"
    summary = "the query whose freshness costs least, by weight, first"
    Params: ClassVar[type[Any]] = FreshnessParams
    params: FreshnessParams

    #: What beta is now; a subclass may move it.
    beta: float

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.beta = self.params.beta

    def priority(self, query: int) -> float:
        updates, log_fresh, _, cost_ns = self.backlog(query)
        # N^beta = N * N^(beta - 1); updates may wait at several boxes, so S and C are sums.
        share = 1.0 if self.beta == 1 else updates ** (self.beta - 1)
        return self.view.query_weight[query] * -expm1(share * log_fresh) / (share * cost_ns)

    def backlog(self, query: int) -> tuple[int, float, float, float]:
        """What waits for a query: updates, ln (1 - S)^N, results to expect, and work (ns)."""
        pending = self.view.pending
        updates, log_fresh, results, cost_ns = 0, 0.0, 0.0, 0.0
        for box, passes, each_ns in self.expected[query]:
            if held := pending[box]:
                updates += held
                # In logarithms, since (1 - S)^N leaves the range of numbers within hundreds.
                log_fresh += held * (log1p(-passes) if passes < 1 else -inf)
                results += held * passes
                cost_ns += held * each_ns
        return updates, log_fresh, results, cost_ns
