"""HR and weighted HR: the operator with the highest output rate first (class-based-thesis 4.1).

HR minimises the mean response time of queries that matter equally; it knows no classes. WeHR
(5.3) multiplies each operator's rate by the priority of its class.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.rates import OutputRates
from daybreak.policies.stuck import ReadyOrStuck


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
    """Level 2 of CQC and all of HR: what to run of some ready boxes."""

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


class HighestRate(BasePolicy):
    """HR: one operator at a time, all of its queue."""

    name = "hr"
    summary = "the box with the highest output rate downstream first"
    on_spark = False  # a baseline of the simulated system
    Params: ClassVar[type[Any]] = RateParams
    params: RateParams
    by_priority: ClassVar[bool] = False

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.units = ReadyOrStuck(view)
        self._order = RateOrder(view, self.params, by_priority=self.by_priority)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        self._order.rates.arrived(box, count)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)

    def on_boarding(self, box: int, now_ns: int) -> None:
        self.units.boarded(box)

    def on_change(self, change: Change, now_ns: int) -> None:
        self._order.rates.refresh()

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.units.added(query)
        self._order.added(query)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.units.removed(query)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        self.units.retry()
        plan = self._order.plan(self.units.ready)
        if plan is not None:
            self.work.invocations += 1
            self.work.compared += len(self.units.ready).bit_length()  # a priority queue
            self.units.taken(plan)
        return plan


class WeightedHighestRate(HighestRate):
    """WeHR: output rate times class priority."""

    name = "weighted-hr"
    summary = "the box with the highest output rate times class priority first"
    by_priority = True
