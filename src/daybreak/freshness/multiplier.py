"""Finds the multiplier mu of the core problem.

The search runs over the *depth* L = -log(1 - mu/r) of one element, the anchor, rather than over
mu. Demand is close to a power of the largest r's depth both where bandwidth abounds (mu -> 0)
and where it is so scarce that mu and r are the same floating-point number; so Newton's method
on logarithms, kept inside a bracket, takes few steps. Where an element is just about to drop
out, demand has a cusp in mu but not in that element's own depth: there the anchor moves to it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.mirror import CHUNK, Floats, Ints, Mirror
from daybreak.freshness.stationarity import solve_staleness
from daybreak.model.errors import EngineBug

#: The bracket is narrow enough when its ends' demands differ by this share of the budget ...
TOLERANCE = 1e-10
#: ... or when no plan can differ from the ends' combination by more PF than this.
NEGLIGIBLE = 1e-14
_MAX_PASSES = 300
#: Beyond this depth mu/r differs from 1 in its last digits only.
_LAST_DIGITS = 30.0
#: From here on the search starts on a histogram of r, which costs two passes and saves more.
_HISTOGRAM_FROM = 20_000
_BINS = 4096
#: The price of what must never be bought; finite, so that 0 times it is 0.
NEVER = 1e300


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Frequencies an element may take at least and at most."""

    floor: Floats | None = None
    cap: Floats | None = None

    def clip(self, frequency: Floats) -> Floats:
        if self.floor is not None:
            frequency = np.maximum(frequency, self.floor)
        return frequency if self.cap is None else np.minimum(frequency, self.cap)


def loads_and_prices(mirror: Mirror) -> tuple[Floats, Floats]:
    """s lambda, the bandwidth for one refresh per change; and 1/r, the price of value.

    What is never read or never changes has load 0 and the price `NEVER`: it gets its floor.
    """
    load: Floats = mirror.size * mirror.change_rate
    with np.errstate(all="ignore"):
        price: Floats = load / mirror.access
        np.clip(price, 1e-290, NEVER, out=price)
    worthless = (load == 0) | (mirror.access == 0)
    price[worthless] = NEVER
    load[worthless] = 0.0
    return load, price


class Anchored(ABC):
    """A demand for bandwidth as a function of the anchor's depth; what `search` works on."""

    #: The price, 1/r, of the element whose depth counts.
    anchor: float

    @abstractmethod
    def __call__(self, depth: float) -> tuple[float, float]:
        """The demand at this depth, and its derivative by the depth. Never rises."""

    @abstractmethod
    def dearest_below(self, limit: float) -> float:
        """The largest price of an element below the limit; 0 if there is none."""

    def move_anchor(self, price: float) -> None:
        """Depths count from here on for the element(s) of this price."""
        self.anchor = price

    def multiplier(self, depth: float) -> float:
        """mu at this depth."""
        return -math.expm1(-depth) / self.anchor

    def depth(self, multiplier: float) -> float:
        """The inverse of `multiplier`; infinite where the anchor is not worth refreshing."""
        share = multiplier * self.anchor
        # (1/a) a may round to just below 1.
        return -math.log1p(-share) if share < 1 - 5e-16 else math.inf


