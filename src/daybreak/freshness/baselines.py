"""Simple rules that spend the same bandwidth: what people do without a planner."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.mirror import Floats, Mirror, bandwidth_of


def uniform(mirror: Mirror, bandwidth: float) -> Floats:
    """Every object equally often."""
    return scaled(mirror, np.ones(len(mirror)), bandwidth)


def proportional_to_change(mirror: Mirror, bandwidth: float) -> Floats:
    """As often as it changes; known to be worse than uniform for plain freshness [CGM00b]."""
    return scaled(mirror, mirror.change_rate, bandwidth)


def proportional_to_access(mirror: Mirror, bandwidth: float) -> Floats:
    """As often as it is read."""
    return scaled(mirror, mirror.access, bandwidth)


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """A crawler's rule: after a visit the interval grows if nothing changed, else it shrinks."""

    grow: float
    shrink: float
    least_s: float
    most_s: float

    @property
    def change_share(self) -> float:
        """The share of visits that find a change where the interval neither grows nor shrinks
        in the mean of its logarithm.
        """
        up, down = math.log1p(self.grow), -math.log1p(-self.shrink)
        return up / (up + down)

    def settled_interval_s(self, change_rate_per_s: Floats) -> Floats:
        """Where the rule comes to rest: 1 - exp(-lambda I) = change_share, within its limits."""
        with np.errstate(divide="ignore"):
            interval = -math.log1p(-self.change_share) / change_rate_per_s
        return np.clip(interval, self.least_s, self.most_s)


#: Apache Nutch's AdaptiveFetchSchedule and StormCrawler's AdaptiveScheduler, shipped settings.
NUTCH = IntervalRule(grow=0.4, shrink=0.2, least_s=60, most_s=365 * 86_400)
STORMCRAWLER = IntervalRule(grow=0.5, shrink=0.5, least_s=3600, most_s=14 * 86_400)


def by_interval_rule(
    mirror: Mirror, bandwidth: float, rule: IntervalRule, period_s: float = 86_400
) -> Floats:
    """The rule's settled frequencies, all scaled by one factor to the bandwidth."""
    interval_s = rule.settled_interval_s(mirror.change_rate / period_s)
    return scaled(mirror, period_s / interval_s, bandwidth)


def scaled(mirror: Mirror, frequency: Floats, bandwidth: float) -> Floats:
    """The same proportions at exactly this bandwidth; all zero stays all zero."""
    spent = bandwidth_of(mirror, frequency)
    return frequency * (bandwidth / spent) if spent > 0 else frequency
