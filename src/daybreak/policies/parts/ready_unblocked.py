"""Ready boxes, less those that hold tuples they cannot take yet.

In a system that polls, a join waits until its other input has caught up: it holds tuples, is
called, and takes none. Whoever calls the best ready box would call it for ever, so such a box
is left alone until something new arrives at it, or until nothing else is ready.
"""

from __future__ import annotations

from daybreak.policies.base import Plan, View
from daybreak.policies.parts.ready import ReadyBoxes


class ReadyUnblocked(ReadyBoxes):
    """As ``ReadyBoxes``; a box that took nothing when it was called is not ready."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._taken_in = view.tuples_in
        self._before: dict[int, int] = {}
        self._stuck: set[int] = set()

    def arrived(self, box: int, count: int, now_ns: int) -> None:
        super().arrived(box, count, now_ns)
        self._stuck.discard(box)

    def taken(self, plan: Plan) -> None:
        super().taken(plan)
        for box, _, _ in plan.steps:
            self._before[box] = self._taken_in[box]

    def released(self, plan: Plan) -> None:
        super().released(plan)
        for box, _, _ in plan.steps:
            if box in self.ready and self._taken_in[box] == self._before.get(box):
                self.ready.discard(box)
                self._stuck.add(box)

    def withdrawn(self, box: int) -> None:
        super().withdrawn(box)
        self._stuck.discard(box)

    def removed(self, query: int) -> None:
        super().removed(query)
        self._stuck.difference_update(self._view.network.query_boxes[query])

    def retry(self) -> None:
        """If nothing is ready, what is stuck may try again."""
        if not self.ready and self._stuck:
            self.ready |= self._stuck
            self._stuck.clear()
