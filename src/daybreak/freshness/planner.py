"""The exact planner: the best refresh frequencies for any number of objects, with a certificate.

Maximises PF (eq. 2.1) subject to sum s_i f_i <= B (eq. 2.4), floors and caps per element and
caps per group of elements. Section 2.3 holds this to be infeasible beyond about a thousand
objects; as every frequency follows from one multiplier, it is a search in one dimension.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.limits import Limits
from daybreak.freshness.mirror import Floats, Mirror, bandwidth_of, perceived_freshness
from daybreak.freshness.multiplier import Bounds, Demand, clipped, search, start_depth
from daybreak.model.errors import ConfigError, EngineBug


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
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
    mirror: Mirror, bandwidth: float, limits: Limits | None = None, start: float | None = None
) -> Plan:
    """The best plan within ``bandwidth`` and ``limits``.

    ``start`` is the multiplier of an earlier plan for a similar mirror; it only saves time.
    Raises ConfigError, with the smallest feasible bandwidth, if the floors cannot be paid.
    """
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ConfigError("bandwidth", f"is {bandwidth}", "give a number above 0")
    checked = (limits or Limits()).checked(mirror, bandwidth)
    cap, group_gap = checked.cap, 0.0
    if checked.group is not None:
        cap, group_gap = _group_ceilings(mirror, checked)
    bounds = Bounds(checked.floor, cap)
    demand = Demand(mirror, bounds)
    least, most = _extremes(demand)
    floor_use = bandwidth_of(mirror, least)
    multiplier, gap = 0.0, 0.0
    if bandwidth_of(mirror, most) <= bandwidth:
        frequency = most
    elif floor_use >= bandwidth * (1 - 1e-14):
        frequency, multiplier = least, float(1 / demand.anchor[0])
    else:
        guess = start_depth(mirror, demand, bandwidth - floor_use)
        begin = guess if start is None or start <= 0 else demand.depth(np.array([start]))
        frequency, deep, gap = _spend(mirror, demand, np.array([bandwidth]), begin)
        multiplier = float(deep[0])
    spent = bandwidth_of(mirror, frequency)
    if spent > bandwidth * (1 + 1e-9):
        raise EngineBug(f"a plan for {bandwidth!r} of bandwidth spends {spent!r}")
    return Plan(
        frequency=frequency,
        perceived_freshness=perceived_freshness(mirror, frequency),
        multiplier=multiplier,
        gap=gap + group_gap,
        bandwidth=bandwidth,
        spent=spent,
        passes=demand.passes,
    )


def curve(mirror: Mirror, bandwidths: Iterable[float]) -> list[Plan]:
    """PF over bandwidth (figure 6.1): one plan each, warm-started from its neighbour."""
    plans: list[Plan] = []
    for bandwidth in bandwidths:
        plans.append(plan(mirror, bandwidth, start=plans[-1].multiplier if plans else None))
    return plans


def _extremes(demand: Demand) -> tuple[Floats, Floats]:
    """The frequencies at mu = infinity and at mu = 0."""
    least = clipped(np.zeros_like(demand.load), demand.bounds)
    most = clipped(np.where(demand.load > 0, np.inf, 0.0), demand.bounds)
    return least, most


def _spend(
    mirror: Mirror, demand: Demand, budget: Floats, start: Floats
) -> tuple[Floats, Floats, float]:
    """Frequencies that use each group's budget exactly, the multipliers, and the duality gap.

    Between the bracket's ends the plan is their convex combination. Rescaling one end instead
    loses up to a third of PF where a kink of the demand lies inside the bracket.
    """
    found = search(demand, budget, start)
    deep, shallow = demand.frequencies(found.deep), demand.frequencies(found.shallow)
    use_deep, use_shallow = demand.use(deep), demand.use(shallow)
    width = use_shallow - use_deep
    share = np.where(width > 0, (budget - use_deep) / np.where(width > 0, width, 1.0), 0.0)
    group = demand.bounds.group
    frequency = deep + (share if group is None else share[group]) * (shallow - deep)
    # Lagrange: ``deep`` maximises PF - mu (use - budget), so that value bounds every plan's PF.
    multiplier = demand.multiplier(found.deep)
    bound = perceived_freshness(mirror, deep) + float(multiplier @ (budget - use_deep))
    gap = max(0.0, bound - perceived_freshness(mirror, frequency))
    return frequency, multiplier, gap


def _group_ceilings(mirror: Mirror, limits: Limits) -> tuple[Floats, float]:
    """Group caps as caps per element, and the gap of the groups' own plans.

    A group that may use C_g never gets more than in its own best plan for C_g, whatever the
    others get: its multiplier is the larger of mu and that plan's. So those frequencies are
    caps, and the groups need no search nested in the search for mu.
    """
    assert limits.group is not None
    assert limits.group_cap is not None
    cap = np.full(len(mirror), np.inf) if limits.cap is None else limits.cap.copy()
    least, most = _extremes(Demand(mirror, Bounds(limits.floor, limits.cap)))
    groups = len(limits.group_cap)
    needs = np.bincount(limits.group, weights=mirror.size * least, minlength=groups)
    wants = np.bincount(limits.group, weights=mirror.size * most, minlength=groups)
    closed = limits.group_cap <= needs * (1 + 1e-14)
    cap[closed[limits.group]] = least[closed[limits.group]]
    bound = (wants > limits.group_cap) & ~closed
    if not bound.any():
        return cap, 0.0
    members = np.flatnonzero(bound[limits.group])
    label = np.cumsum(bound) - 1
    part = Mirror(mirror.change_rate[members], mirror.access[members], mirror.size[members])
    bounds = Bounds(
        None if limits.floor is None else limits.floor[members],
        None if limits.cap is None else limits.cap[members],
        label[limits.group[members]],
        int(bound.sum()),
    )
    demand = Demand(part, bounds)
    start = np.ones(bounds.groups)
    frequency, _multiplier, gap = _spend(part, demand, limits.group_cap[bound], start)
    cap[members] = frequency
    return cap, gap
