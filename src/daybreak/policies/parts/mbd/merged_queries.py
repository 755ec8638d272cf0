"""Queries that share boxes, merged into units that run as one (class-based-thesis 6.1.4)."""

from __future__ import annotations

from daybreak.model.network import Network
from daybreak.policies.base import Plan, Step, View


class MergedQueries:
    """Every query belongs to one unit; queries that share a box belong to the same."""

    def __init__(self, network: Network, limit: int | None = None) -> None:
        """``limit``: tuples a box takes at most per call."""
        parent = list(range(len(network.queries)))

        def root(q: int) -> int:
            while parent[q] != q:
                parent[q] = parent[parent[q]]
                q = parent[q]
            return q

        for sharing in network.box_queries:
            for q in sharing[1:]:
                parent[max(root(sharing[0]), root(q))] = min(root(sharing[0]), root(q))
        roots = sorted({root(q) for q in range(len(parent))})
        number = {r: u for u, r in enumerate(roots)}
        #: The unit of each query and of each box.
        self.of_query = [number[root(q)] for q in range(len(parent))]
        self.of_box = [self.of_query[qs[0]] for qs in network.box_queries]
        self.queries: list[list[int]] = [[] for _ in roots]
        for q, u in enumerate(self.of_query):
            self.queries[u].append(q)
        place = {b: i for i, b in enumerate(network.topological)}
        #: The boxes of each unit in flow order, and the plan that runs them all.
        self.boxes = [
            sorted({b for q in qs for b in network.query_boxes[q]}, key=place.__getitem__)
            for qs in self.queries
        ]
        self.plans = [
            Plan(tuple(Step(b, limit) for b in boxes), superbox=True) for boxes in self.boxes
        ]

    def __len__(self) -> int:
        return len(self.plans)


def box_costs_ns(view: View) -> list[dict[int, float]]:
    """Of each query: expected work at each of its boxes for a tuple on each of its inputs."""
    network = view.network
    fed = [0] * len(network.boxes)
    for boxes in network.stream_boxes:
        for b in boxes:
            fed[b] += 1
    costs = []
    for boxes in network.query_boxes:
        mine = set(boxes)
        flow = {b: float(fed[b]) for b in boxes}
        for b in boxes:
            for d in network.downstream[b]:
                if d in mine:
                    flow[d] += flow[b] * view.selectivity[b]
        costs.append({b: flow[b] * view.cost_ns[b] for b in boxes})
    return costs


def query_costs_ns(view: View) -> list[float]:
    """Expected work for a tuple on each input of a query; 0 while nothing is known of it."""
    return [sum(costs.values()) for costs in box_costs_ns(view)]
