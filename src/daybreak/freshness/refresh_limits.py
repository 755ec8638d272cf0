"""What a plan must respect besides its bandwidth: floors, caps, groups, least freshness, age.

Section 6.2.1 asks for a least freshness per object and for ages that are exceeded with a small
probability only; both come down to a floor under the object's refresh frequency.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from daybreak.freshness.mirror import Floats, Ints, Mirror
from daybreak.freshness.stationarity import staleness_for_freshness
from daybreak.model.errors import ConfigError

#: Rounding that floors may add up to before a budget counts as too small.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class RefreshLimits:
    """Bounds on frequencies; what is left out does not bind."""

    #: Refreshes per period that each object gets at least, and at most.
    floor: Floats | None = None
    cap: Floats | None = None
    #: The group of each object, counted from 0, and the bandwidth each group may use.
    group: Ints | None = None
    group_cap: Floats | None = None
    #: For messages only; left out, groups go by their numbers.
    group_names: tuple[str, ...] = ()

    def checked(self, mirror: Mirror, bandwidth: float) -> RefreshLimits:
        """The same, or ConfigError if no plan within ``bandwidth`` can respect them."""
        n = len(mirror)
        floor = _per_object(self.floor, "floor", n)
        cap = _per_object(self.cap, "cap", n)
        if floor is not None and cap is not None and (floor > cap).any():
            row = int(np.argmax(floor > cap))
            raise ConfigError(
                "limits",
                f"object {row} has floor {floor[row]:g} above cap {cap[row]:g}",
                "correct it",
            )
        if floor is not None:
            needed = float(mirror.size @ floor)
            if needed > bandwidth * (1 + _ROUNDING):
                raise ConfigError(
                    "limits",
                    f"the floors need {needed:.6g} of bandwidth and {bandwidth:.6g} is given",
                    f"give at least {needed:.6g}, or lower the floors",
                )
        group, group_cap = self._groups(n)
        if group is not None and group_cap is not None and floor is not None:
            needs = np.bincount(group, weights=mirror.size * floor, minlength=len(group_cap))
            short = needs > group_cap * (1 + _ROUNDING)
            if short.any():
                which = int(np.argmax(short))
                name = self.group_names[which] if self.group_names else str(which)
                raise ConfigError(
                    "limits",
                    f"the floors of group {name} need {needs[which]:.6g} of bandwidth and its cap "
                    f"is {group_cap[which]:.6g}",
                    f"give the group at least {needs[which]:.6g}, or lower the floors",
                )
        return RefreshLimits(floor, cap, group, group_cap, self.group_names)

    def _groups(self, n: int) -> tuple[Ints | None, Floats | None]:
        if (self.group is None) != (self.group_cap is None):
            raise ConfigError("limits", "group and group_cap go together", "give both or none")
        if self.group is None or self.group_cap is None:
            return None, None
        caps = np.asarray(self.group_cap, dtype=np.float64)
        group = np.asarray(self.group, dtype=np.int64)
        if len(group) != n or (group < 0).any() or (group >= len(caps)).any():
            raise ConfigError(
                "limits", "group must name a group for each object", f"use 0 to {len(caps) - 1}"
            )
        if np.isnan(caps).any() or (caps < 0).any():
            raise ConfigError("limits", "a group's cap is below 0", "give 0 or more")
        return group, caps


def floor_for_freshness(mirror: Mirror, target: ArrayLike) -> Floats:
    """The least frequencies that keep each object ``target`` fresh on average (6.2.1)."""
    targets = np.broadcast_to(np.asarray(target, dtype=np.float64), len(mirror))
    if not ((targets >= 0) & (targets < 1)).all():
        raise ConfigError("least freshness", "outside [0, 1)", "nothing can always be fresh")
    values, which = np.unique(targets, return_inverse=True)
    stale = np.array([staleness_for_freshness(float(v)) for v in values])
    floor: Floats = mirror.change_rate / stale[which]
    return floor


def floor_for_age(mirror: Mirror, age: float, probability: float) -> Floats:
    """The least frequencies at which a copy is older than ``age`` with at most ``probability``.

    The age of a copy is the time since its first change that the mirror has not seen. At a
    random moment of a refresh interval I it exceeds a with probability
    (u - 1 + exp(-u))/(lambda I), u = lambda (I - a): 0 while I <= a, rising with I.
    """
    if not (age > 0 and 0 <= probability < 1):
        raise ConfigError(
            "age limit",
            f"age {age:g} with probability {probability:g}",
            "give an age above 0 and a probability in [0, 1)",
        )
    changing = mirror.change_rate > 0
    rates = mirror.change_rate[changing]
    lows, highs = np.full(len(rates), age), np.full(len(rates), 2 * age)
    while (fits := _older(highs, age, rates) <= probability).any():
        highs = np.where(fits, highs * 2, highs)
    for _ in range(80):
        middle = (lows + highs) / 2
        fits = _older(middle, age, rates) <= probability
        lows, highs = np.where(fits, middle, lows), np.where(fits, highs, middle)
    floor = np.zeros(len(mirror))
    floor[changing] = 1 / lows
    return floor


def _older(interval: Floats, age: float, rate: Floats) -> Floats:
    u = rate * np.maximum(interval - age, 0)
    excess: Floats = u + np.expm1(-u)
    return excess / (rate * interval)


def _per_object(values: Floats | None, name: str, n: int) -> Floats | None:
    if values is None:
        return None
    column = np.broadcast_to(np.asarray(values, dtype=np.float64), n)
    if np.isnan(column).any() or (column < 0).any() or (name == "floor" and np.isinf(column).any()):
        raise ConfigError("limits", f"a {name} is not a frequency", "give 0 or more per period")
    return np.ascontiguousarray(column)
