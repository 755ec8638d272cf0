"""Which units can run now, kept current in O(1) per event.

A *unit* is what a policy chooses among: one box, or all boxes of a query. It is ready while at
least one of its boxes holds tuples and none of them is held by a worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.policies.base import Plan, View


class ReadyUnits:
    """The set of ready units; iterate over ``ready`` in any order, ties are the caller's."""

    def __init__(self, view: View, units: Sequence[tuple[int, ...]]) -> None:
        self._view = view
        self.units = units
        owners: list[list[int]] = [[] for _ in view.network.boxes]
        for u, boxes in enumerate(units):
            for b in boxes:
                owners[b].append(u)
        self._owners = tuple(tuple(us) for us in owners)
        self.ready: set[int] = set()
        for b, pending in enumerate(view.pending):
            if pending:
                self.arrived(b)

    def arrived(self, box: int) -> None:
        for unit in self._owners[box]:
            if unit not in self.ready and self._free(unit):
                self.ready.add(unit)

    def taken(self, plan: Plan) -> None:
        """Call when a plan is handed out: units that share its boxes must wait."""
        for step in plan.steps:
            self.ready.difference_update(self._owners[step.box])

    def released(self, plan: Plan) -> None:
        """Call when a plan ended: what still holds tuples is ready again."""
        pending = self._view.pending
        for step in plan.steps:
            for unit in self._owners[step.box]:
                if any(pending[b] for b in self.units[unit]) and self._free(unit):
                    self.ready.add(unit)

    def _free(self, unit: int) -> bool:
        running = self._view.running
        return not any(running[b] for b in self.units[unit])


def box_units(view: View) -> list[tuple[int, ...]]:
    return [(b,) for b in range(len(view.network.boxes))]


def query_units(view: View) -> list[tuple[int, ...]]:
    return list(view.network.query_boxes)
