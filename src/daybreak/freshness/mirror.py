"""A mirror of N objects: how often each changes, how often it is read, and how large it is.

The text's symbols (aurora-thesis, sections 2.2 and 2.5): ``change_rate`` is lambda_i, ``access``
is p_i and ``size`` is s_i. Rates and frequencies count events per period; what a period is
belongs to the user.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daybreak.model.errors import ConfigError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Objects per chunk of a pass: the temporaries of one chunk stay in the processor's cache.
CHUNK = 16_384


@dataclass(frozen=True, slots=True, eq=False)
class Mirror:
    """The planner's input, validated; ``access`` sums to 1. Made by `Mirror.of`."""

    change_rate: Floats
    access: Floats
    size: Floats

    @classmethod
    def of(
        cls,
        change_rate: ArrayLike,
        access: ArrayLike | None = None,
        size: ArrayLike | None = None,
        place: str = "mirror",
    ) -> Mirror:
        """Checks the columns; ``access`` may be any weights (left out: uniform), sizes 1."""
        rates = _column(change_rate, "change_rate", place)
        n = len(rates)
        if n == 0:
            raise ConfigError(place, "no objects", "give at least one row")
        weights = np.ones(n) if access is None else _column(access, "access", place)
        sizes = np.ones(n) if size is None else _column(size, "size", place)
        for name, column in (("access", weights), ("size", sizes)):
            if len(column) != n:
                raise ConfigError(
                    place, f"{name} has {len(column)} values for {n} objects", "give one each"
                )
        _refuse(rates < 0, rates, "change_rate", "give 0 or more changes per period", place)
        _refuse(weights < 0, weights, "access", "give 0 or more accesses", place)
        _refuse(sizes <= 0, sizes, "size", "give a size above 0", place)
        total = float(weights.sum())
        if not 0 < total < np.inf:
            raise ConfigError(place, f"access sums to {total:g}", "some object must be accessed")
        # Adding 0 turns -0.0 into 0.0: a rate of -0.0 would mean an interval of minus infinity.
        return cls(rates + 0.0, weights / total, sizes)

    def __len__(self) -> int:
        return len(self.change_rate)

    def with_access(self, access: ArrayLike | None) -> Mirror:
        """The same objects under another profile; None is uniform (general freshness, GF)."""
        return Mirror.of(self.change_rate, access, self.size)


def freshness(frequency: ArrayLike, change_rate: ArrayLike) -> Floats:
    """Time-averaged freshness of one object under the fixed-order policy.

    (f/lambda)(1 - exp(-lambda/f)); 1 for what never changes, 0 for what is never refreshed.
    """
    f, rate = np.asarray(frequency, np.float64), np.asarray(change_rate, np.float64)
    with np.errstate(all="ignore"):
        x = rate / f
        fresh: Floats = -np.expm1(-x) / x
    # 0/0 in ``fresh``: never changes, or refreshed so often that lambda/f underflows.
    return np.where((rate == 0) | (x == 0), 1.0, fresh)


def perceived_freshness(mirror: Mirror, frequency: ArrayLike) -> float:
    """PF of eq. 2.1: the share of accesses that see an up-to-date copy."""
    values = np.asarray(frequency, dtype=np.float64)
    total = 0.0
    for start in range(0, len(mirror), CHUNK):
        part = slice(start, start + CHUNK)
        total += float(mirror.access[part] @ freshness(values[part], mirror.change_rate[part]))
    return total


def bandwidth_of(mirror: Mirror, frequency: Floats) -> float:
    """What a plan costs per period (left side of eq. 2.4)."""
    return float(mirror.size @ frequency)


def _column(values: ArrayLike, name: str, place: str) -> Floats:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(place, f"{name} is not numeric ({error})", "give numbers") from error
    if column.ndim != 1:
        raise ConfigError(place, f"{name} has {column.ndim} dimensions", "give one value each")
    _refuse(~np.isfinite(column), column, name, "give a finite number", place)
    return column


def _refuse(bad: Bools, column: Floats, name: str, remedy: str, place: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise ConfigError(place, f"{name} of object {row} is {column[row]}", remedy)