class RefreshDemand(Anchored):
    """The demand of all elements of a mirror together, above what their floors take.

    Above the floors, because they may leave a share of the bandwidth so small that it would
    drown in the rounding of the whole.
    """

    def __init__(self, mirror: Mirror, bounds: Bounds) -> None:
        self.bounds = bounds
        self.size = mirror.size
        self.load, self.price = loads_and_prices(mirror)
        self.passes = 0
        #: f/lambda at (anchor, depth), kept for small mirrors: the search asks first, and the
        #: plan needs two of the answers again.
        self.paces: dict[tuple[float, float], Floats] = {}
        self.move_anchor(float(self.price.min()))

    def move_anchor(self, price: float) -> None:
        super().move_anchor(price)
        self.anchored: Ints = np.flatnonzero(self.price == price)

    def dearest_below(self, limit: float) -> float:
        parts = (self.price[s : s + CHUNK] for s in range(0, len(self.price), CHUNK))
        return max(float(np.max(p, where=p < limit, initial=0.0)) for p in parts)

    def __call__(self, depth: float) -> tuple[float, float]:
        self.passes += 1
        use = slope = 0.0
        # dL/d(depth) = (price/anchor) exp(-depth)/(1 - c), and d(1/x)/dL = -(1 + 1/x)/x^2. For
        # the anchor 1 - c is exp(-depth), of which 1 - c itself would have lost the digits.
        decay = max(math.exp(-depth), 1e-300)
        with np.errstate(all="ignore"):
            for part, x, share, own in self._solve(depth):
                pace = 1 / x
                if len(self.load) <= CHUNK:
                    self.paces[self.anchor, depth] = pace
                asked = self.load[part] * pace
                steep = asked * pace
                steep *= pace + 1
                asked = self._clip(part, asked, steep)
                use += float(np.add.reduce(asked))
                np.subtract(1, share, out=share)
                np.maximum(share, 1e-300, out=share)
                share[own] = decay
                steep /= share
                slope -= float(steep @ self.price[part])
        return use, slope * decay / self.anchor

    def frequencies(self, depth: float) -> Floats:
        """Each element's best frequency at this depth, within its bounds."""
        pace = self.paces.get((self.anchor, depth))
        if pace is not None:
            return self.bounds.clip(self.load * pace / self.size)
        self.passes += 1
        out = np.empty_like(self.load)
        with np.errstate(all="ignore"):
            for part, x, _share, _own in self._solve(depth):
                np.divide(self.load[part], x * self.size[part], out=out[part])
        return self.bounds.clip(out)

    def excess(self, frequency: Floats) -> float:
        """What these frequencies take above the floors."""
        floor = self.bounds.floor
        return float(self.size @ (frequency if floor is None else frequency - floor))

    def extremes(self) -> tuple[Floats, Floats]:
        """The frequencies at mu = infinity and at mu = 0."""
        least = self.bounds.clip(np.zeros_like(self.load))
        return least, self.bounds.clip(np.where(self.load > 0, np.inf, 0.0))

    def _solve(self, depth: float) -> Iterator[tuple[slice, Floats, Floats, Ints]]:
        """Chunk by chunk: x, c = mu/r, and which elements are the anchor's equals."""
        mu, n, own = self.multiplier(depth), len(self.price), self.anchored
        for start in range(0, n, CHUNK):
            part = slice(start, start + CHUNK)
            if n > CHUNK:
                inside = (self.anchored >= start) & (self.anchored < start + CHUNK)
                own = self.anchored[inside] - start
            share = mu * self.price[part]
            np.minimum(share, 1.0, out=share)
            reached = np.log1p(-share)
            np.negative(reached, out=reached)
            # Exact where mu has run out of digits.
            reached[own] = depth
            yield part, solve_staleness(reached), share, own

    def _clip(self, part: slice, asked: Floats, steep: Floats) -> Floats:
        """The demand above the floor; where a bound holds, it no longer depends on mu."""
        floor, cap = self.bounds.floor, self.bounds.cap
        if cap is not None:
            high = cap[part] * self.size[part]
            np.copyto(steep, 0.0, where=asked > high)
            asked = np.minimum(asked, high)
        if floor is not None:
            asked = asked - floor[part] * self.size[part]
            np.copyto(steep, 0.0, where=asked < 0)
            asked = np.maximum(asked, 0.0)
        return asked


def search(demand: Anchored, budget: float, start: float) -> tuple[float, float]:
    """Two depths that enclose the budget: the first asks for at least it, the second for less.

    The budget must lie between 0 and what the caps ask for.
    """
    return _Search(demand, budget, start).run()


