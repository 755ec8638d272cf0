"""Latency QoS graphs: how much a result is worth, given how late it is.

A graph is piecewise linear, starts at utility 1 for latency 0, never rises, and stays at its
last value for ever after (aurora-thesis 3.4.1 and 4.2.2). Its *critical points* are the
latencies from which it begins to drop; the first of them is the deadline.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from daybreak.model.errors import ConfigError

NS_PER_S = 1_000_000_000
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class QoSGraph:
    """Points of (latency in seconds, utility), checked on construction."""

    points: tuple[tuple[float, float], ...]
    #: Latencies (ns) from which the utility begins to drop.
    critical_ns: tuple[int, ...] = field(init=False)
    _latency_ns: tuple[int, ...] = field(init=False, repr=False)
    #: Utility lost per ns on the segment that begins at each point; 0 after the last.
    _loss_per_ns: tuple[float, ...] = field(init=False, repr=False)

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
        object.__setattr__(self, "_latency_ns", latency_ns)
        object.__setattr__(self, "_loss_per_ns", tuple(losses))
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

    def utility(self, latency_ns: NDArray[np.int64] | Sequence[int]) -> Floats:
        """The worth of results that are this late."""
        worth: Floats = np.interp(latency_ns, self._latency_ns, [y for _, y in self.points])
        return worth

    def worth(self, latency_ns: float) -> float:
        """The same for one result."""
        i = bisect_right(self._latency_ns, latency_ns) - 1
        if i < 0:
            return 1.0
        return self.points[i][1] - self._loss_per_ns[i] * (latency_ns - self._latency_ns[i])

    def gradient(self, latency_ns: float) -> float:
        """Utility lost per ns of further delay at this latency (eq. 4.1, positive)."""
        segment = bisect_right(self._latency_ns, latency_ns) - 1
        return self._loss_per_ns[segment] if segment >= 0 else 0.0

    def slack_ns(self, latency_ns: float) -> float:
        """Distance to the nearest critical point still ahead; infinite when all are past."""
        ahead = bisect_left(self.critical_ns, latency_ns)
        return self.critical_ns[ahead] - latency_ns if ahead < len(self.critical_ns) else math.inf


def _check(points: tuple[tuple[float, float], ...]) -> None:
    def refuse(finding: str, remedy: str) -> ConfigError:
        return ConfigError("qos graph", finding, remedy)

    if not points:
        raise refuse("no points", "give at least [[0, 1.0]]")
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
