"""Condon's flow: how much of the stream takes which order of the filters [report, chapter 3].

The flow grows along the filters in order of decreasing residual capacity. Where two residual
capacities meet, the filters become one group, served so that their residuals stay equal. The
flow is maximal when a filter is saturated. (Condon, Deshpande, Hellerstein and Wu, "Flow
algorithms for two pipelined filter ordering problems", PODS 2006.)

Inside a group of filters g_1..g_k the stream is split over the k rotations of that order. Let
X be the load every member gets per unit of flow. Member j+1 gets what starts there, w_{j+1},
and what member j let pass, except the rotation that starts at j+1 and so ends at j:
``X = w_{j+1} (1 - P) + p_j X`` with P the product of the group's selectivities. Hence
``w_{j+1} = X (1 - p_j) / (1 - P)``: rotations in proportion to how much the member before the
start drops, and ``X = (1 - P) / sum (1 - p_j)``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from daybreak.filters.declared_filters import Estimate

Permutation = tuple[int, ...]
#: Residual capacities this close, relative to the largest capacity, count as equal.
_EQUAL = 1e-12


@dataclass(frozen=True)
class _Group:
    """Filters of equal residual capacity, in the order their rotations follow."""

    members: Permutation
    residual: float
    #: Fraction of the group's input that starts at each member; sums to 1.
    starts: tuple[float, ...]
    #: Product of the members' selectivities, and the load each gets per unit of input.
    passes: float
    load: float

    @classmethod
    def of(cls, members: Permutation, residual: float, filters: Sequence[Estimate]) -> _Group:
        drops = [1 - filters[i].selectivity for i in members]
        passes = math.prod(filters[i].selectivity for i in members)
        total = sum(drops)
        if total == 0:  # nobody drops: the limit of equal, vanishing drops
            return cls(members, residual, (1 / len(members),) * len(members), passes, 1.0)
        starts = tuple(drops[j - 1] / total for j in range(len(members)))
        return cls(members, residual, starts, passes, (1 - passes) / total)


def condon_flow(filters: Sequence[Estimate]) -> dict[Permutation, float]:
    """Tuples per second along each order used; their sum is F*."""
    scale = max(f.capacity_per_s for f in filters)
    groups = [
        _Group.of((i,), f.capacity_per_s, filters)
        for i, f in sorted(enumerate(filters), key=lambda x: -x[1].capacity_per_s)
    ]
    flows: dict[Permutation, float] = {}
    while True:
        groups = _merge_equals(groups, filters, scale * _EQUAL)
        loads = _loads(groups)
        grown = groups[-1].residual / loads[-1] if loads[-1] > 0 else math.inf
        for k, (a, b) in enumerate(itertools.pairwise(groups)):
            closing = loads[k] - loads[k + 1]
            if closing > 0:
                grown = min(grown, (a.residual - b.residual) / closing)
        if math.isinf(grown):  # a filter that lets nothing pass hides the rest for ever
            grown = groups[0].residual / loads[0]
        for permutation, share in _split(groups).items():
            if share * grown > 0:
                flows[permutation] = flows.get(permutation, 0.0) + share * grown
        groups = [
            _Group(g.members, g.residual - load * grown, g.starts, g.passes, g.load)
            for g, load in zip(groups, loads, strict=True)
        ]
        if min(g.residual for g in groups) <= scale * _EQUAL:
            return flows


def _loads(groups: Sequence[_Group]) -> list[float]:
    """Load on each group's members per unit of flow into the first group."""
    survivors, loads = 1.0, []
    for g in groups:
        loads.append(survivors * g.load)
        survivors *= g.passes
    return loads


def _merge_equals(
    groups: Sequence[_Group], filters: Sequence[Estimate], tolerance: float
) -> list[_Group]:
    merged = [groups[0]]
    for g in groups[1:]:
        last = merged[-1]
        if last.residual - g.residual <= tolerance:
            merged[-1] = _Group.of(last.members + g.members, g.residual, filters)
        else:
            merged.append(g)
    return merged


def _split(groups: Sequence[_Group]) -> dict[Permutation, float]:
    """Fractions of the flow per order, at most one order per filter.

    Only how much of a group's input starts at each member matters, whatever the other groups
    do: survivors of a group do not depend on its rotation. So all groups' fractions are laid
    over the same unit interval and it is cut wherever one of them changes.
    """
    cuts = {0.0, 1.0}
    for g in groups:
        position = 0.0
        for share in g.starts[:-1]:
            position += share
            cuts.add(min(position, 1.0))
    edges = sorted(cuts)
    shares: dict[Permutation, float] = {}
    for low, high in itertools.pairwise(edges):
        order = tuple(i for g in groups for i in _rotation(g, (low + high) / 2))
        shares[order] = shares.get(order, 0.0) + high - low
    return shares


def _rotation(group: _Group, position: float) -> Permutation:
    reached = 0.0
    for j, share in enumerate(group.starts):
        reached += share
        if position < reached:
            return group.members[j:] + group.members[:j]
    return group.members[-1:] + group.members[:-1]
