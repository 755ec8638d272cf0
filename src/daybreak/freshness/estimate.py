"""Change rates from visits (section 6.2.3): each visit saw whether the object had changed.

A visit that comes a time tau after the one before finds a change with probability
1 - exp(-lambda tau), however many changes there were.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from daybreak.freshness.mirror import Bools, Floats, Ints
from daybreak.model.errors import ConfigError

_STEPS = 60


def regular_estimate(visits: ArrayLike, changes: ArrayLike, interval: ArrayLike) -> Floats:
    """Cho and Garcia-Molina's estimator for equal intervals: -log((n - X + 0.5)/(n + 0.5))/tau."""
    n, x = np.asarray(visits, np.float64), np.asarray(changes, np.float64)
    rate: Floats = np.log((n + 0.5) / (n - x + 0.5)) / np.asarray(interval, np.float64)
    return rate


@dataclass(frozen=True, slots=True)
class RatePrior:
    """What is believed of an object before its first visit: a gamma distribution's parameters.

    The estimate of a new object is ``mean``; ``weight`` counts in changes seen.
    """

    mean: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.mean < np.inf and 0 < self.weight < np.inf):
            raise ConfigError(
                "prior", f"mean {self.mean}, weight {self.weight}", "give numbers above 0"
            )

    @classmethod
    def fitted(cls, rates: Floats) -> RatePrior:
        """The gamma distribution with the mean and the variance of the rates of known objects."""
        mean, variance = float(rates.mean()), float(rates.var())
        return cls(mean, mean * mean / variance if variance > 0 else 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """One row per visit: the object, the time since its visit before, what was found."""

    item: Ints
    elapsed: Floats
    changed: Bools

    @classmethod
    def of(cls, item: ArrayLike, elapsed: ArrayLike, changed: ArrayLike) -> Visits:
        made = cls(
            np.asarray(item, np.int64),
            np.asarray(elapsed, np.float64),
            np.asarray(changed, np.bool_),
        )
        if not len(made.item) == len(made.elapsed) == len(made.changed):
            raise ConfigError("visits", "columns of different lengths", "give one value per visit")
        if (made.item < 0).any() or not (made.elapsed > 0).all():
            raise ConfigError("visits", "a visit has no object or no time before it", "drop it")
        return made


def estimate_rates(visits: Visits, objects: int, prior: RatePrior | None = None) -> Floats:
    """The maximum-likelihood change rate of each object for visits at any intervals.

    Without a prior, every object's visits count half an unchanged visit of its mean interval
    more: at equal intervals this is exactly `regular_estimate`, and it keeps an object that was
    found changed every time finite. Objects never visited then get 0. With a prior the result
    is the mode of log lambda's posterior, which is the prior's mean for a new object.
    """
    changed = visits.changed
    hits = np.bincount(visits.item[changed], minlength=objects).astype(np.float64)
    total = np.bincount(visits.item, visits.elapsed, objects)
    seen = np.bincount(visits.item, minlength=objects)
    quiet = np.bincount(visits.item[~changed], visits.elapsed[~changed], objects)
    if prior is None:
        shape, burden = np.zeros(objects), total / (2 * np.maximum(seen, 1))
    else:
        shape = np.full(objects, prior.weight)
        burden = np.full(objects, prior.weight / prior.mean)
    item, elapsed = visits.item[changed], visits.elapsed[changed]
    # The score a + sum h(lambda tau) - lambda (b + quiet time), h(z) = z/(exp(z) - 1), falls and
    # is convex; as h(z) >= 1 - z it is not negative here, so Newton climbs to its root.
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(hits + shape > 0, (hits + shape) / (total + burden), 0.0)
    for _ in range(_STEPS):
        h, slope = _hazard(rate[item] * elapsed)
        score = shape + np.bincount(item, h, objects) - rate * (burden + quiet)
        steep = np.bincount(item, slope * elapsed, objects) - burden - quiet
        step = np.where((rate > 0) & (steep < 0), -score / np.where(steep < 0, steep, -1), 0.0)
        rate = rate + np.maximum(step, 0)
        if (step <= 1e-13 * rate).all():
            break
    return rate


def _hazard(z: Floats) -> tuple[Floats, Floats]:
    """h(z) = z/(exp(z) - 1) and its derivative."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        grown = np.expm1(z)
        h = np.where(grown > 0, z / grown, 1.0)
        # h' = (1 - h exp(z))/(exp(z) - 1), which cancels for small z.
        slope = np.where(z < 1e-4, -0.5 + z / 6, (1 - h * (grown + 1)) / grown)
    return np.where(np.isinf(grown), 0.0, h), np.where(np.isinf(grown), 0.0, slope)


def exploration_floor(visited: Ints, longest: float, trusted: int) -> Floats:
    """Floors that keep learning: an object with fewer than ``trusted`` visits is visited at
    least every ``longest`` periods, whatever the plan thinks it is worth.
    """
    return np.where(visited < trusted, 1 / longest, 0.0)
