"""condon: each tuple follows an order drawn from the optimal flow (chapter 3 and section 6.1)."""

from __future__ import annotations

from random import Random

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.optimal_flow import condon_flow
from daybreak.filters.routers.base import OneAtATime
from daybreak.model.errors import ConfigError


class Condon(OneAtATime):
    """Recomputes the flow when the estimates have drifted; tuples on their way keep theirs."""

    name = "condon"

    def attach(self, estimates: Estimates, dependencies: Dependencies, rng: Random) -> None:
        if not dependencies.none:
            raise ConfigError(
                "router 'condon'",
                "its flow knows no dependencies",
                "use free-first, or drop `after`",
            )
        super().attach(estimates, dependencies, rng)
        self._revision = -1

    def arrive(self, t: StreamTuple) -> None:
        if self._revision != self.estimates.revision:
            self._revision = self.estimates.revision
            flows = condon_flow(list(self.estimates))
            self._routes, self._rates = list(flows), list(flows.values())
        t.route = self.rng.choices(self._routes, self._rates)[0]
        super().arrive(t)

    def next_filter(self, t: StreamTuple) -> int:
        return t.route[t.num_passed]
