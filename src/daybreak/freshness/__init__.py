"""Refresh planning for mirrors (aurora-thesis, chapter 2 and section 6.2)."""

from daybreak.freshness.mirror import Mirror, bandwidth_of, freshness, perceived_freshness
from daybreak.freshness.refresh_limits import RefreshLimits, floor_for_age, floor_for_freshness
from daybreak.freshness.refresh_planner import RefreshPlan, condensed, curve, plan

__all__ = [
    "Mirror",
    "RefreshLimits",
    "RefreshPlan",
    "bandwidth_of",
    "condensed",
    "curve",
    "floor_for_age",
    "floor_for_freshness",
    "freshness",
    "perceived_freshness",
    "plan",
]
