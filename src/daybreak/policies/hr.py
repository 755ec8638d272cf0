"""HR: the operator with the highest output rate first (class-based-thesis 4.1).

HR minimises the mean response time of queries that matter equally; it knows no classes.
"""

from __future__ import annotations

from typing import Any, ClassVar

from daybreak.policies.base import BasePolicy, Change, Plan, View, Work
from daybreak.policies.parts.priorities.rate_order import RateOrder, RateParams
from daybreak.policies.parts.queues.ready import ReadyUnblocked


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
        self.units = ReadyUnblocked(view)
        self._order = RateOrder(view, self.params, by_priority=self.by_priority)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        self._order.rates.arrived(box, count)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.units.withdrawn(box)

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
