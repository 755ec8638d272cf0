"""CQC, Continuous Query Class scheduling for one core (class-based-thesis 4.1).

Level 1 is a weighted round robin: class i may run for T_i = P_i k / sum P at its turn, and what
it overdraws is deducted from its next turns. Level 2 is one HR scheduler per class, whose boxes
take as many tuples as the rest of the quota is expected to suffice for. A class that finds
nothing to do gives its turn back after polling its sources twice.

A class runs on one worker at a time: with more workers than classes some stay idle (chapter 7).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, View, Work
from daybreak.policies.parts.classes.class_turns import ClassBoxes, Credits, quotas
from daybreak.policies.parts.priorities.rate_order import RateOrder, RateParams
from daybreak.policies.parts.queues.ready import ReadyUnblocked

#: A turn without work still polls the class's sources twice.
POLLS = 2
#: Rounds in which no class that waits may begin are gone through one by one up to here: a job that
#: took an hour of a class's millisecond would cost millions. At 100 rounds a decision takes 0.1 ms.
FEW_ROUNDS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CqcParams(RateParams):
    """Parameters of CQC."""

    #: The period k that the classes share; 0: 1 ms, or 1 s on Spark, where a job takes tens of
    #: milliseconds however few tuples it has.
    period_us: float = 0.0
    #: Boxes take their whole queue, however long that takes, and not just what the rest of the
    #: quota is expected to suffice for.
    whole_queues: bool = False

    def __post_init__(self) -> None:
        RateParams.__post_init__(self)
        if not self.period_us >= 0:
            raise ConfigError("policy", f"period_us {self.period_us}", "give 0 or more")


class ContinuousQueryClass(BasePolicy):
    """Weighted round robin over classes, HR within a class."""

    name = "cqc"
    summary = "classes take turns with quotas by priority; highest output rate within a class"
    granularity = "class"
    Params: ClassVar[type[Any]] = CqcParams
    params: CqcParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._ready = ReadyUnblocked(view)
        self._order = RateOrder(view, self.params)
        self._boxes = ClassBoxes(view)
        self._credits = Credits(self._quotas())
        self._next = 0
        #: Class whose turn it is on each worker, and since when.
        self._turns: dict[int, tuple[int, int]] = {}

    def _quotas(self) -> list[float]:
        period_us = self.params.period_us or (1e6 if self.view.rides else 1e3)
        return quotas(self.view.class_priority, period_us * 1000)

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self._ready.arrived(box, count, now_ns)
        self._order.rates.arrived(box, count)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self._ready.released(plan)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self._ready.withdrawn(box)

    def on_change(self, change: Change, now_ns: int) -> None:
        self._boxes.refresh()
        self._credits.quota = self._quotas()

    def on_query_added(self, query: int, now_ns: int) -> None:
        self._ready.added(query)
        self._order.added(query)
        self._boxes.refresh()

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self._ready.removed(query)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        self._ready.retry()
        while True:
            turn = self._turns.get(worker) or self._next_turn(worker, now_ns)
            if turn is None:
                return None
            cls, began_ns = turn
            plan = None
            left_ns = self._credits.credit[cls] - (now_ns - began_ns)
            if left_ns > 0:
                within_ns = math.inf if self.params.whole_queues else left_ns
                plan = self._order.plan(self._ready_in(cls), within_ns)
            if plan is not None:
                self.work.invocations += 1
                self._ready.taken(plan)
                return plan
            del self._turns[worker]
            self._credits.ended(cls, now_ns - began_ns)

    def _ready_in(self, cls: int) -> list[int]:
        of = self._boxes.cls
        return [b for b in self._ready.ready if of[b] == cls]

    def _next_turn(self, worker: int, now_ns: int) -> tuple[int, int] | None:
        """Goes round the classes to the next that may run and has something to run."""
        order, of = self._boxes.order, self._boxes.cls
        held = {cls for cls, _ in self._turns.values()}
        waiting = {of[b] for b in self._ready.ready} - held
        # Again where rounding leaves some of a debt.
        while (rounds := min(map(self._credits.debt, waiting), default=0) - 1) > FEW_ROUNDS:
            for cls in set(order) - held:
                self.work.invocations += POLLS * self._credits.idle(cls, rounds)
        while waiting:
            cls = order[self._next % len(order)]
            self._next = (self._next + 1) % len(order)
            if cls in held or not self._credits.begins(cls):
                continue
            if cls in waiting:
                self._turns[worker] = (cls, now_ns)
                return cls, now_ns
            self.work.invocations += POLLS
            self._credits.ended(cls, 0)
        return None
