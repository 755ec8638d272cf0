"""Fixed-Priority: the least static slack first (aurora-thesis 4.2.1, Table 4.1).

slack(b) = deadline - cost of the boxes from b to the output, for one tuple. A shared box has
the smallest slack of the queries it serves. A unit without a deadline comes after all that have
one, by the priority of its class.
"""

from __future__ import annotations

import heapq
import math

from daybreak.policies.base import Change, View, Work
from daybreak.policies.parts.queues.execution_list import ListPolicy
from daybreak.policies.parts.queues.growing_tables import put


class FixedPriority(ListPolicy):
    """A static order by slack, then class priority, then index."""

    name = "fixed-priority"
    summary = "least static slack (deadline minus downstream cost) first"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._rank_all()

    def on_change(self, change: Change, now_ns: int) -> None:
        self._rank_all()

    def on_query_added(self, query: int, now_ns: int) -> None:
        super().on_query_added(query, now_ns)
        for box in self.view.network.query_boxes[query]:
            for unit in self.units.units_of[box]:
                # The others keep their slack: estimates have moved since they were ranked.
                put(self._keys, unit, self._key(unit))
        self._rank()

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        self.work.sorted(len(ready))
        return heapq.nsmallest(size, ready, key=self._rank_of.__getitem__)

    def _rank_all(self) -> None:
        self._keys = [self._key(unit) for unit in range(len(self.units.units))]
        self._rank()

    def _rank(self) -> None:
        # Ranks, so that the hot path compares small integers.
        self._rank_of = [0] * len(self._keys)
        for rank, key in enumerate(sorted(self._keys)):
            self._rank_of[key[2]] = rank

    def _key(self, unit: int) -> tuple[float, float, int]:
        view, boxes = self.view, self.units.units[unit]
        queries = {q for b in boxes for q in view.network.box_queries[b]}
        slack = min(slack_ns(view, b, q) for q in queries for b in boxes if _serves(view, b, q))
        importance = max(view.class_priority[view.query_class[q]] for q in queries)
        return slack, -importance, unit


def slack_ns(view: View, box: int, query: int) -> float:
    """Time to spare for a tuple that enters ``box`` now and is pushed to the query's output."""
    qos = view.network.queries[query].qos
    if qos is None or qos.deadline_ns is None:
        return math.inf
    path = view.network.down_path(box, query)
    return qos.deadline_ns - sum(view.cost_ns[b] for b in path)


def _serves(view: View, box: int, query: int) -> bool:
    return query in view.network.box_queries[box]
