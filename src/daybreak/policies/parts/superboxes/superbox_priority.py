"""How urgent a box is, and a superbox (aurora-thesis 6.3.2 and 6.3.8).

A priority is a pair (utility lost per ns of further delay, -slack): first who loses most, then
who begins to lose soonest; greater is more urgent. Slack is infinite when nothing can be lost
any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import View
from daybreak.policies.parts.superboxes.superboxes import Superbox

Priority = tuple[float, float]
NO_HURRY: Priority = (0.0, -math.inf)


def box_priority(view: View, box: int, now_ns: int) -> Priority:
    """Of a box that holds tuples; a shared box has the highest priority of those it serves."""
    network = view.network
    age_ns = now_ns - view.arrival_sum_ns[box] / view.pending[box]
    best = NO_HURRY
    for q in network.box_queries[box]:
        qos = network.queries[q].qos
        if qos is not None:
            latency_ns = age_ns + sum([view.cost_ns[k] for k in network.down_path(box, q)])
            slope, slack_ns = qos.slope_slack(latency_ns)
            best = max(best, (slope, -slack_ns))
    return best


def top_boxes(count: int) -> Callable[[View, Superbox, int], Priority]:
    """The sum over its ``count`` most urgent boxes; with 1, the priority of its best box.

    Losses add up, of slacks the smallest counts.
    """

    def priority(view: View, superbox: Superbox, now_ns: int) -> Priority:
        holding = [b for b in superbox.boxes if view.pending[b]]
        ranked = sorted([box_priority(view, b, now_ns) for b in holding], reverse=True)[:count]
        return sum([p[0] for p in ranked]), max(p[1] for p in ranked)

    return priority


def own_graph(network: Network, superbox: Superbox, costs_ns: Sequence[float]) -> QoSGraph | None:
    """What leaving the superbox at some latency is worth, in the mean over the queries it serves.

    Each query's graph is moved ahead by the cost of the boxes that follow the superbox. The mean,
    since with the lower envelope one query that is lost would hide all others. The combined graph
    of a composite is the same, over the outputs of all its applications. None if no query
    declares a graph, or all utility is lost whatever is done.
    """
    moved = []
    for root in superbox.exits:
        for q in network.box_queries[root]:
            qos = network.queries[q].qos
            if qos is not None:
                ahead = network.down_path(root, q)[1:]
                moved.append((qos, round(sum([costs_ns[b] for b in ahead]))))
    if not moved:
        return None
    corners = {0} | {round(x * NS_PER_S) - ahead for qos, ahead in moved for x, _ in qos.points}
    at_ns = np.array(sorted(x for x in corners if x >= 0), dtype=np.int64)
    worth = np.mean([qos.utility(at_ns + ahead) for qos, ahead in moved], axis=0)
    if worth[0] <= 0:
        return None
    points = zip((at_ns / NS_PER_S).tolist(), (worth / worth[0]).tolist(), strict=True)
    return QoSGraph(tuple(points))


class OwnGraphs:
    """Superboxes judged by a graph of their own at their mean latency, one evaluation each."""

    def __init__(self, view: View, superboxes: Sequence[Superbox]) -> None:
        self._graphs = {s: own_graph(view.network, s, view.cost_ns) for s in superboxes}
        #: Expected work on a tuple at each box until it leaves the superbox.
        self._work_ns = {s: _work_ns(view, s) for s in superboxes}

    def __call__(self, view: View, superbox: Superbox, now_ns: int) -> Priority:
        graph = self._graphs[superbox]
        if graph is None:
            return NO_HURRY
        held = arrived_ns = 0
        ahead_ns = 0.0
        for b, work_ns in self._work_ns[superbox]:
            n = view.pending[b]
            if n:
                held += n
                arrived_ns += view.arrival_sum_ns[b]
                ahead_ns += n * work_ns
        latency_ns = now_ns - arrived_ns / held + ahead_ns
        slope, slack_ns = graph.slope_slack(latency_ns)
        return slope, -slack_ns


def _work_ns(view: View, superbox: Superbox) -> list[tuple[int, float]]:
    ahead: dict[int, float] = {}
    for b in reversed(superbox.boxes):
        further = sum([ahead[d] for d in view.network.downstream[b] if d in ahead])
        ahead[b] = view.cost_ns[b] + view.selectivity[b] * further
    return list(ahead.items())


def producers_first(
    priorities: dict[int, Priority], feeds: Sequence[Sequence[int]], depth: Sequence[int]
) -> list[int]:
    """Superboxes by priority, but one that feeds a more urgent one goes before that one.

    ``depth`` is greater for those further upstream; only those with a priority take part.
    """
    inherited: dict[int, Priority] = {}
    for unit in sorted(priorities, key=lambda u: depth[u]):
        fed = [inherited[f] for f in feeds[unit] if f in inherited]
        inherited[unit] = max([priorities[unit], *fed])
    # Among equals, those further upstream first; then by index.
    return sorted(inherited, key=lambda u: (-inherited[u][0], -inherited[u][1], -depth[u], u))
