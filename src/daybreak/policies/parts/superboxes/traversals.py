"""Superbox traversals: in which order the boxes of a superbox run (aurora-thesis 3.3.1.2).

A traversal consumes every tuple queued within the superbox when it starts. A superbox lists its
boxes in post-order; ties go by that order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from daybreak.policies.base import View
from daybreak.policies.parts.superboxes.superboxes import Superbox


def output_cost_ns(view: View, superbox: Superbox, box: int) -> float:
    """Estimated latency of producing one output tuple from those queued at ``box``.

    The sum over D(b) of cost(k) / o_sel(k), where o_sel(k) is the outputs per tuple at k: the
    product of the selectivities downstream.
    """
    total, share = 0.0, 1.0
    for k in reversed(superbox.down_path(box)):
        share *= view.selectivity[k]
        total += view.cost_ns[k] / share if share else math.inf
    return total


def min_cost(view: View, superbox: Superbox) -> tuple[int, ...]:
    """MC: post-order, so that every box is called once."""
    del view  # whatever boxes cost
    return superbox.boxes


def min_latency(view: View, superbox: Superbox) -> tuple[int, ...]:
    """ML: by increasing output cost, each box followed by everything downstream of it."""
    ranked = sorted(superbox.boxes, key=lambda b: output_cost_ns(view, superbox, b))
    return tuple(k for b in ranked for k in superbox.down_path(b))


def memory_rate(view: View, box: int) -> float:
    """mem_rr: bytes set free per unit of time while the box works on its queue."""
    freed = view.network.boxes[box].tuple_bytes * (1 - view.selectivity[box])
    cost = view.cost_ns[box]
    if cost:
        return freed / cost
    return 0.0 if freed == 0 else math.copysign(math.inf, freed)


def min_memory(view: View, superbox: Superbox) -> tuple[int, ...]:
    """MM: by decreasing mem_rr, each box followed by those downstream that free still more.

    "More" is than the first box of the segment; what then still holds tuples follows in
    post-order. The text's pseudocode lacks that end and would leave tuples behind, and its
    printed example follows from no reading of it (docs/aurora.md).
    """
    boxes, downstream = superbox.boxes, view.network.downstream
    rate = {b: memory_rate(view, b) for b in boxes}
    order: list[int] = []
    for b in sorted(boxes, key=lambda b: -rate[b]):
        order.append(b)
        order.extend(k for k in superbox.down_path(b)[1:] if rate[k] > rate[b])
    holding = set(boxes)
    for b in order:
        holding.discard(b)
        holding.update(downstream[b])
    for b in boxes:
        if b in holding:
            order.append(b)
            holding.update(downstream[b])
    return tuple(order)


class Foreseen(NamedTuple):
    """What running a superbox would come to, by the estimates."""

    #: Mean time to the output tuples, from the start of the run or from their arrival during it.
    latency_ns: float
    #: Length of the run.
    length_ns: float
    #: Output tuples expected.
    outputs: float
    #: Tuples that join the run while it is under way.
    joined: float = 0.0


def foresee(
    view: View,
    superbox: Superbox,
    order: Sequence[int],
    call_ns: float,
    queued: Mapping[int, float],
    rates_per_ns: Mapping[int, float] | None = None,
) -> Foreseen:
    """Steps through a traversal of what is queued, as Tables 3.1 and 3.2 do by hand.

    With rates, boxes also take what arrived at them during the run before their turn came. How
    many that will be is uncertain: a box that would else be empty is called with the probability
    that any did (Poisson).
    """
    downstream, root = view.network.downstream, superbox.root
    rates = rates_per_ns or {}
    held = dict(queued)
    #: Of what each box holds: how much is certain, and the sum of arrivals since the run began.
    certain = dict(queued)
    arrived = dict.fromkeys(held, 0.0)
    since = dict.fromkeys(rates, 0.0)
    now = produced = summed = joined = 0.0
    for b in order:
        if b in rates:
            more = rates[b] * (now - since[b])
            held[b] += more
            arrived[b] += more * (now + since[b]) / 2
            joined += more
            since[b] = now
        train = held[b]
        if train <= 0:
            continue
        sure = certain[b]
        called = 1.0 if sure >= 1 else 1 - (1 - sure) * math.exp(sure - train)
        work = train * view.cost_ns[b]
        now += called * call_ns + work
        passes = view.selectivity[b]
        passed, came = train * passes, arrived[b] * passes
        held[b] = certain[b] = arrived[b] = 0.0
        if b == root:
            # Outputs leave one tuple cost apart: on average in the middle of the train.
            produced += passed
            middle = (work - view.cost_ns[b]) / 2 if train > 1 else 0.0
            summed += passed * (now - middle) - came
        for d in downstream[b]:
            if d in held:
                held[d] += passed
                certain[d] += sure * passes
                arrived[d] += came
    return Foreseen(summed / produced if produced else 0.0, now, produced, joined)
