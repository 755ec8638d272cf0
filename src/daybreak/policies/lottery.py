"""Lottery scheduling: who runs next is drawn, with tickets in proportion to priorities.

Waldspurger and Weihl's randomised proportional share, named in aurora-thesis 6.3.4 beside stride
scheduling. Tickets are held by classes, queries or boxes; a box that serves several queries
holds the tickets of all of them.

Runs here are as long as the queues are, not one quantum. With ``compensate``, a holder whose
last run took a time t has its tickets divided by t until its next one (their compensation
tickets): it then wins every so often that *time* is shared in proportion, as ``stride`` does by
counting. Without, the number of runs is.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Literal

from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.parts.classes.tickets import Tickets, shared
from daybreak.policies.parts.queues.growing_tables import put
from daybreak.policies.parts.queues.ready import ReadyBoxes, ReadyQueries
from daybreak.policies.parts.queues.trains import TrainParams, oldest_ns

#: What a run is taken to have used before the first one ended.
QUANTUM_NS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LotteryParams(TrainParams):
    """Parameters of lottery."""

    #: Who holds tickets. A class that wins runs the query whose oldest tuple waits longest.
    level: Literal["class", "query", "box"] = "class"
    #: Share time in proportion to the tickets; else the number of runs.
    compensate: bool = True


class Lottery(BasePolicy):
    """Draws among all that are ready; subclasses may hand out tickets differently."""

    name = "lottery"
    summary = "the next to run is drawn by lot, with tickets in proportion to class priorities"
    granularity = "class"
    starves_nothing = True
    Params: ClassVar[type[Any]] = LotteryParams
    params: LotteryParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        by_box, self._by_class = self.params.level == "box", self.params.level == "class"
        self.units: ReadyBoxes | ReadyQueries = ReadyBoxes(view) if by_box else ReadyQueries(view)
        self._plans = [self._plan(unit) for unit in range(len(self.units.units))]
        holders = len(view.class_priority) if self._by_class else len(self._plans)
        self._tickets = Tickets(holders)
        self._used_ns = [QUANTUM_NS] * holders
        #: The holder that won each worker's run.
        self._out: dict[int, int] = {}
        self._random = Random(f"{seed}/lottery")
        self._enter(self.units.ready)

    def _plan(self, unit: int) -> Plan:
        limit, by_box = self.params.train or None, self.params.level == "box"
        return Plan(tuple(Step(b, limit) for b in self.units.units[unit]), superbox=not by_box)

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.units.added(query)
        for box in self.view.network.query_boxes[query]:
            for unit in self.units.units_of[box]:
                put(self._plans, unit, self._plan(unit))
                if not self._by_class:
                    self._tickets.added(unit)
                    put(self._used_ns, unit, QUANTUM_NS)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.units.removed(query)
        if not self._by_class:
            for box in self.view.network.query_boxes[query]:
                for unit in self.units.units_of[box]:
                    self._tickets.give(unit, 0.0)

    def tickets(self, holder: int) -> float:
        """How many tickets a class, query or box holds while it has something to run."""
        view = self.view
        if self.params.level == "class":
            return view.class_priority[holder]
        if self.params.level == "query":
            return view.class_priority[view.query_class[holder]]
        queries = view.network.box_queries[holder]
        return shared(view.class_priority, [view.query_class[q] for q in queries])

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        for unit in self.units.units_of[box]:
            if not self._tickets[self._holder(unit)] and unit in self.units.ready:
                self._give(self._holder(unit))

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)
        # A plan overtaken by a ride comes back without having used anything.
        holder = self._out.pop(worker)
        self._used_ns[holder] = cost_ns or self._used_ns[holder]
        ready = self.units.ready
        boxes = {step.box for step in plan.steps}
        self._enter({u for b in boxes for u in self.units.units_of[b] if u in ready})

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.units.withdrawn(box)

    def on_change(self, change: Change, now_ns: int) -> None:
        self._enter(self.units.ready)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        ready, tickets = self.units.ready, self._tickets
        if not ready:
            return None
        self.work.invocations += 1
        while (holder := tickets.draw(self._random)) is not None:
            self.work.compared += len(self._used_ns).bit_length()
            unit = self._of(holder, ready)
            if unit is not None:
                self._out[worker] = holder
                self.units.taken(self._plans[unit])
                return self._plans[unit]
            # It held tickets from before it was emptied, or taken by another worker.
            tickets.give(holder, 0.0)
        return None

    def _holder(self, unit: int) -> int:
        return self.view.query_class[unit] if self._by_class else unit

    def _of(self, holder: int, ready: set[int]) -> int | None:
        """What the holder runs now; None if it has nothing to run."""
        if not self._by_class:
            return holder if holder in ready else None
        self.work.scanned += len(ready)
        mine = [q for q in ready if self.view.query_class[q] == holder]
        boxes = self.units.units
        return min(mine, key=lambda q: (oldest_ns(self.view, boxes[q]), q)) if mine else None

    def _enter(self, units: set[int]) -> None:
        for holder in {self._holder(unit) for unit in units}:
            self._give(holder)

    def _give(self, holder: int) -> None:
        value = self.tickets(holder)
        if self.params.compensate:
            value *= QUANTUM_NS / self._used_ns[holder]
        self._tickets.give(holder, value)
