"""The exact planner: the best refresh frequencies for any number of objects, with a certificate.

Maximises PF (eq. 2.1) subject to sum s_i f_i <= B (eq. 2.4), floors and caps per element and
caps per group of elements. Section 2.3 holds this to be infeasible beyond about a thousand
objects; as every frequency follows from one multiplier, it is a search in one dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.groups import group_ceilings
from daybreak.freshness.mirror import Floats, Mirror, bandwidth_of, perceived_freshness
from daybreak.freshness.multiplier import (
    Bounds,
    RefreshDemand,
    loads_and_prices,
    search,
    start_depth,
)
from daybreak.freshness.refresh_limits import RefreshLimits
from daybreak.model.errors import ConfigError, EngineBug

#: Steps of price, on a logarithmic scale, that `condensed` keeps apart.
_CONDENSED_STEPS = 4000


@dataclass(frozen=True, slots=True, eq=False)
class RefreshPlan:
    """Refresh frequencies, and the proof of how good they are."""

    #: f_i: refreshes of each object per period.
    frequency: Floats
    #: PF of eq. 2.1.
    perceived_freshness: float
    #: mu: what one more unit of bandwidth per period buys in PF.
    multiplier: float
    #: No plan within the same limits can be better than this one by more than ``gap``.
    gap: float
    #: What was allowed and what is used, in units of size per period.
    bandwidth: float
    spent: float
    #: How often the search went over all objects.
    passes: int


def plan(
    mirror: Mirror,
    bandwidth: float,
    limits: RefreshLimits | None = None,
    start: float | None = None,
) -> RefreshPlan:
    """The best plan within ``bandwidth`` and ``limits``.

    ``start`` is the multiplier of an earlier plan for a similar mirror; it only saves time.
    Raises ConfigError, with the smallest feasible bandwidth, if the floors cannot be paid.
    """
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ConfigError("bandwidth", f"is {bandwidth}", "give a number above 0")
    checked = (limits or RefreshLimits()).checked(mirror, bandwidth)
    cap, group_gap = checked.cap, 0.0
    if checked.group is not None:
        cap, group_gap = group_ceilings(mirror, checked)
    demand = RefreshDemand(mirror, Bounds(checked.floor, cap))
    least, most = demand.extremes()
    floor_use = bandwidth_of(mirror, least)
    multiplier = gap = 0.0
    if bandwidth_of(mirror, most) <= bandwidth:
        frequency = most
        pf = perceived_freshness(mirror, frequency)
    elif floor_use >= bandwidth * (1 - 1e-14):
        frequency, multiplier = least, 1 / demand.anchor
        pf = perceived_freshness(mirror, frequency)
    else:
        free = bandwidth - floor_use
        begin = demand.depth(start) if start else start_depth(mirror, demand, free)
        frequency, multiplier, pf, gap = _spend(mirror, demand, free, begin)
    spent = bandwidth_of(mirror, frequency)
    if spent > bandwidth * (1 + 1e-9):
        raise EngineBug(f"a plan for {bandwidth!r} of bandwidth spends {spent!r}")
    return RefreshPlan(frequency, pf, multiplier, gap + group_gap, bandwidth, spent, demand.passes)


def curve(mirror: Mirror, bandwidths: Iterable[float]) -> list[RefreshPlan]:
    """PF over bandwidth (figure 6.1): one plan each, warm-started from its neighbour."""
    plans: list[RefreshPlan] = []
    for bandwidth in bandwidths:
        plans.append(plan(mirror, bandwidth, start=plans[-1].multiplier if plans else None))
    return plans


def condensed(mirror: Mirror) -> Mirror:
    """A mirror of some thousand elements whose `curve` is, to the eye, that of a large one.

    How fresh the best plan keeps an element depends on its price alone, s lambda / p: elements of
    nearly the same price become one of their total access and load.
    """
    load, price = loads_and_prices(mirror)
    priced = load > 0
    values = np.log(price[priced])
    group = np.zeros(len(mirror), np.int64)  # 0: what needs no bandwidth
    if len(values):
        low = float(values.min())
        width = max(float(values.max()) - low, 1e-9) / _CONDENSED_STEPS
        group[priced] = 1 + ((values - low) / width).astype(np.int64)
    _, group = np.unique(group, return_inverse=True)
    # What never changes is always fresh; what is never read counts for nothing and costs nothing.
    return Mirror.of(np.bincount(group, load), np.bincount(group, mirror.access))


def _spend(
    mirror: Mirror, demand: RefreshDemand, budget: float, start: float
) -> tuple[Floats, float, float, float]:
    """Frequencies that use this much above the floors, mu, their PF and the duality gap.

    Between the bracket's ends the plan is their convex combination. Rescaling one end instead
    loses up to a third of PF where a kink of the demand lies inside the bracket.
    """
    shallow, deep = search(demand, budget, start)
    low, high = demand.frequencies(deep), demand.frequencies(shallow)
    use_low, use_high = demand.excess(low), demand.excess(high)
    share = (budget - use_low) / (use_high - use_low) if use_high > use_low else 0.0
    frequency: Floats = low + share * (high - low)
    pf = perceived_freshness(mirror, frequency)
    # Lagrange: ``low`` maximises PF - mu (use - budget), so that value bounds every plan's PF.
    multiplier = demand.multiplier(deep)
    bound = perceived_freshness(mirror, low) + multiplier * (budget - use_low)
    return frequency, multiplier, pf, max(0.0, bound - pf)
