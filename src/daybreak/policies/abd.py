"""ABD, the Adaptive Broadcast Disk scheduler (class-based-thesis 5.2, Algorithm 3).

Level 1 walks the ruler over the classes. Level 2 is a round robin over the boxes of the class:
at most one pass per slot and at most a quota slice of time, which grows and shrinks with what is
needed. It estimates a box's work before it calls it, takes fewer tuples where the slice does not
suffice for all, and begins its next slot at the first box it had no time for. After every round
of the ruler, a class that answered slower in it than the next one below costs that one a slot.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from daybreak.model.errors import ConfigError
from daybreak.policies.base import BasePolicy, Change, Plan, Step, View, Work
from daybreak.policies.parts.classes.class_responses import ClassResponses
from daybreak.policies.parts.classes.class_turns import ClassBoxes, QuotaSlice
from daybreak.policies.parts.mbd.ruler import LARGEST, ruler, slots_of, whole
from daybreak.policies.parts.queues.growing_tables import put


def corrected(
    frequencies: Sequence[int],
    priorities: Sequence[float],
    response: Sequence[float],
    *,
    by_share: bool = False,
) -> list[int]:
    """Algorithm 3, lines 6-14: slots per class after a look at response times.

    Classes come highest first. Where class i is slower than i + 1, the latter loses a slot, or
    if it has but one, the former gains one. There is no guard on the order: a class may end
    with fewer slots than one below it. NaN (no results) accuses nobody.

    ``by_share`` (not in the text): it loses the share of its slots by which it is too fast.
    """
    found = list(frequencies)
    for i in range(len(found) - 1):
        if priorities[i] > priorities[i + 1] and response[i] > response[i + 1]:
            if found[i + 1] > 1:
                excess = 1 - response[i + 1] / response[i] if by_share else 0.0
                found[i + 1] = max(1, found[i + 1] - max(1, round(found[i + 1] * excess)))
            elif found[i] < LARGEST:
                found[i] += 1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class AbdParams:
    """Parameters of ABD."""

    #: The quota slice to begin with; it finds its length by itself (Table 6).
    slice_us: float = 50.0
    #: Correct the slots by response times.
    monitor: bool = True
    #: How many slots a correction takes: one, as in the text, or in proportion to the inversion.
    steps: Literal["slot", "share"] = "slot"
    #: Tuples a box takes at most per call; 0 means as many as its slice allows.
    train: int = 0

    def __post_init__(self) -> None:
        if self.train < 0:
            raise ConfigError("policy", f"train {self.train}", "give 0 or more")
        if not self.slice_us > 0:
            raise ConfigError("policy", f"slice_us {self.slice_us}", "give more than 0")


class _Slot:
    """A class at work on one worker."""

    __slots__ = ("began_ns", "cls", "left", "remaining_ns")

    def __init__(self, cls: int, began_ns: int, boxes: int) -> None:
        self.cls = cls
        self.began_ns = began_ns
        #: Boxes still to visit on this pass.
        self.left = boxes
        #: What the box it stopped at still needs; the slot ends with that box.
        self.remaining_ns = 0.0


class AdaptiveBroadcastDisk(BasePolicy):
    """The ruler over classes, round robin within a class, adaptive slices and slots."""

    name = "abd"
    summary = "classes by a ruler schedule with adaptive slices; round robin within a class"
    granularity = "class"
    starves_nothing = True
    watches_results = True
    Params: ClassVar[type[Any]] = AbdParams
    params: AbdParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.quota = QuotaSlice(self.params.slice_us * 1000)
        self._classes = ClassBoxes(view)
        self._responses = ClassResponses(len(view.class_priority))
        #: Where each class's round robin goes on.
        self._at = [0] * len(view.class_priority)
        self._set_up_ns = [b.call_ns for b in view.network.boxes]
        self._slots: dict[int, _Slot] = {}
        self._most = self.params.train or sys.maxsize
        self._changed = False
        self._start_anew()

    def _start_anew(self) -> None:
        """Slots as the priorities say."""
        order = self._classes.order
        self._frequencies = whole([self.view.class_priority[c] for c in order])
        self._build()

    def _build(self) -> None:
        order = self._classes.order
        self._schedule = [order[i] for i in slots_of(ruler(self._frequencies))]
        self._next = 0

    def on_change(self, change: Change, now_ns: int) -> None:
        # Boxes may have changed class at once; slots follow at the end of the round.
        self._classes.refresh()
        self._changed = True

    def on_query_added(self, query: int, now_ns: int) -> None:
        """Every round robin goes on at the box it had come to."""
        before = self._classes.boxes
        upcoming = [boxes[at % len(boxes)] if boxes else None
                    for at, boxes in zip(self._at, before, strict=True)]  # fmt: skip
        self._classes.refresh()
        for cls, (box, boxes) in enumerate(zip(upcoming, self._classes.boxes, strict=True)):
            if box in boxes:
                self._at[cls] = boxes.index(box)
        [newcomer] = self.view.network.query_boxes[query]
        put(self._set_up_ns, newcomer, self.view.network.boxes[newcomer].call_ns)
        cls = self._classes.cls[newcomer]
        boxes = self._classes.boxes[cls]
        ahead = (boxes.index(newcomer) - self._at[cls]) % len(boxes)
        for slot in self._slots.values():
            # A pass under way has one more box to visit, unless it is past its place.
            if slot.cls == cls and newcomer not in before[cls] and ahead < slot.left:
                slot.left += 1

    def on_results(
        self, query: int, arrivals_ns: Sequence[int], departures_ns: Sequence[int], tuples: int
    ) -> None:
        self._responses.add(self.view.query_class[query], arrivals_ns, departures_ns, tuples)

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        slot = self._slots.get(worker)
        if slot is not None and slot.remaining_ns:
            over_ns = now_ns - slot.began_ns - self.quota.slice_ns
            self.quota.fell_short(max(0.0, over_ns), slot.remaining_ns)
            del self._slots[worker]

    def decide(self, now_ns: int, worker: int) -> Plan | None:
        while True:
            slot = self._slots.get(worker) or self._next_slot(worker, now_ns)
            if slot is None:
                return None
            step = self._step(slot, now_ns)
            if step is not None:
                self.work.invocations += 1
                return Plan((step,))
            self._slots.pop(worker, None)

    def _next_slot(self, worker: int, now_ns: int) -> _Slot | None:
        """The next class of the schedule that is not at work and has something to do."""
        held = {slot.cls for slot in self._slots.values()}
        able = {c for c, boxes in enumerate(self._classes.boxes) if c not in held and boxes}
        if not self.view.polls:
            able = {c for c in able if any(map(self._runs, self._classes.boxes[c]))}
        while able:
            if self._next == len(self._schedule):
                self._round_ended(now_ns)
            cls = self._schedule[self._next]
            self._next += 1
            if cls in able:
                slot = self._slots[worker] = _Slot(cls, now_ns, len(self._classes.boxes[cls]))
                return slot
        return None

    def _runs(self, box: int) -> bool:
        return bool(self.view.pending[box]) and not self.view.running[box]

    def _step(self, slot: _Slot, now_ns: int) -> Step | None:
        """The next box of the class's round robin; None ends the slot."""
        view, boxes = self.view, self._classes.boxes[slot.cls]
        polls = view.polls
        while slot.left > 0 and boxes:
            at = self._at[slot.cls] % len(boxes)
            box = boxes[at]
            held = min(view.pending[box], self._most)
            self.work.scanned += 1
            if view.running[box] or not (held or polls):
                slot.left -= 1
                self._at[slot.cls] = at + 1
                continue
            left_ns = self.quota.slice_ns - (now_ns - slot.began_ns)
            each_ns = view.cost_ns[box]
            needed_ns = self._set_up_ns[box] + held * each_ns
            if needed_ns <= left_ns or not held:
                if left_ns <= 0:
                    return None
                slot.left -= 1
                self._at[slot.cls] = at + 1
                return Step(box, self.params.train or None)
            fits = math.floor((left_ns - self._set_up_ns[box]) / each_ns) if each_ns else 0
            if fits < 1:
                self.quota.fell_short(max(0.0, -left_ns), needed_ns - max(0.0, left_ns))
                return None
            slot.remaining_ns = (held - fits) * each_ns
            self._at[slot.cls] = at + 1
            return Step(box, limit=fits)
        return None

    def _round_ended(self, now_ns: int) -> None:
        self.quota.round_ended()
        self._next = 0
        # Each look is at one round alone: a mean of all that ever was would hardly move.
        response = self._responses.all_ns()
        self._responses.reset()
        if self._changed:
            self._changed = False
            self._start_anew()
            self.schedule_updates_ns.append(now_ns)
            return
        if not self.params.monitor:
            return
        order = self._classes.order
        frequencies = corrected(
            self._frequencies,
            [self.view.class_priority[c] for c in order],
            [response[c] for c in order],
            by_share=self.params.steps == "share",
        )
        if frequencies != self._frequencies:
            self._frequencies = frequencies
            self._build()
            self.schedule_updates_ns.append(now_ns)
