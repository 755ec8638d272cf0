"""Orders ready boxes by output rate: level 2 of CQC and all of HR (class-based-thesis 4.1)."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from daybreak.model.errors import ConfigError
from daybreak.policies.base import Plan, Step, View
from daybreak.policies.parts.rates.output_rates import OutputRates


@dataclass(frozen=True, slots=True, kw_only=True)
class RateParams:
    """Parameters of the policies that order boxes by output rate."""

    #: Boxes fed by streams are source operators, which run only when no other box is ready
    #: (section 2.2.1: a system on a single core).
    own_sources: bool = False
    #: Tuples a box takes at most per call; 0 means its whole queue.
    train: int = 0

    def __post_init__(self) -> None:
        if self.train < 0:
            raise ConfigError("policy", f"train {self.train}", "give 0 or more")


class RateOrder:
    """What to run of some ready boxes."""

    def __init__(self, view: View, params: RateParams, *, by_priority: bool = False) -> None:
        self.rates = OutputRates(view, by_priority=by_priority)
        self._limit = params.train or None
        self._view = view
        self._own_sources = params.own_sources
        self._read_network()

    def _read_network(self) -> None:
        network = self._view.network
        self._sources = frozenset(network.input_boxes if self._own_sources else ())
        self._set_up_ns = [b.call_ns for b in network.boxes]

    def added(self, query: int) -> None:
        self._read_network()
        self.rates.added(query)

    def plan(self, ready: Collection[int], within_ns: float = math.inf) -> Plan | None:
        """The best operational box, or else all sources that hold tuples, one after the other.

        A box takes the tuples it is expected to manage in the time given, one at least.
        """
        operational = [b for b in ready if b not in self._sources] if self._sources else ready
        if operational:
            best = self.rates.best(operational)
            return Plan((Step(best, self._fits(best, within_ns)),))
        if ready:
            return Plan(tuple(Step(b, self._limit) for b in sorted(ready)))
        return None

    def _fits(self, box: int, within_ns: float) -> int | None:
        each_ns, held = self._view.cost_ns[box], self._view.pending[box]
        if self._set_up_ns[box] + held * each_ns <= within_ns:
            return self._limit
        fits = max(1, int((within_ns - self._set_up_ns[box]) / each_ns)) if each_ns else 1
        return fits if self._limit is None else min(fits, self._limit)
