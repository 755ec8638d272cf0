"""Superboxes chosen by heuristics, and run by their urgency (aurora-thesis 6.3).

A configuration of small parts: how to cut the network (``superboxes``), what a superbox's
urgency is (``superbox_priority``), in which order its boxes run (``traversals``). No box is ever
on two workers: superboxes that share one exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.model.errors import ConfigError
from daybreak.policies.aaat import ApplicationAtATime, SuperboxParams
from daybreak.policies.base import Plan, Step, View, Work
from daybreak.policies.parts.superboxes.superbox_priority import (
    OwnGraphs,
    Priority,
    box_priority,
    producers_first,
    top_boxes,
)
from daybreak.policies.parts.superboxes.superboxes import (
    Superbox,
    applications,
    around,
    before_several_inputs,
    composites,
    cut,
    dear_boxes,
    spanner,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenParams(SuperboxParams):
    """Parameters of superbox."""

    #: Application trees; those that overlap as one; cut at splits; paths of single-input boxes; or
    #: the tree that spans an application's most urgent boxes, made for every run.
    superboxes: Literal[
        "applications", "composites", "intersections", "single-input", "spanner"
    ] = "intersections"
    #: Which applications a composite joins: those that share so much of the smaller one's boxes.
    overlap: float = 0.5
    #: How many boxes a spanner spans.
    spans: int = 5
    #: A box of at least so many times the median cost is a superbox of its own; 0: none is.
    dear: float = 0.0
    #: Such a box takes so many tuples per call, and then yields to what it feeds.
    dear_train: int = 1
    #: Which superbox goes first: the next in turn, or by its most urgent box, its ``top`` most
    #: urgent boxes, or a QoS graph of its own.
    priority: Literal["turn", "best", "top", "qos"] = "turn"
    #: How many of its most urgent boxes count for a superbox.
    top: int = 3
    #: Whether a superbox that feeds a more urgent one goes before that one.
    producer_first: bool = False

    def __post_init__(self) -> None:
        # Not super(): dataclasses with slots are made anew, and it would not know this one.
        SuperboxParams.__post_init__(self)
        for name in ("spans", "dear_train", "top"):
            if getattr(self, name) < 1:
                raise ConfigError("policy", f"{name} {getattr(self, name)}", "give 1 or more")
        if not self.dear >= 0:
            raise ConfigError("policy", f"dear {self.dear}", "give a factor, or 0 for none")
        if not 0 < self.overlap <= 1:
            raise ConfigError("policy", f"overlap {self.overlap}", "give a share in (0, 1]")
        if self.dear and self.superboxes in ("applications", "composites", "spanner"):
            raise ConfigError(
                "policy",
                f"dear boxes with superboxes {self.superboxes!r}",
                'choose "intersections" or "single-input", which cut the network',
            )
        if self.superboxes in ("composites", "spanner") and self.traversal not in ("auto", "mc"):
            raise ConfigError(
                "policy",
                f"traversal {self.traversal!r} with superboxes {self.superboxes!r}",
                'they run in order "mc"',
            )


class ChosenSuperboxes(ApplicationAtATime):
    """The most urgent superbox, all of its boxes at once."""

    name = "superbox"
    summary = "superboxes cut at splits, at joins or around dear boxes, in turn or by urgency"
    starves_nothing = False  # by urgency, what can lose nothing more goes last
    Params: ClassVar[type[Any]] = ChosenParams
    params: ChosenParams

    def choose_superboxes(self, view: View) -> list[Superbox]:
        network, p = view.network, self.params
        self._dear = dear_boxes(network, p.dear) if p.dear else set()
        if p.superboxes in ("applications", "spanner"):
            return applications(network)
        if p.superboxes == "composites":
            return composites(network, p.overlap)
        roots = before_several_inputs(network) if p.superboxes == "single-input" else set()
        return cut(network, roots | around(network, self._dear))

    def step(self, box: int) -> Step:
        usual = super().step(box)
        return usual._replace(limit=self.params.dear_train) if box in self._dear else usual

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        if self.params.superboxes in ("composites", "spanner"):
            self._kinds = ("mc",)
        self._urgency: Callable[[View, Superbox, int], Priority]
        if self.params.priority == "qos":
            self._urgency = OwnGraphs(view, self.superboxes)
        else:
            self._urgency = top_boxes(1 if self.params.priority == "best" else self.params.top)
        self._feeds = [
            [u for d in view.network.downstream[s.root] for u in self.units.units_of[d]]
            for s in self.superboxes
        ]
        place = {b: i for i, b in enumerate(reversed(view.network.topological))}
        self._depth = [place[s.root] for s in self.superboxes]

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        if self.params.priority == "turn":
            chosen = super().order(ready, size, now_ns)
        else:
            chosen = self._by_urgency(ready, now_ns)[:size]
            self.reviewed(chosen, now_ns)
        if self._dear:
            chosen = [self._yielding(unit, ready) for unit in chosen]
        if self.params.superboxes == "spanner":
            for unit in chosen:
                self._span(unit, now_ns)
        return chosen

    def examined(self, ready: int) -> int:
        return super().examined(ready) if self.params.priority == "turn" else ready

    def _by_urgency(self, ready: set[int], now_ns: int) -> list[int]:
        by_box = self.params.priority != "qos"
        priorities: dict[int, Priority] = {}
        for unit in ready:
            superbox = self.superboxes[unit]
            priorities[unit] = self._urgency(self.view, superbox, now_ns)
            self.work.evaluated += self._holding(superbox) if by_box else 1
        self.work.sorted(len(ready))
        feeds = self._feeds if self.params.producer_first else [[]] * len(self._feeds)
        return producers_first(priorities, feeds, self._depth)

    def _yielding(self, unit: int, ready: set[int]) -> int:
        """What goes in the place of a dear box: whatever it feeds, while that holds tuples."""
        if self.superboxes[unit].root in self._dear:
            return next((fed for fed in self._feeds[unit] if fed in ready), unit)
        return unit

    def _holding(self, superbox: Superbox) -> int:
        pending = self.view.pending
        return sum([1 for b in superbox.boxes if pending[b]])

    def _span(self, unit: int, now_ns: int) -> None:
        """Makes the superbox of an application's most urgent boxes anew."""
        view = self.view
        holding = [b for b in self.superboxes[unit].boxes if view.pending[b]]
        self.work.evaluated += len(holding)
        self.work.sorted(len(holding))
        urgent = sorted(holding, key=lambda b: box_priority(view, b, now_ns), reverse=True)
        boxes = spanner(view.network, unit, urgent[: self.params.spans])
        self._plans[unit] = Plan(tuple(self.step(b) for b in boxes), superbox=True)
