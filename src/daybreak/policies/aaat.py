"""Application-at-a-time: every query is one superbox, run in turn (aurora-thesis 3.3.1).

A scheduling step picks the next application; its boxes then run in the order of a traversal.
``auto``, the default, chooses between MC and ML as section 3.4.3 suggests: from what calls and
boxes were measured to cost, it works out what either would come to for the tuples now queued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.base import BasePolicy, Plan, View, Work
from daybreak.policies.parts.queues.execution_list import ListParams
from daybreak.policies.parts.queues.ready import ReadySuperboxes
from daybreak.policies.parts.superboxes.superboxes import Superbox, applications
from daybreak.policies.parts.superboxes.traversal_choice import Evidence
from daybreak.policies.parts.superboxes.traversals import foresee, min_cost, min_latency, min_memory
from daybreak.policies.round_robin import RoundRobin

Traversal = Literal["auto", "mc", "ml", "mm"]

TRAVERSALS: dict[str, Callable[[View, Superbox], tuple[int, ...]]] = {
    "mc": min_cost,
    "ml": min_latency,
    "mm": min_memory,
}

#: Traversals are worked out anew when a superbox has run half as often again, but once in so many
#: runs at least; in between, queues are looked at once in so many runs. What the scheduler spends
#: on either stays below a hundredth of what runs cost.
REVIEW, LOOK = 128, 8
#: Until so many runs, every one is looked at.
EARLY = 32
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
    on_query_added = BasePolicy.on_query_added  # hence no queries come either
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
        #: The run at which each is reviewed next.
        self._due = [0] * units
        self._orders: list[dict[str, tuple[int, ...]]] = [{}] * units
        #: The order of each plan.
        self._planned: list[tuple[int, ...]] = [()] * units
        self._evidence = [Evidence() for _ in range(units)]
        self._inputs = [superbox.entries() for superbox in self.superboxes]
        #: At the last look: time, and tuples that had entered.
        self._last = [(0, 0)] * units
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
                if runs >= self._due[unit]:
                    self._review(unit)
                    self._due[unit] += min(max(runs // 2, 1), REVIEW)
                if runs < EARLY or runs % LOOK == 0:
                    self._look(unit, now_ns)
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

    def _review(self, unit: int) -> None:
        """Works out the traversals anew; estimates may have moved since."""
        view, superbox = self.view, self.superboxes[unit]
        self.work.scanned += len(superbox.boxes)
        orders = {kind: TRAVERSALS[kind](view, superbox) for kind in self._kinds}
        self._orders[unit] = orders
        if len(orders) > 1 and self.call_ns is not None:
            # One more tuple at an input, another one each time: what that adds to a run.
            inputs = self._inputs[unit]
            held = {b: float(view.pending[b]) for b in superbox.boxes}
            more = dict(held)
            more[inputs[self._runs[unit] % len(inputs)]] += 1.0
            marginal_ns = self._evidence[unit].marginal_ns
            rates = self._rates(unit)
            for kind, order in orders.items():
                self.work.evaluated += 2
                run, longer = (
                    foresee(view, superbox, order, self.call_ns, queue, rates)
                    for queue in (held, more)
                )
                added = longer.length_ns - run.length_ns
                known = marginal_ns[kind] or added
                marginal_ns[kind] = known + (added - known) * NEWEST
        self._choose(unit)

    def _look(self, unit: int, now_ns: int) -> None:
        """Adds what the queues show now to the evidence, under either traversal."""
        if len(self._kinds) == 1:
            return
        self._measuring = True
        if self.call_ns is None:
            return
        view, superbox, inputs = self.view, self.superboxes[unit], self._inputs[unit]
        held = {b: float(view.pending[b]) for b in superbox.boxes}
        own = sum(held.values())
        waited_ns = sum([now_ns * view.pending[b] - view.arrival_sum_ns[b] for b in superbox.boxes])
        arrived = sum([view.tuples_in[b] for b in inputs])
        time_ns, entered = self._last[unit]
        self._last[unit] = (now_ns, arrived)
        evidence = self._evidence[unit]
        evidence.passed(now_ns - time_ns, arrived - entered)
        rates = self._rates(unit)
        seen = {}
        for kind, order in self._orders[unit].items():
            self.work.evaluated += 1
            seen[kind] = foresee(view, superbox, order, self.call_ns, held, rates)
        evidence.add(seen, own, float(waited_ns), sum(view.pending) - own)
        self._choose(unit)

    def _rates(self, unit: int) -> dict[int, float]:
        """Tuples per ns that arrive at each input of a superbox."""
        entered = {b: self.view.tuples_in[b] for b in self._inputs[unit]}
        each = self._evidence[unit].rate_per_ns / max(sum(entered.values()), 1)
        return {b: n * each for b, n in entered.items()}

    def _choose(self, unit: int) -> None:
        kind = self._evidence[unit].choice if len(self._kinds) > 1 else self._kinds[0]
        order = self._orders[unit][kind]
        if self._planned[unit] is not order:
            self._planned[unit] = order
            self._plans[unit] = Plan(tuple(self.step(b) for b in order), superbox=True)
