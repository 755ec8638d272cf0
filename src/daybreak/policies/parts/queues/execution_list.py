"""Base of policies that make a list of plans at each scheduling point.

Aurora's scheduler runs when the execution queue is empty, looks at the queues once, and puts up
to ``schedule_size`` plans into the execution queue (aurora-thesis 3.2.3 and 4.3). Between two
runs a decision only takes the next entry.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Plan, Step, View, Work
from daybreak.policies.parts.queues.ready import (
    ReadyBoxes,
    ReadyPaths,
    ReadyQueries,
    ReadySuperboxes,
)

Level = Literal["box", "query", "path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListParams:
    """Parameters shared by the policies that make lists."""

    #: What is chosen among: single boxes, or queries run from inputs to output.
    level: Level = "box"
    #: Plans made at one scheduling point; 0 means all that are ready, left out: as the policy
    #: is defined.
    schedule_size: int | None = None
    #: Tuples a box takes at most per call; 0 means its whole queue.
    train: int = 0
    #: Share of its queue that a box takes, in (0, 1].
    fraction: float = 1.0

    def __post_init__(self) -> None:
        for name in ("schedule_size", "train"):
            if (getattr(self, name) or 0) < 0:
                raise ConfigError("policy", f"{name} {getattr(self, name)}", "give 0 or more")
        if not 0 < self.fraction <= 1:
            raise ConfigError("policy", f"fraction {self.fraction}", "give a fraction in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathParams(ListParams):
    """Input boxes are what is chosen among: push-through (aurora-thesis 4.5)."""

    level: Literal["path"] = "path"


class ListPolicy(BasePolicy):
    """Orders what is ready; subclasses implement ``order``."""

    Params: ClassVar[type[Any]] = ListParams
    #: How long a list is unless the parameters say otherwise; 0 means all that are ready.
    list_size: ClassVar[int] = 0
    params: ListParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        by_box = self.params.level == "box"
        self.units = self.choose_units(view)
        # Not a method of ours between the executor and the set: this is told of every tuple.
        self.__dict__["on_arrival"] = self.units.arrived
        self._plans = [self._plan(boxes) for boxes in self.units.units]
        self._steps = [plan.steps[0] for plan in self._plans]
        size = self.params.schedule_size
        self._size = self.list_size if size is None else size
        self._queue: deque[int] = deque()
        # With one worker and no riders, nobody else takes from the list: hand it out whole.
        self._whole = by_box and view.workers == 1 and not view.rides

    def choose_units(self, view: View) -> ReadyBoxes | ReadySuperboxes:
        """What to choose among; called once."""
        if self.params.level == "path":
            return ReadyPaths(view)
        return ReadyBoxes(view) if self.params.level == "box" else ReadyQueries(view)

    def _plan(self, boxes: Sequence[int]) -> Plan:
        steps = [self.step(b) for b in boxes]
        if self.params.level == "path":
            # Only the input box takes a train: what it lets through goes all the way.
            steps[1:] = [Step(b) for b in boxes[1:]]
        return Plan(tuple(steps), superbox=self.params.level != "box")

    def step(self, box: int) -> Step:
        """One call of a box, with the train it takes."""
        return Step(box, self.params.train or None, self.params.fraction)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.units.released(plan)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.units.withdrawn(box)

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.units.added(query)
        for boxes in self.units.units[len(self._plans) :]:
            self._plans.append(self._plan(boxes))
            self._steps.append(self._plans[-1].steps[0])

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.units.removed(query)
        # Its place in the list is not for another query that takes its index.
        gone = {u for b in self.view.network.query_boxes[query] for u in self.units.units_of[b]}
        self._queue = deque(unit for unit in self._queue if unit not in gone)

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        ready = self.units.ready
        queue = self._queue
        while ready:
            while queue:
                unit = queue.popleft()
                # Listed earlier, but emptied or taken by another worker since.
                if unit in ready:
                    plan = self._plans[unit]
                    self.units.taken(plan)
                    return plan
            self.work.invocations += 1
            self.work.scanned += self.examined(len(ready))
            chosen = self.order(ready, self._size or len(ready), now_ns)
            if self._whole:
                plan = Plan(tuple([self._steps[unit] for unit in chosen]))
                self.units.taken(plan)
                return plan
            queue.extend(chosen)
        queue.clear()
        return None

    def examined(self, ready: int) -> int:
        """How many candidates are looked at to make a list when so many units are ready."""
        return ready

    @abstractmethod
    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        """The ``size`` units to run, best first. Must not depend on the set's order."""
