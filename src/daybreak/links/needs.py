"""How much bandwidth a class needs: the text's measure of a scheduler (section 4.1).

Delivered tuples are counted against the expected minimum, rate x duration x m/n, or against
the actual arrivals. The curve is the mean over the seeds; the need of a class is the curve's
last upward crossing of 100 %: from there on, more bandwidth keeps the class met.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daybreak.links.link_simulator import counts
from daybreak.links.scenario import LinkScenario, simulate

Floats = NDArray[np.float64]
Against = Literal["expected", "actual"]

#: Points of the first scan, and parts of the range to which a crossing is pinned down.
SCAN_POINTS = 20
PARTS = 1000
#: The first scan runs these many seeds only; all of them confirm what it found.
SCOUTS = 4
#: The standard error comes from redrawing the seeds, on the curve this far around the need.
BOOTSTRAP_DRAWS = 200
BOOTSTRAP_OFFSETS = (-0.04, -0.02, 0.02, 0.04)


@dataclass(frozen=True, slots=True)
class Need:
    """A bandwidth and its standard error over the seeds; NaN if no bandwidth was enough."""

    bytes_per_s: float
    standard_error: float

    @property
    def kb_per_s(self) -> float:
        """As the text prints it: one K is 1000 bytes."""
        return self.bytes_per_s / 1000


def met_percent(scenario: LinkScenario, seed: int, against: Against = "expected") -> list[float]:
    """What each class got, as a percentage of its minimum."""
    log = simulate(scenario, seed)
    if against == "actual":
        return [
            100 * c.share / cls.minimum
            for c, cls in zip(counts(log, scenario.classes), scenario.classes, strict=True)
        ]
    delivered = [0] * len(scenario.classes)
    for item in log.sent:
        delivered[item.cls] += 1
    return [
        100 * got / ((cls.rate_per_s or math.nan) * scenario.duration_s * cls.minimum)
        for got, cls in zip(delivered, scenario.classes, strict=True)
    ]


class Search:
    """Needs of one scenario over fixed seeds; nothing is simulated twice."""

    def __init__(
        self, scenario: LinkScenario, seeds: Sequence[int], against: Against = "expected"
    ) -> None:
        self._scenario = scenario
        self._seeds = seeds
        self._against: Against = against
        self._known: dict[tuple[float, int], list[float]] = {}

    def percent(self, bandwidth_bytes_per_s: float, seeds: int | None = None) -> Floats:
        """One row per seed (or of the first ``seeds``), one column per class."""
        rows = []
        for seed in self._seeds[:seeds]:
            key = (bandwidth_bytes_per_s, seed)
            if key not in self._known:
                scenario = self._scenario.at(bandwidth_bytes_per_s)
                self._known[key] = met_percent(scenario, seed, self._against)
            rows.append(self._known[key])
        return np.array(rows)

    def needs(self, low_bytes_per_s: float, high_bytes_per_s: float) -> list[Need]:
        """The need of every class; the low end where even that is enough."""
        return [
            self._need(cls, low_bytes_per_s, high_bytes_per_s)
            for cls in range(len(self._scenario.classes))
        ]

    def _excess(self, cls: int, bandwidth: float, seeds: int | None = None) -> float:
        return float(self.percent(bandwidth, seeds)[:, cls].mean()) - 100

    def _need(self, cls: int, low: float, high: float) -> Need:
        if self._excess(cls, high) < 0:
            return Need(math.nan, math.nan)
        step = (high - low) / SCAN_POINTS
        below = high - step
        while below > low and self._excess(cls, below, SCOUTS) >= 0:
            below -= step
        below = max(low, below)
        above = min(high, below + step)
        while self._excess(cls, above) < 0:
            above = min(high, above + step)
        while self._excess(cls, below) >= 0:
            if below == low:
                return Need(low, 0.0)
            above, below = below, max(low, below - step)
        return self._crossing(cls, *self._narrowed(cls, below, above, (high - low) / PARTS))

    def _narrowed(
        self, cls: int, below: float, above: float, precision: float
    ) -> tuple[float, float]:
        """A bracket within the precision: interpolation, and bisection where that creeps."""
        tries = 0
        while above - below > precision:
            tries += 1
            under, over = self._excess(cls, below), self._excess(cls, above)
            guess = below - under * (above - below) / (over - under)
            # Aim a little past the crossing, on the far side, so that the bracket closes.
            guess += 0.4 * precision * (1 if above - guess > guess - below else -1)
            if tries % 3 == 0 or not below < guess < above:
                guess = (below + above) / 2
            if self._excess(cls, guess) >= 0:
                above = guess
            else:
                below = guess
        return below, above

    def _crossing(self, cls: int, below: float, above: float) -> Need:
        """Interpolates between the two, and resamples the seeds for the standard error."""
        under, over = self._excess(cls, below), self._excess(cls, above)
        at = below - under * (above - below) / (over - under)
        around = [at * (1 + offset) for offset in BOOTSTRAP_OFFSETS]
        points = np.array(sorted({below, above, *around}))
        curves = np.array([self.percent(point)[:, cls] for point in points])
        return Need(at, _bootstrap_error(points, curves))


def _bootstrap_error(points: Floats, curves: Floats) -> float:
    """Standard deviation of the mean curve's last crossing when the seeds are redrawn."""
    seeds = curves.shape[1]
    if seeds < 2:
        return math.nan
    chosen = np.random.default_rng(0).integers(seeds, size=(BOOTSTRAP_DRAWS, seeds))
    crossings = [_last_crossing(points, curves[:, draw].mean(axis=1) - 100) for draw in chosen]
    return float(np.std(crossings, ddof=1))


def _last_crossing(points: Floats, excess: Floats) -> float:
    """Within the points; the nearest end where there is none."""
    short = np.flatnonzero(excess < 0)
    if not len(short):
        return float(points[0])
    last = int(short[-1])
    if last == len(points) - 1:
        return float(points[-1])
    under, over = excess[last], excess[last + 1]
    return float(points[last] - under * (points[last + 1] - points[last]) / (over - under))


def needs(
    scenario: LinkScenario,
    seeds: Sequence[int],
    *,
    against: Against = "expected",
    low_bytes_per_s: float = 600.0,
    high_bytes_per_s: float = 4600.0,
) -> list[Need]:
    """The bandwidth every class needs, best class first."""
    return Search(scenario, seeds, against).needs(low_bytes_per_s, high_bytes_per_s)


def need_of_all(found: Sequence[Need]) -> Need:
    """What meets every class: the largest of their needs."""
    if any(math.isnan(need.bytes_per_s) for need in found):
        return Need(math.nan, math.nan)
    return max(found, key=lambda need: need.bytes_per_s)
