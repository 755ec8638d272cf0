"""Stride scheduling: classes share the workers' time in proportion to their priorities.

Waldspurger and Weihl's deterministic proportional share (named in aurora-thesis 6.3): a class
that ran for a time t moves its *pass* on by t / priority, and the class with the smallest pass
goes next. A class that was idle comes back at the current pass, so it cannot save up; one whose
priority changes keeps its place in proportion. Within a class, the query whose oldest tuple waits
longest goes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.ready import ReadyQueries


@dataclass(frozen=True, slots=True, kw_only=True)
class StrideParams:
    """Parameters of stride."""

    #: Tuples a box takes at most per call; 0 means its whole queue.
    train: int = 0

    def __post_init__(self) -> None:
        if self.train < 0:
            raise ConfigError("policy", f"train {self.train}", "give 0 or more")


class Stride(BasePolicy):
    """Proportional share among classes by measured time."""

    name = "stride"
    summary = "classes share time in proportion to their priorities"
    granularity = "class"
    starves_nothing = True
    Params: ClassVar[type[Any]] = StrideParams
    params: StrideParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.units = ReadyQueries(view)
        limit = self.params.train or None
        self._plans = [
            Plan(tuple(Step(b, limit) for b in boxes), superbox=True) for boxes in self.units.units
        ]
        self._pass = [0.0] * len(view.class_priority)
        self._now = 0.0
        self._priority = list(view.class_priority)
        #: Class and expected cost of the plan under way on each worker.
        self._out: dict[int, tuple[int, float]] = {}

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)
        cls, expected_ns = self._out.pop(worker)
        self._pass[cls] += (cost_ns - expected_ns) / self.view.class_priority[cls]

    def on_boarding(self, box: int, now_ns: int) -> None:
        self.units.boarded(box)

    def on_ride(self, box: int, cost_ns: int, now_ns: int) -> None:
        super().on_ride(box, cost_ns, now_ns)
        cls = self.view.query_class[self.view.network.box_queries[box][0]]
        self._pass[cls] += cost_ns / self.view.class_priority[cls]

    def on_change(self, change: Change, now_ns: int) -> None:
        """What a class has still to wait for shrinks as its priority grows, at once."""
        if change.what == "class-priority":
            cls, priority = change.subject, self.view.class_priority[change.subject]
            ahead = self._pass[cls] - self._now
            self._pass[cls] = self._now + ahead * self._priority[cls] / priority
            self._priority[cls] = priority

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        ready = self.units.ready
        if not ready:
            return None
        view, passes = self.view, self._pass
        self.work.invocations += 1
        self.work.scanned += len(ready)
        self.work.compared += len(ready)
        classes = {view.query_class[q] for q in ready}
        busy = {cls for cls, _ in self._out.values()}
        for cls in classes - busy:
            passes[cls] = max(passes[cls], self._now)
        cls = min(classes, key=lambda c: (passes[c], c))
        self._now = passes[cls]
        query = min((q for q in ready if view.query_class[q] == cls), key=self._oldest)
        plan = self._plans[query]
        # Charged at once with what is expected, so that several workers share fairly too.
        expected_ns = sum(view.cost_ns[b] * view.pending[b] for b in self.units.units[query])
        passes[cls] += expected_ns / view.class_priority[cls]
        self._out[worker] = (cls, expected_ns)
        self.units.taken(plan)
        return plan

    def _oldest(self, query: int) -> tuple[int, int]:
        view = self.view
        boxes = self.units.units[query]
        return min(view.head_ns[b] for b in boxes if view.pending[b]), query
