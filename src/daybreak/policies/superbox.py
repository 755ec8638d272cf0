"""Application-at-a-time: every query is one superbox, run in turn (aurora-thesis 3.3.1).

A scheduling step picks the next application; its boxes then run in the order of a traversal.
``auto``, the default, chooses between MC and ML as section 3.4.3 suggests: from what calls and
boxes were measured to cost, it works out what either would come to for the tuples now queued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.policies.base import Plan, Step, View, Work
from daybreak.policies.listed import ListParams
from daybreak.policies.round_robin import RoundRobin
from daybreak.policies.traversals import foresee, min_cost, min_latency, min_memory

Traversal = Literal["auto", "mc", "ml", "mm"]

TRAVERSALS: dict[str, Callable[[View, int], tuple[int, ...]]] = {
    "mc": min_cost,
    "ml": min_latency,
    "mm": min_memory,
}

#: A superbox's traversal is reconsidered once in so many runs: what the scheduler spends on it
#: then stays below a hundredth of what the runs themselves cost.
REVIEW = 8
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

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        units = len(self.units.units)
        kind = self.params.traversal
        self._kinds = ("mc", "ml") if kind == "auto" else (kind,)
        self._runs = [0] * units
        self._began_ns = [0] * units
        #: Measured time of a box call besides the box's work; 0 until the first superbox ends.
        self.call_ns = 0.0
        self._measuring = False
        #: Per worker under measurement: its plan's calls and work before the run.
        self._before: dict[int, tuple[int, int]] = {}

    def examined(self, ready: int) -> int:
        return min(ready, self._size or ready)

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        chosen = super().order(ready, size, now_ns)
        if self._kinds != ("mc",):  # which is what the plans are to begin with
            for unit in chosen:
                if self._runs[unit] % REVIEW == 0:
                    self._review(unit, now_ns)
                self._runs[unit] += 1
                self._began_ns[unit] = now_ns
        return chosen

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
                share = NEWEST if self.call_ns else 1.0
                self.call_ns += (measured - self.call_ns) * share

    def _so_far(self, plan: Plan) -> tuple[int, int]:
        """Calls and work of the plan's boxes until now; no other worker touches them meanwhile."""
        boxes = {step[0] for step in plan.steps}
        calls, work = self.view.calls, self.view.work_ns
        return sum([calls[b] for b in boxes]), sum([work[b] for b in boxes])

    def _review(self, unit: int, now_ns: int) -> None:
        """Works out the traversal anew; estimates may have moved since."""
        boxes = len(self.units.units[unit])
        self.work.scanned += boxes
        if self._kinds != ("mc", "ml"):
            best = TRAVERSALS[self._kinds[0]](self.view, unit)
        else:
            self._measuring = True
            self.work.evaluated += 2
            best = min(
                (TRAVERSALS[kind](self.view, unit) for kind in self._kinds),
                key=lambda order: self._burden_ns(order, unit, now_ns),
            )
        limit, fraction = self.params.train or None, self.params.fraction
        self._plans[unit] = Plan(tuple(Step(b, limit, fraction) for b in best), superbox=True)

    def _burden_ns(self, order: tuple[int, ...], unit: int, now_ns: int) -> float:
        """Mean latency of the run's outputs plus, per output, the wait it puts on other tuples.

        A run of length T holds up what is queued elsewhere for T, and what arrives for the same
        superbox meanwhile for T/2 on average; of the latter there are about as many per T as
        were gathered since the last run began.
        """
        view = self.view
        latency, length, outputs = foresee(view, unit, order, self.call_ns)
        if not outputs:
            return length
        own = sum([view.pending[b] for b in self.units.units[unit]])
        elsewhere = sum(view.pending) - own
        since = max(now_ns - self._began_ns[unit], length)
        return latency + length * (elsewhere / own if own else 0.0) + length * length / (2 * since)
