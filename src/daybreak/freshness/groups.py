"""Caps per group of elements, such as what one host may be asked for.

A group that may use C_g never gets more than in its own best plan for C_g, whatever the others
get: its multiplier is the larger of mu and that plan's. So those plans' frequencies are caps per
element, and the groups need no search nested in the search for mu. All groups are solved at
once, by bisection of their depths.
"""

from __future__ import annotations

import numpy as np

from daybreak.freshness.mirror import CHUNK, Floats, Ints, Mirror, perceived_freshness
from daybreak.freshness.multiplier import NEVER, Bounds, RefreshDemand, loads_and_prices
from daybreak.freshness.refresh_limits import RefreshLimits
from daybreak.freshness.stationarity import solve_staleness

#: Halvings of the logarithm of the depth: from 1e-100 to 1e12 down to its last digits.
_HALVINGS = 62


def group_ceilings(mirror: Mirror, limits: RefreshLimits) -> tuple[Floats, float]:
    """Group caps as caps per element, and the duality gap of the groups' own plans."""
    assert limits.group is not None
    assert limits.group_cap is not None
    group, caps = limits.group, limits.group_cap
    cap = np.full(len(mirror), np.inf) if limits.cap is None else limits.cap.copy()
    least, most = RefreshDemand(mirror, Bounds(limits.floor, limits.cap)).extremes()
    needs = np.bincount(group, mirror.size * least, len(caps))
    wants = np.bincount(group, mirror.size * most, len(caps))
    closed = caps <= needs * (1 + 1e-14)
    cap[closed[group]] = least[closed[group]]
    binding = (wants > caps) & ~closed
    if not binding.any():
        return cap, 0.0
    members = np.flatnonzero(binding[group])
    label = (np.cumsum(binding) - 1)[group[members]]
    part = Mirror(mirror.change_rate[members], mirror.access[members], mirror.size[members])
    bounds = Bounds(
        None if limits.floor is None else limits.floor[members],
        None if limits.cap is None else limits.cap[members],
    )
    frequency, gap = _GroupPlans(part, bounds, label, caps[binding]).solve()
    cap[members] = frequency
    return cap, gap


class _GroupPlans:
    """One independent plan per group, each using its budget exactly."""

    def __init__(self, mirror: Mirror, bounds: Bounds, group: Ints, budget: Floats) -> None:
        self.mirror, self.bounds, self.group, self.budget = mirror, bounds, group, budget
        self.load, self.price = loads_and_prices(mirror)
        self.least = np.full(len(budget), NEVER)
        np.minimum.at(self.least, group, self.price)

    def solve(self) -> tuple[Floats, float]:
        shallow = np.full(len(self.budget), 1e-100)
        deep = np.full(len(self.budget), 1e12)
        for _ in range(_HALVINGS):
            depth = np.sqrt(shallow) * np.sqrt(deep)
            over = self._use(self._frequencies(depth)) >= self.budget
            shallow, deep = np.where(over, depth, shallow), np.where(over, deep, depth)
        low, high = self._frequencies(deep), self._frequencies(shallow)
        use_low, use_high = self._use(low), self._use(high)
        width = np.where(use_high > use_low, use_high - use_low, 1.0)
        share = np.clip((self.budget - use_low) / width, 0.0, 1.0)
        frequency: Floats = low + share[self.group] * (high - low)
        # As in the planner: ``low`` maximises the Lagrangian at its multipliers.
        multiplier = -np.expm1(-deep) / self.least
        bound = perceived_freshness(self.mirror, low) + float(multiplier @ (self.budget - use_low))
        return frequency, max(0.0, bound - perceived_freshness(self.mirror, frequency))

    def _frequencies(self, depth: Floats) -> Floats:
        mu, out = -np.expm1(-depth) / self.least, np.empty_like(self.load)
        with np.errstate(all="ignore"):
            for start in range(0, len(out), CHUNK):
                part = slice(start, start + CHUNK)
                group, price = self.group[part], self.price[part]
                reached = -np.log1p(-np.minimum(mu[group] * price, 1.0))
                reached = np.where(price == self.least[group], depth[group], reached)
                out[part] = self.load[part] / (solve_staleness(reached) * self.mirror.size[part])
        return self.bounds.clip(out)

    def _use(self, frequency: Floats) -> Floats:
        use: Floats = np.bincount(
            self.group, self.mirror.size * frequency, len(self.budget)
        ).astype(np.float64)
        return use