class _Search:
    """A bracket that narrows: ``shallow`` asks for at least the budget, ``deep`` for less."""

    def __init__(self, demand: Anchored, budget: float, start: float) -> None:
        self.demand, self.budget = demand, budget
        # Off both ends of the scale, where no step has a direction.
        self.depth = min(max(start, 1e-100), 1e10)
        self.shallow, self.mu_shallow, self.use_shallow = 0.0, 0.0, math.inf
        self.deep, self.mu_deep, self.use_deep = math.inf, demand.multiplier(math.inf), -math.inf
        #: How far off the search was when it was last looked after.
        self.error = 1.0

    def run(self) -> tuple[float, float]:
        for number in range(1, _MAX_PASSES):
            use, slope = self.demand(self.depth)
            over = use >= self.budget
            self._tighten(use, over)
            if self._narrow():
                return self.shallow, self.deep
            dropped = over and math.isinf(self.depth)
            following = self._newton(use, slope, over)
            if number % 3 == 0 or dropped:
                following = self._help(use, dropped, following)
            if not (self.shallow < following < self.deep or following == math.inf):
                following = self._halfway()
            self.depth = following
        raise EngineBug(f"no multiplier in {_MAX_PASSES} passes: {self.shallow} to {self.deep}")

    def _tighten(self, use: float, over: bool) -> None:
        mu = self.demand.multiplier(self.depth)
        if over:
            self.shallow, self.mu_shallow, self.use_shallow = self.depth, mu, use
        else:
            self.deep, self.mu_deep, self.use_deep = self.depth, mu, use

    def _narrow(self) -> bool:
        """Whether the convex combination of the ends is as good as exact."""
        apart = self.use_shallow - self.use_deep
        if math.isinf(apart) or math.isinf(self.shallow):
            return False
        loss = (self.mu_deep - self.mu_shallow) * apart
        touching = self.deep <= self.shallow * (1 + 1e-15)
        return apart <= TOLERANCE * self.budget or loss <= NEGLIGIBLE or touching

    def _newton(self, use: float, slope: float, over: bool) -> float:
        """One step on logarithms, aimed a hair past the budget so that the bracket closes."""
        if not (use > 0 and slope < 0 and math.isfinite(use) and math.isfinite(self.depth)):
            return math.nan
        aim = self.budget * (1 - TOLERANCE / 4 if over else 1 + TOLERANCE / 4)
        step = math.log(aim / use) * use / (slope * self.depth)
        return self.depth * math.exp(min(max(step, -12.0), 12.0))

    def _help(self, use: float, dropped: bool, following: float) -> float:
        """Where three steps did not come much nearer: halves the bracket, or moves the anchor.

        The r of an element inside the bracket is a cusp. As long as there are any, the bracket
        is halved in mu, at a cusp where one is near (infinite depth of the element there);
        once there are none, the nearest element above is the anchor that makes demand smooth.
        """
        error = abs(math.log(use / self.budget)) if 0 < use < math.inf else math.inf
        before, self.error = self.error, error
        if error <= before / 16 and not dropped:
            return following
        demand = self.demand
        middle = math.sqrt(self.mu_shallow) * math.sqrt(self.mu_deep) or self.mu_deep / 64
        limit = demand.anchor if dropped else math.inf
        lowest = 1 / self.mu_shallow if self.mu_shallow > 0 else math.inf
        above = demand.dearest_below(min(1 / middle, limit))
        lowest = demand.dearest_below(min(lowest, limit))
        moves = above > 0 and above != demand.anchor
        if moves:
            demand.move_anchor(above)
            # Rounding may drop the anchor at mu_shallow; a little less depth is as good an end.
            self.shallow = min(demand.depth(self.mu_shallow), _LAST_DIGITS)
            self.deep = demand.depth(self.mu_deep)
        if moves and above * self.mu_deep > 1:
            return math.inf
        return demand.depth(middle) if lowest > above else math.nan

    def _halfway(self) -> float:
        if self.shallow > 0 and math.isfinite(self.deep):
            return math.sqrt(self.shallow) * math.sqrt(self.deep)
        if math.isfinite(self.deep):
            return self.deep / 8
        return self.shallow * 8 or 1.0


def start_depth(mirror: Mirror, demand: RefreshDemand, budget: float) -> float:
    """A first guess: exact if all elements had the same r."""
    if len(demand.load) >= _HISTOGRAM_FROM:
        return demand.depth(_histogram_multiplier(mirror, demand, budget))
    total = float(demand.load.sum())
    x = total / budget
    worth = float(mirror.access.sum(where=demand.load > 0))
    return demand.depth(-math.expm1(math.log1p(x) - x) * worth / total)


def _histogram_multiplier(mirror: Mirror, demand: RefreshDemand, budget: float) -> float:
    """mu of the smaller problem whose elements are bins of log r, each sharing one x."""
    wanted = np.flatnonzero(demand.load)
    position = np.log(demand.price[wanted])
    low, high = float(position.min()), float(position.max())
    scale = (_BINS - 1) / max(high - low, 1e-9)
    index = ((position - low) * scale).astype(np.int64)
    load: Floats = np.bincount(index, demand.load[wanted], _BINS).astype(np.float64)
    worth: Floats = np.bincount(index, mirror.access[wanted], _BINS).astype(np.float64)
    return binned_multiplier(load, worth, budget)


def binned_multiplier(load: Floats, worth: Floats, budget: float) -> float:
    """mu if the elements of each bin had the r that the bin has as a whole."""
    binned = Mirror(load, worth, np.ones(len(load)))
    smaller = RefreshDemand(binned, Bounds())
    _shallow, deep = search(smaller, budget, start_depth(binned, smaller, budget))
    return smaller.multiplier(deep)
