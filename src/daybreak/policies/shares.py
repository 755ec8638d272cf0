"""How a class's priority is divided among its queries and boxes (class-based-thesis 6.1.2).

By expected cost per tuple: Pr_class x cost(i) / cost(class). A query's cost per tuple is the work
one tuple at each of its inputs causes, down to the output.
"""

from __future__ import annotations

from daybreak.policies.base import View


def box_costs_ns(view: View, query: int) -> dict[int, float]:
    """Expected work at each box of a query for one tuple at each of its inputs."""
    network = view.network
    boxes = network.query_boxes[query]
    mine, inputs = set(boxes), set(network.input_boxes)
    flow = {b: 1.0 if b in inputs else 0.0 for b in boxes}
    for b in boxes:
        for d in network.downstream[b]:
            if d in mine:
                flow[d] += flow[b] * view.selectivity[b]
    return {b: flow[b] * view.cost_ns[b] for b in boxes}


def query_shares(view: View) -> list[float]:
    """Pr_class x cost(query) / cost(class); what costs nothing counts as a nanosecond."""
    costs = [max(1.0, sum(box_costs_ns(view, q).values())) for q in range(len(view.query_class))]
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
    for q, share in enumerate(query_shares(view)):
        costs = {b: max(1.0, cost) for b, cost in box_costs_ns(view, q).items()}
        total = sum(costs.values())
        for b, cost in costs.items():
            found[b] += share * cost / total
    return found
