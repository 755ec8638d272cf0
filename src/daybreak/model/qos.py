"""Latency QoS graphs: how much a result is worth, given how late it is.

A graph is piecewise linear, starts at utility 1 for latency 0, never rises, and stays at its
last value for ever after (aurora-thesis 3.4.1 and 4.2.2). Its *critical points* are the
latencies from which it begins to drop; the first of them is the deadline.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError

NS_PER_S = 1_000_000_000
#: A graph has at most so many points. Plans look at each of them for every query and period: a
#: hundred windowed queries with a hundred points each take 50 ms of every second's planning, twice
#: as many points twice that; half as many would still tell a hundredth of utility apart.
MOST_POINTS = 100
Floats = NDArray[np.float64]


class Stretch(NamedTuple):
    """One straight piece of a graph: latencies above the last piece's end, up to its own."""

    end_ns: float
    loss_per_ns: float
    #: The first critical point not before its end; infinite when all are past.
    critical_ns: float


@dataclass(frozen=True, slots=True)
class QoSGraph:
    """Points of (latency in seconds, utility), checked on construction.

    A latency at which two pieces meet belongs to the first of them, and a critical point is
    ahead only while there is time to spare (section 4.5: a box without slack is late).
    """

    points: tuple[tuple[float, float], ...]
    #: Latencies (ns) from which the utility begins to drop.
    critical_ns: tuple[int, ...] = field(init=False)
    #: The graph from latency 0 on, piece by piece; the last piece has no end.
    stretches: tuple[Stretch, ...] = field(init=False, repr=False)
    _latency_ns: tuple[int, ...] = field(init=False, repr=False)
    _ends_ns: tuple[float, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check(self.points)
        latency_ns = tuple(round(latency * NS_PER_S) for latency, _ in self.points)
        losses = [
            (y0 - y1) / (x1 - x0)
            for (x0, x1), (y0, y1) in zip(
                pairwise(latency_ns), pairwise([y for _, y in self.points]), strict=True
            )
        ]
        losses.append(0.0)
        critical = [
            latency_ns[i] for i, loss in enumerate(losses) if loss > (losses[i - 1] if i else 0.0)
        ]
        ends = (*latency_ns[1:], math.inf)
        stretches = [
            Stretch(end, loss, next((c for c in critical if c >= end), math.inf))
            for end, loss in zip(ends, losses, strict=True)
        ]
        object.__setattr__(self, "_latency_ns", latency_ns)
        object.__setattr__(self, "_ends_ns", ends)
        object.__setattr__(self, "stretches", tuple(stretches))
        object.__setattr__(self, "critical_ns", tuple(critical))

    @classmethod
    def deadline(cls, deadline_s: float, zero_s: float | None = None) -> QoSGraph:
        """Full utility until ``deadline_s``, nothing from ``zero_s`` on (default: twice that)."""
        end = zero_s if zero_s is not None else 2 * deadline_s
        return cls(((0.0, 1.0), (deadline_s, 1.0), (end, 0.0)))

    @property
    def deadline_ns(self) -> int | None:
        """The first critical point, or None for a graph that never drops."""
        return self.critical_ns[0] if self.critical_ns else None

    @property
    def knots_ns(self) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Latencies and utilities of its points."""
        return self._latency_ns, tuple(y for _, y in self.points)

    def utility(self, latency_ns: NDArray[np.int64] | Sequence[int]) -> Floats:
        """The worth of results that are this late."""
        worth: Floats = np.interp(latency_ns, *self.knots_ns)
        return worth

    def worth(self, latency_ns: float) -> float:
        """The same for one result."""
        at = bisect_left(self._ends_ns, latency_ns)
        loss = self.stretches[at].loss_per_ns * (latency_ns - self._latency_ns[at])
        return self.points[at][1] - max(0.0, loss)

    def area(self, latency_ns: Floats) -> Floats:
        """The exact integral (ns) of the graph from latency 0 to each of these; 1 before 0.

        ``(area(b) - area(a)) / (b - a)`` is the mean worth of results spread over [a, b].
        """
        knots, worth, loss, before = _pieces(self)
        late = np.maximum(latency_ns, 0.0)
        at = np.searchsorted(knots, late, side="right") - 1
        into = late - knots[at]
        total: Floats = before[at] + into * (worth[at] - loss[at] * into / 2)
        return total + np.minimum(latency_ns, 0.0)

    def mean_of_steps(self, first_ns: Floats, step_ns: Floats, count: Floats) -> Floats:
        """The mean worth of ``count`` results that are late by first, first + step, ... each.

        Exact up to rounding, in a time that depends on the points of the graph alone: on each
        piece the results are evenly spaced, so their mean is the worth halfway.
        """
        knots, worth, loss, _ = _pieces(self)
        each = np.broadcast_arrays(first_ns, step_ns, count)
        first, step, many = (array[..., None] for array in each)
        # How many results are late by less than each piece's end: those before the next one.
        inside = np.clip(np.ceil((knots[1:] - first) / step), 0.0, many)
        inside = np.concatenate([np.zeros_like(many), inside, many], axis=-1)
        begin, end = inside[..., :-1], inside[..., 1:]
        halfway = first + (begin + end - 1) / 2 * step - knots
        mean = np.clip(worth - loss * halfway, np.append(worth[1:], worth[-1]), worth)
        total: Floats = ((end - begin) * mean).sum(axis=-1)
        return total / count

    def slope_slack(self, latency_ns: float) -> tuple[float, float]:
        """Utility lost per ns of further delay (eq. 4.1), and ns to the next critical point."""
        at = bisect_left(self._ends_ns, latency_ns)
        _, loss, critical = self.stretches[at]
        if critical <= latency_ns:
            critical = self.stretches[at + 1].critical_ns
        return loss, critical - latency_ns


@lru_cache(maxsize=1024)
def _pieces(graph: QoSGraph) -> tuple[Floats, Floats, Floats, Floats]:
    """Where a graph's pieces begin, their worth and loss there, and the area before them."""
    latency_ns, utility = graph.knots_ns
    knots, worth = np.array(latency_ns, dtype=np.float64), np.array(utility)
    loss = np.array([s.loss_per_ns for s in graph.stretches])
    areas = np.diff(knots) * (worth[:-1] + worth[1:]) / 2
    return knots, worth, loss, np.concatenate([[0.0], np.cumsum(areas)])


def _check(points: tuple[tuple[float, float], ...]) -> None:
    def refuse(finding: str, remedy: str) -> ConfigError:
        return ConfigError("qos graph", finding, remedy)

    if not points:
        raise refuse("no points", "give at least [[0, 1.0]]")
    if len(points) > MOST_POINTS:
        remedy = f"give at most {MOST_POINTS}: between two of them it is a straight line"
        raise refuse(f"{len(points)} points", remedy)
    for latency, utility in points:
        if not (math.isfinite(latency) and 0 <= latency <= 1e9):
            raise refuse(f"latency {latency} s", "latencies are finite seconds from 0 to 1e9")
        if not 0 <= utility <= 1:
            raise refuse(f"utility {utility}", "utilities lie between 0 and 1")
    if points[0] != (0.0, 1.0):
        raise refuse(f"starts at {list(points[0])}", "a graph is normalised: it starts at [0, 1.0]")
    for (x0, y0), (x1, y1) in pairwise(points):
        if round(x1 * NS_PER_S) <= round(x0 * NS_PER_S):
            raise refuse(f"latency {x1} after {x0}", "latencies must increase")
        if y1 > y0:
            raise refuse(
                f"rises from {y0} to {y1} between {x0} s and {x1} s",
                "a later result is never worth more: let utilities fall or stay",
            )
