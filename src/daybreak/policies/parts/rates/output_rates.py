"""Output rates S_x / C_x: what the HR scheduler orders operators by (class-based-thesis 4.1).

S_x is the expected number of results of a tuple at box x, C_x the expected work from x on to the
outputs. An output operator takes the priority of the box that feeds it, as the text has it; of
equal ones the box further downstream goes first, so that results leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from daybreak.policies.base import View
from daybreak.policies.parts.queues.growing_tables import put

#: Statistics are read again after so many input tuples (section 2.1).
CYCLE_TUPLES = 200


class OutputRates:
    """Rates of all boxes, read from the view's estimates once per cycle."""

    def __init__(self, view: View, *, by_priority: bool = False) -> None:
        """``by_priority``: times the priority of the highest class a box serves (WeHR)."""
        self._view = view
        self._by_priority = by_priority
        self._read_network()
        self.refresh()

    def _read_network(self) -> None:
        self._inputs = frozenset(self._view.network.input_boxes)
        self._place = {b: i for i, b in enumerate(self._view.network.topological)}

    def added(self, query: int) -> None:
        """Reads the estimates of a query that came; those of others wait for the next cycle."""
        self._read_network()
        rates = self._read_rates()
        for b in self._view.network.query_boxes[query]:
            put(self.rates, b, rates[b])

    def arrived(self, box: int, count: int) -> None:
        """Tuples were queued at a box; only what enters the system counts towards a cycle."""
        if box in self._inputs:
            self._since += count
            if self._since >= CYCLE_TUPLES:
                self.refresh()

    def refresh(self) -> None:
        self._since = 0
        self.rates = self._read_rates()

    def _read_rates(self) -> list[float]:
        view = self._view
        network = view.network
        results = [0.0] * len(network.boxes)
        work_ns = [0.0] * len(network.boxes)
        for b in reversed(network.topological):
            further = network.downstream[b]
            ahead = sum([results[d] for d in further]) + len(network.queries_at[b])
            results[b] = view.selectivity[b] * ahead
            work_ns[b] = view.cost_ns[b] + view.selectivity[b] * sum([work_ns[d] for d in further])
        # What costs nothing counts as a nanosecond, so that rates stay finite.
        rates = [s / max(c, 1.0) for s, c in zip(results, work_ns, strict=True)]
        for b in network.topological:
            if network.queries_at[b] and network.upstream[b]:
                rates[b] = max(rates[up] for up in network.upstream[b])
        if self._by_priority:
            for b, queries in enumerate(network.box_queries):
                rates[b] *= max(view.class_priority[view.query_class[q]] for q in queries)
        return rates

    def best(self, boxes: Iterable[int]) -> int:
        """The box to run first."""
        rates, place = self.rates, self._place
        return max(boxes, key=lambda b: (rates[b], place[b]))
