"""Superbox traversals: in which order the boxes of a superbox run (aurora-thesis 3.3.1.2).

A traversal consumes every tuple queued within the superbox when it starts. Boxes are given in
post-order, as ``Network.query_boxes`` has them; ties go by that order.
"""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.policies.base import View


def output_selectivity(view: View, path: Sequence[int]) -> float:
    """o_sel: outputs at the end of the path per tuple at its first box."""
    product = 1.0
    for b in path:
        product *= view.selectivity[b]
    return product


def output_cost_ns(view: View, query: int, box: int) -> float:
    """Estimated latency of producing one output tuple from those queued at ``box``.

    The sum over D(b) of cost(k) / o_sel(k).
    """
    path = view.network.down_path(box, query)
    total = 0.0
    for i, k in enumerate(path):
        share = output_selectivity(view, path[i:])
        total += view.cost_ns[k] / share if share else float("inf")
    return total


def min_cost(view: View, query: int) -> tuple[int, ...]:
    """MC: post-order, so that every box is called once."""
    return view.network.query_boxes[query]


def min_latency(view: View, query: int) -> tuple[int, ...]:
    """ML: by increasing output cost, each box followed by everything downstream of it."""
    boxes = view.network.query_boxes[query]
    ranked = sorted(boxes, key=lambda b: output_cost_ns(view, query, b))
    return tuple(k for b in ranked for k in view.network.down_path(b, query))
