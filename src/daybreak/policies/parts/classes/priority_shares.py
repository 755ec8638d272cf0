"""How a class's priority is divided among its queries and boxes (class-based-thesis 6.1.2).

By expected cost per tuple: Pr_class x cost(i) / cost(class).
"""

from __future__ import annotations

from daybreak.policies.base import View
from daybreak.policies.parts.mbd.merged_queries import box_costs_ns


def query_shares(view: View) -> list[float]:
    """Pr_class x cost(query) / cost(class); what costs nothing counts as a nanosecond."""
    costs = [max(1.0, sum(found.values())) for found in box_costs_ns(view)]
    totals = [0.0] * len(view.class_priority)
    for q, cost in enumerate(costs):
        totals[view.query_class[q]] += cost
    return [
        view.class_priority[view.query_class[q]] * cost / totals[view.query_class[q]]
        for q, cost in enumerate(costs)
    ]


def box_shares(view: View) -> list[float]:
    """A box's part of its queries' priorities, by its part of their cost."""
    found = [0.0] * len(view.network.boxes)
    for share, of_boxes in zip(query_shares(view), box_costs_ns(view), strict=True):
        costs = {b: max(1.0, cost) for b, cost in of_boxes.items()}
        total = sum(costs.values())
        for b, cost in costs.items():
            found[b] += share * cost / total
    return found
