"""Quality of service inside the classes of MBD (class-based-thesis 7.3, named as future work).

A class keeps the slots that its priority gives it. Within the class they go to the queries by
cost, as in MBD, times an urgency from their QoS graphs: a query runs the more often, the sooner
its results lose their worth. How soon is the latency at which a graph has lost half of what it
loses at all: its slack, and then as long as its slope takes. Response times fall as one over the
frequency, and the share that serves two queries best by it goes with the square root.

Which query of a class goes *first* is left to the ruler. Choosing that by slope and slack at each
slot was tried and is worse (docs/classes.md): a run takes whatever is queued, so a query that goes
early goes with little, and what arrives next waits longer.
"""

from __future__ import annotations

from daybreak.model.qos import QoSGraph
from daybreak.policies.mbd import MulticoreBroadcastDisks

#: No query of a class is more urgent than another by more than this.
MOST = 8.0


class QosBroadcastDisks(MulticoreBroadcastDisks):
    """MBD whose classes serve the urgent more often."""

    name = "mbd-qos"
    summary = "mbd whose classes run a query the more often, the sooner its results lose worth"

    def shares(self) -> list[float]:
        costs, gone = super().shares(), self._gone
        half_ns = [None if q in gone else half_life_ns(query.qos)
                   for q, query in enumerate(self.view.network.queries)]  # fmt: skip
        known = self._declared or all(cost for q, cost in enumerate(costs) if q not in gone)
        soonest: dict[int, float] = {}
        for cls, half in zip(self._class, half_ns, strict=True):
            if half is not None:
                soonest[cls] = min(half, soonest.get(cls, half))
        shares = []
        for cost, cls, half in zip(costs, self._class, half_ns, strict=True):
            # Costs that are not known yet count as equal.
            base = cost if known else 1.0
            urgency = MOST**-1 if half is None else max(MOST**-1, (soonest[cls] / half) ** 0.5)
            shares.append(base * (urgency if cls in soonest else 1.0))
        return shares


def half_life_ns(graph: QoSGraph | None) -> float | None:
    """The latency at which a graph has lost half of what it loses; None if it loses nothing."""
    if graph is None or not graph.critical_ns:
        return None
    half = (1.0 + graph.points[-1][1]) / 2
    low, high = graph.critical_ns[0], round(graph.points[-1][0] * 1e9)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if graph.worth(middle) > half else (low, middle)
    return float(high)
