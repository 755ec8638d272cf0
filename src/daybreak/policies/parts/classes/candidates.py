"""What a baseline chooses among: whole queries, or single boxes, whether or not they hold tuples.

Where boxes are polled (``View.polls``), anything that is free may be called; elsewhere only what
holds tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from daybreak.policies.base import BasePolicy, Granularity, Plan, Step, View, Work


class Candidates:
    """Numbered candidates, their plans, and whether one can run now."""

    def __init__(self, view: View, plans: Sequence[Plan]) -> None:
        self.plans = list(plans)
        self._boxes = [tuple(step.box for step in plan.steps) for plan in plans]
        self._pending, self._running, self._polls = view.pending, view.running, view.polls
        shares = any(len(queries) > 1 for queries in view.network.box_queries)
        #: Without shared boxes, all of a query are free if its first one is.
        self._probe = self._boxes if shares else [boxes[:1] for boxes in self._boxes]

    @classmethod
    def queries(
        cls, view: View, step: Callable[[int, int], Step] = lambda _query, box: Step(box)
    ) -> Candidates:
        """Every query, run from input to output as one piece; ``step(query, box)`` sets trains."""
        plans = [
            Plan(tuple(step(q, b) for b in boxes), superbox=True)
            for q, boxes in enumerate(view.network.query_boxes)
        ]
        return cls(view, plans)

    @classmethod
    def boxes(cls, view: View) -> Candidates:
        """Every box by itself, query by query in the direction of flow."""
        order = dict.fromkeys(b for boxes in view.network.query_boxes for b in boxes)
        return cls(view, [Plan((Step(b),)) for b in order])

    def __len__(self) -> int:
        return len(self.plans)

    def can_run(self, unit: int) -> bool:
        running, pending = self._running, self._pending
        for b in self._probe[unit]:
            if running[b]:
                return False
        return self._polls or any(pending[b] for b in self._boxes[unit])


class Turns:
    """Round robin over some candidates, remembering whose turn is next."""

    def __init__(self, candidates: Candidates, members: Sequence[int]) -> None:
        self._candidates = candidates
        self.members = list(members)
        self._next = 0

    def next(self) -> int | None:
        """The next one in turn that can run now."""
        members, candidates = self.members, self._candidates
        for _ in range(len(members)):
            unit = members[self._next % len(members)]
            self._next = (self._next + 1) % len(members)
            if candidates.can_run(unit):
                return unit
        return None


class ChoosesQueries(BasePolicy):
    """Base of the baselines that choose among whole queries, or what ``make_candidates`` gives."""

    granularity: ClassVar[Granularity] = "query"
    starves_nothing = True
    on_spark = False  # baselines of the simulated system

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.candidates = self.make_candidates()

    def make_candidates(self) -> Candidates:
        return Candidates.queries(self.view)
