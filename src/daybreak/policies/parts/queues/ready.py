"""Which units can run now, kept current in O(1) per event.

A *unit* is what a policy chooses among: one box, or the boxes of a superbox. It is ready while
at least one of its boxes holds tuples and none of them is held by a worker. All classes offer the
set ``ready`` (its order means nothing) and follow four events: tuples ``arrived`` at a box, a
plan was ``taken`` by a worker, a box was ``withdrawn`` (it runs in another's job, or is held), a
plan was ``released``. Two more are rare: a query of one box was ``added`` to the view, as one more
unit or in the place of one that was ``removed``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from daybreak.model.network import Network
from daybreak.policies.base import Plan, View
from daybreak.policies.parts.superboxes.superboxes import Superbox, applications


class ReadyBoxes:
    """Every box is a unit of its own: the simulator's hot path."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._pending, self._running = view.pending, view.running
        self.units = self.units_of = [(b,) for b in range(len(view.network.boxes))]
        self.ready = {b for b, n in enumerate(view.pending) if n and not view.running[b]}

    def arrived(self, box: int, count: int, now_ns: int) -> None:
        if not self._running[box]:
            self.ready.add(box)

    def taken(self, plan: Plan) -> None:
        self.ready.difference_update([step[0] for step in plan.steps])

    def withdrawn(self, box: int) -> None:
        self.ready.discard(box)

    def released(self, plan: Plan) -> None:
        pending, running, ready = self._pending, self._running, self.ready
        for box, _, _ in plan.steps:
            if pending[box] and not running[box]:
                ready.add(box)
            else:
                # Fed and emptied again within the same list.
                ready.discard(box)

    def touched(self, plan: Plan) -> set[int]:
        return {step[0] for step in plan.steps}

    def added(self, query: int) -> None:
        self.units.extend((b,) for b in range(len(self.units), len(self._view.network.boxes)))

    def removed(self, query: int) -> None:
        self.ready.difference_update(self._view.network.query_boxes[query])


class ReadyUnblocked(ReadyBoxes):
    """As ``ReadyBoxes``, less boxes that hold tuples they cannot take yet.

    In a system that polls, a join waits until its other input has caught up: it holds tuples, is
    called, and takes none. Whoever calls the best ready box would call it again and again, so such
    a box is left alone until something new arrives at it, or until nothing else is ready.
    """

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


class ReadySuperboxes:
    """Every superbox is a unit; those that share boxes never run at the same time."""

    def __init__(self, view: View, superboxes: Sequence[Superbox]) -> None:
        self._view = view
        self.units = [superbox.boxes for superbox in superboxes]
        serves: list[list[int]] = [[] for _ in view.network.boxes]
        for unit, boxes in enumerate(self.units):
            for b in boxes:
                serves[b].append(unit)
        # Where boxes and superboxes are the same, the same tuples: fewer to fetch.
        same = {boxes: boxes for boxes in self.units}
        #: The superboxes that each box belongs to.
        self.units_of = [same.get(units, units) for units in map(tuple, serves)]
        self.ready: set[int] = set()
        for b, pending in enumerate(view.pending):
            if pending:
                self.arrived(b, pending, 0)

    def arrived(self, box: int, count: int, now_ns: int) -> None:
        for unit in self.units_of[box]:
            if unit not in self.ready and self._free(unit):
                self.ready.add(unit)

    def taken(self, plan: Plan) -> None:
        self.ready.difference_update(self.touched(plan))

    def withdrawn(self, box: int) -> None:
        self.ready.difference_update(self.units_of[box])

    def released(self, plan: Plan) -> None:
        pending = self._view.pending
        for unit in self.touched(plan):
            if any(pending[b] for b in self.units[unit]) and self._free(unit):
                self.ready.add(unit)
            else:
                self.ready.discard(unit)

    def touched(self, plan: Plan) -> Collection[int]:
        """The units that share a box with the plan; a traversal may name a box many times."""
        if len(plan.steps) == 1:
            return self.units_of[plan.steps[0][0]]
        return {unit for box in {step[0] for step in plan.steps} for unit in self.units_of[box]}

    def added(self, query: int) -> None:
        for b in range(len(self.units_of), len(self._view.network.boxes)):
            self.units_of.append((len(self.units),))
            self.units.append((b,))

    def removed(self, query: int) -> None:
        for b in self._view.network.query_boxes[query]:
            self.ready.difference_update(self.units_of[b])

    def _free(self, unit: int) -> bool:
        running = self._view.running
        return not any(running[b] for b in self.units[unit])


class ReadyQueries(ReadySuperboxes):
    """Every query is a unit."""

    def __init__(self, view: View) -> None:
        super().__init__(view, applications(view.network))


class ReadyPaths(ReadySuperboxes):
    """Push-through: an input box and all boxes downstream of it, ready while the input box is.

    A path run in flow order leaves nothing queued downstream (aurora-thesis 4.5).
    """

    def __init__(self, view: View) -> None:
        paths = all_paths(view.network)
        #: By box: the path that it starts, if any.
        self._starts: list[int | None] = [None] * len(view.network.boxes)
        for unit, path in enumerate(paths):
            self._starts[path[0]] = unit
        super().__init__(view, [Superbox(view.network, path) for path in paths])

    def arrived(self, box: int, count: int, now_ns: int) -> None:
        unit = self._starts[box]
        if unit is not None and unit not in self.ready and self._free(unit):
            self.ready.add(unit)

    def released(self, plan: Plan) -> None:
        pending = self._view.pending
        for unit in self.touched(plan):
            if pending[self.units[unit][0]] and self._free(unit):
                self.ready.add(unit)
            else:
                self.ready.discard(unit)

    def added(self, query: int) -> None:
        super().added(query)
        for box in range(len(self._starts), len(self.units_of)):
            self._starts.extend(self.units_of[box])


def all_paths(network: Network) -> list[tuple[int, ...]]:
    """Of each input box: itself and the boxes downstream of it, in flow order."""
    place = [0] * len(network.boxes)
    for at, box in enumerate(network.topological):
        place[box] = at
    paths = []
    for first in network.input_boxes:
        reached, further = {first}, [first]
        while further:
            fresh = [d for d in network.downstream[further.pop()] if d not in reached]
            reached.update(fresh)
            further.extend(fresh)
        paths.append(tuple(sorted(reached, key=place.__getitem__)))
    return paths
