"""Stride scheduling: classes share the workers' time in proportion to their priorities.

Waldspurger and Weihl's deterministic proportional share (named in aurora-thesis 6.3): a class
that ran for a time t moves its *pass* on by t / priority, and the class with the smallest pass
goes next. A class that was idle comes back at the current pass, so it cannot save up; one whose
priority changes keeps its place in proportion. Within a class, the query whose oldest tuple waits
longest goes first.

A job costs much to start, and a class that runs for every few tuples spends its share on that.
With *patience* a query lets others go first until its oldest tuple has waited for that share of
the time in which a late answer is still worth as much; nobody waits for nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.parts.queues.growing_tables import put
from daybreak.policies.parts.queues.ready import ReadyQueries
from daybreak.policies.parts.queues.trains import TrainParams, oldest_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class StrideParams(TrainParams):
    """How long trains are, and how long they may gather."""

    #: The share of the time until its utility begins to fall that a query lets others go first.
    patience: float = 0.0

    def __post_init__(self) -> None:
        TrainParams.__post_init__(self)
        if not 0 <= self.patience <= 1:
            raise ConfigError("policy", f"patience {self.patience}", "give a share, 0 to 1")


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
        queries = range(len(view.network.queries))
        self._plans = [self._plan(q) for q in queries]
        self._pass = [0.0] * len(view.class_priority)
        self._now = 0.0
        self._priority = list(view.class_priority)
        #: How long the oldest tuple of each query may wait while others have work.
        self._patience_ns = [self._patience(q) for q in queries]
        #: Class and expected cost of the plan under way on each worker.
        self._out: dict[int, tuple[int, float]] = {}

    def _plan(self, query: int) -> Plan:
        limit = self.params.train or None
        return Plan(tuple(Step(b, limit) for b in self.units.units[query]), superbox=True)

    def _patience(self, query: int) -> float:
        qos = self.view.network.queries[query].qos
        return self.params.patience * (qos.deadline_ns or 0) if qos else 0.0

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.units.added(query)
        put(self._plans, query, self._plan(query))
        put(self._patience_ns, query, self._patience(query))

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.units.removed(query)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)
        cls, expected_ns = self._out.pop(worker)
        self._pass[cls] += (cost_ns - expected_ns) / self.view.class_priority[cls]

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.units.withdrawn(box)

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        super().on_returned(box, cost_ns, now_ns)
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
        ready = self._due(now_ns)
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
        boxes = self.units.units
        mine = [q for q in ready if view.query_class[q] == cls]
        query = min(mine, key=lambda q: (oldest_ns(view, boxes[q]), q))
        plan = self._plans[query]
        # Charged at once with what is expected, so that several workers share fairly too.
        expected_ns = sum(view.cost_ns[b] * view.pending[b] for b in boxes[query])
        passes[cls] += expected_ns / view.class_priority[cls]
        self._out[worker] = (cls, expected_ns)
        self.units.taken(plan)
        return plan

    def _due(self, now_ns: int) -> set[int]:
        """Queries that hold tuples: those whose patience is at an end, if there are such."""
        ready = self.units.ready
        if not self.params.patience:
            return ready
        view, boxes, patience_ns = self.view, self.units.units, self._patience_ns
        due = {q for q in ready if now_ns - oldest_ns(view, boxes[q]) >= patience_ns[q]}
        return due or ready
