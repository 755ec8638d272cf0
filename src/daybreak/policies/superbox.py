"""Application-at-a-time: every query is one superbox, run in turn (aurora-thesis 3.3.1).

A scheduling step picks the next application; its boxes then run in the order of a traversal.
``auto``, the default, chooses between MC and ML as section 3.4.3 suggests: from what calls and
boxes were measured to cost, it works out what either would come to for the tuples now queued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.base import Plan, View, Work
from daybreak.policies.listed import ListParams
from daybreak.policies.ready import ReadySuperboxes
from daybreak.policies.round_robin import RoundRobin
from daybreak.policies.superboxes import Superbox, applications
from daybreak.policies.traversal_choice import Evidence
from daybreak.policies.traversals import foresee, min_cost, min_latency, min_memory

Traversal = Literal["auto", "mc", "ml", "mm"]

TRAVERSALS: dict[str, Callable[[View, Superbox], tuple[int, ...]]] = {
    "mc": min_cost,
    "ml": min_latency,
    "mm": min_memory,
}

#: A superbox's traversal is reconsidered after 1, 2, 4, ... runs and then once in so many: what
#: the scheduler spends on it stays at a few hundredths of what the runs themselves cost.
REVIEW = 32
#: Weight of the newest measurement of what a call costs.
NEWEST = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class SuperboxParams(ListParams):
    """Queries are what is chosen among."""

    level: Literal["query"] = "query"
    #: Order of the boxes within a superbox; auto chooses between mc and ml.
    traversal: Traversal = "auto"


class ApplicationAtATime(RoundRobin):
    """AAAT: the next application in turn, all of its boxes at once."""

    name = "aaat"
    summary = "application-at-a-time: a query's boxes run as one superbox (auto, mc, ml or mm)"
    granularity = "query"
    on_spark = False  # a query is one box there: nothing to traverse
    Params: ClassVar[type[Any]] = SuperboxParams
    list_size = 1
    params: SuperboxParams

    def choose_units(self, view: View) -> ReadySuperboxes:
        self.superboxes = self.choose_superboxes(view)
        return ReadySuperboxes(view, self.superboxes)

    def choose_superboxes(self, view: View) -> list[Superbox]:
        return applications(view.network)

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        units = len(self.units.units)
        kind = self.params.traversal
        self._kinds = ("mc", "ml") if kind == "auto" else (kind,)
        self._runs = [0] * units
        self._evidence = [Evidence() for _ in range(units)]
        self._inputs = [superbox.entries() for superbox in self.superboxes]
        #: At the last review: time, runs, and tuples that had entered.
        self._last = [(0, 0, 0)] * units
        #: Measured time of a box call besides the box's work; None until a superbox ended.
        self.call_ns: float | None = None
        self._measuring = False
        #: Per worker under measurement: its plan's calls and work before the run.
        self._before: dict[int, tuple[int, int]] = {}

    def examined(self, ready: int) -> int:
        return min(ready, self._size or ready)

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        chosen = super().order(ready, size, now_ns)
        self.reviewed(chosen, now_ns)
        return chosen

    def reviewed(self, chosen: list[int], now_ns: int) -> None:
        """Reconsiders the traversals of those that are to run, where it is time to."""
        if self._kinds != ("mc",):  # which is what the plans are to begin with
            for unit in chosen:
                runs = self._runs[unit]
                if runs % REVIEW == 0 or (runs < REVIEW and not runs & (runs - 1)):
                    self._review(unit, now_ns)
                self._runs[unit] += 1

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        plan = super().decide(now_ns, worker)
        if plan is not None and self._measuring:
            self._measuring = False
            self._before[worker] = self._so_far(plan)
        return plan

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        super().on_completion(plan, worker, cost_ns, now_ns)
        if worker in self._before:
            calls, work = self._before.pop(worker)
            calls_now, work_now = self._so_far(plan)
            if calls_now > calls:
                measured = (cost_ns - (work_now - work)) / (calls_now - calls)
                known = measured if self.call_ns is None else self.call_ns
                self.call_ns = known + (measured - known) * NEWEST

    def _so_far(self, plan: Plan) -> tuple[int, int]:
        """Calls and work of the plan's boxes until now; no other worker touches them meanwhile."""
        boxes = {step[0] for step in plan.steps}
        calls, work = self.view.calls, self.view.work_ns
        return sum([calls[b] for b in boxes]), sum([work[b] for b in boxes])

    def _review(self, unit: int, now_ns: int) -> None:
        """Works out the traversal anew; estimates may have moved since."""
        self.work.scanned += len(self.units.units[unit])
        orders = {kind: TRAVERSALS[kind](self.view, self.superboxes[unit]) for kind in self._kinds}
        if len(orders) > 1:
            self._measuring = True
            if self.call_ns is not None:
                self._watch(unit, orders, self.call_ns, now_ns)
        kind = self._evidence[unit].choice if len(orders) > 1 else self._kinds[0]
        self._plans[unit] = Plan(tuple(self.step(b) for b in orders[kind]), superbox=True)

    def _watch(
        self, unit: int, orders: dict[str, tuple[int, ...]], call_ns: float, now_ns: int
    ) -> None:
        """Adds what the queues show now to the evidence, under either traversal."""
        view, superbox = self.view, self.superboxes[unit]
        held = {b: float(view.pending[b]) for b in superbox.boxes}
        own = sum(held.values())
        # One more tuple at an input, another one each time: what that adds is the marginal load.
        inputs = self._inputs[unit]
        more = dict(held)
        more[inputs[self._runs[unit] % len(inputs)]] += 1.0
        arrived = sum([view.tuples_in[b] for b in inputs])
        time_ns, runs, entered = self._last[unit]
        self._last[unit] = (now_ns, self._runs[unit], arrived)
        evidence = self._evidence[unit]
        evidence.passed(now_ns - time_ns, self._runs[unit] - runs, arrived - entered)
        seen = {}
        for kind, order in orders.items():
            self.work.evaluated += 2
            run = foresee(view, superbox, order, call_ns, held)
            longer = foresee(view, superbox, order, call_ns, more)
            seen[kind] = (run, longer.length_ns - run.length_ns)
        elsewhere = sum(view.pending) - own
        evidence.add(seen, own, elsewhere)
