"""Finds the multiplier mu of the core problem, for one budget or for many groups at once.

The search runs over the *depth* L = -log(1 - mu/r) of one element, the anchor, rather than over
mu. Demand is close to a power of the largest r's depth both where bandwidth abounds (mu -> 0)
and where it is so scarce that mu and r are the same floating-point number; so Newton's method
on logarithms, kept inside a bracket, takes few steps. Where an element is just about to drop
out, demand has a cusp in mu but not in that element's own depth: there the anchor moves to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.mirror import CHUNK, Bools, Floats, Ints, Mirror
from daybreak.freshness.staleness import solve_staleness
from daybreak.model.errors import EngineBug

#: The bracket is narrow enough when its ends' demands differ by this share of the budget.
TOLERANCE = 1e-10
#: ... or when no plan can differ from the ends' combination by more PF than this.
_NEGLIGIBLE = 1e-15
_MAX_PASSES = 300
#: Beyond this depth mu/r differs from 1 in its last digits only.
_LAST_DIGITS = 30.0
#: From here on the search starts on a histogram of r, which costs two passes and saves more.
_HISTOGRAM_FROM = 20_000
_BINS = 4096
#: The price of what must never be bought; finite, so that 0 times it is 0.
_NEVER = 1e300


@dataclass(frozen=True, slots=True)
class Bounds:
    """Frequencies an element may take; ``group`` splits the elements over several budgets."""

    floor: Floats | None = None
    cap: Floats | None = None
    group: Ints | None = None
    groups: int = 1


class Demand:
    """The bandwidth that elements ask for at a given depth, per group."""

    def __init__(self, mirror: Mirror, bounds: Bounds) -> None:
        self.bounds = bounds
        self.size = mirror.size
        #: s lambda: the bandwidth at which an element is refreshed once per change (x = 1).
        self.load: Floats = mirror.size * mirror.change_rate
        worthless = (self.load == 0) | (mirror.access == 0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            #: 1/r; huge for what is never read or never changes: it gets its floor.
            self.price: Floats = np.clip(self.load / mirror.access, 1e-290, _NEVER)
        self.price[worthless] = _NEVER
        self.load[worthless] = 0.0
        #: The price of each group's anchor; at first its most valuable element.
        self.anchor = np.full(bounds.groups, _NEVER)
        if bounds.group is None:
            self.anchor[0] = self.price.min()
        else:
            np.minimum.at(self.anchor, bounds.group, self.price)
        self.passes = 0

    def multiplier(self, depth: Floats) -> Floats:
        """mu at this depth."""
        mu: Floats = -np.expm1(-depth) / self.anchor
        return mu

    def depth(self, multiplier: Floats) -> Floats:
        """The inverse of `multiplier`; infinite where the anchor is not worth refreshing."""
        with np.errstate(divide="ignore"):
            depth: Floats = -np.log1p(-np.minimum(multiplier * self.anchor, 1.0))
        return depth

    def dearest_below(self, limit: Floats) -> Floats:
        """Each group's largest price below its limit; 0 if there is none."""
        found = np.zeros(self.bounds.groups)
        group = self.bounds.group
        for start in range(0, len(self.price), CHUNK):
            part = slice(start, start + CHUNK)
            price = self.price[part]
            active = price < self._of(limit, part)
            if group is None:
                found[0] = max(found[0], np.max(price, where=active, initial=0.0))
            else:
                np.maximum.at(found, group[part][active], price[active])
        return found

    def __call__(self, depth: Floats) -> tuple[Floats, Floats]:
        """The groups' demands, and their derivatives by the groups' depths."""
        self.passes += 1
        use, slope = np.zeros(self.bounds.groups), np.zeros(self.bounds.groups)
        fade = np.exp(-depth) / self.anchor
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            for part, x, top, share in self._solve(depth):
                asked = self.load[part] / x
                # dL/d(depth) = (price/anchor) exp(-depth)/(1 - c), and dx/dL = (1 + x)/x.
                bend = self.price[part] * self._of(fade, part) / (1 - share)
                np.copyto(bend, 1.0, where=top)
                steep = asked * bend * (1 + x) / (x * x)
                np.copyto(steep, 0.0, where=asked == 0)
                asked = self._clip(part, asked, steep)
                use += self._sum(part, asked)
                slope -= self._sum(part, steep)
        return use, slope

    def frequencies(self, depth: Floats) -> Floats:
        """Each element's best frequency at this depth, within its bounds."""
        self.passes += 1
        out = np.empty_like(self.load)
        with np.errstate(under="ignore"):
            for part, x, _top, _share in self._solve(depth):
                np.divide(self.load[part], x * self.size[part], out=out[part])
        return clipped(out, self.bounds)

    def use(self, frequency: Floats) -> Floats:
        """The bandwidth these frequencies take, per group."""
        return self._sum(slice(None), self.size * frequency)

    def _solve(self, depth: Floats) -> Iterator[tuple[slice, Floats, Bools, Floats]]:
        """Chunk by chunk: x, which elements are as the anchor, and c = mu/r."""
        mu = self.multiplier(depth)
        for start in range(0, len(self.price), CHUNK):
            part = slice(start, start + CHUNK)
            price = self.price[part]
            top = price == self._of(self.anchor, part)
            share = np.minimum(self._of(mu, part) * price, 1.0)
            with np.errstate(divide="ignore"):
                reached = -np.log1p(-share)
            # Their L is the depth itself: exact where mu has run out of digits.
            np.copyto(reached, self._of(depth, part), where=top)
            yield part, solve_staleness(reached), top, share

    def _of(self, per_group: Floats, part: slice) -> Floats:
        return per_group if self.bounds.group is None else per_group[self.bounds.group[part]]

    def _sum(self, part: slice, values: Floats) -> Floats:
        group = self.bounds.group
        if group is None:
            return np.array([values.sum()])
        return np.bincount(group[part], values, self.bounds.groups).astype(np.float64)

    def _clip(self, part: slice, asked: Floats, steep: Floats) -> Floats:
        """The demand within the bounds; where a bound holds, it no longer depends on mu."""
        floor, cap = self.bounds.floor, self.bounds.cap
        if floor is not None:
            low = floor[part] * self.size[part]
            np.copyto(steep, 0.0, where=asked < low)
            asked = np.maximum(asked, low)
        if cap is not None:
            high = cap[part] * self.size[part]
            np.copyto(steep, 0.0, where=asked > high)
            asked = np.minimum(asked, high)
        return asked


@dataclass(frozen=True, slots=True)
class Bracket:
    """Two depths per group: at ``shallow`` the demand is at least the budget, at ``deep`` less."""

    shallow: Floats
    deep: Floats


def search(demand: Demand, budget: Floats, start: Floats) -> Bracket:
    """Encloses every group's budget; each must lie between the floors' and the caps' demand."""
    return _Search(demand, budget, start).run()


class _Search:
    """A bracket that narrows: ``shallow`` asks for at least the budget, ``deep`` for less."""

    def __init__(self, demand: Demand, budget: Floats, start: Floats) -> None:
        groups = demand.bounds.groups
        self.demand, self.budget = demand, budget
        # Off both ends of the scale, where no step has a direction.
        self.depth = np.clip(start, 1e-100, 1e10)
        self.shallow, self.deep = np.zeros(groups), np.full(groups, np.inf)
        self.mu_shallow, self.mu_deep = np.zeros(groups), demand.multiplier(self.deep)
        self.use_shallow, self.use_deep = np.full(groups, np.inf), np.full(groups, -np.inf)
        self.checkpoint = np.ones(groups)

    def run(self) -> Bracket:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
            for number in range(1, _MAX_PASSES):
                use, slope = self.demand(self.depth)
                over = use >= self.budget
                self._tighten(use, over)
                if self._narrow().all():
                    return Bracket(self.shallow, self.deep)
                dropped = over & np.isinf(self.depth)
                self.depth = self._newton(use, slope, over)
                if number % 3 == 0 or dropped.any():
                    self._help_crawlers(np.abs(np.log(use / self.budget)), dropped)
                lost = ~((self.depth > self.shallow) & (self.depth < self.deep))
                lost &= ~np.isinf(self.depth)
                self.depth = np.where(lost, self._halfway(), self.depth)
        raise EngineBug(f"no multiplier in {_MAX_PASSES} passes: {self.shallow} to {self.deep}")

    def _tighten(self, use: Floats, over: Bools) -> None:
        mu = self.demand.multiplier(self.depth)
        self.shallow = np.where(over, self.depth, self.shallow)
        self.mu_shallow = np.where(over, mu, self.mu_shallow)
        self.use_shallow = np.where(over, use, self.use_shallow)
        self.deep = np.where(over, self.deep, self.depth)
        self.mu_deep = np.where(over, self.mu_deep, mu)
        self.use_deep = np.where(over, self.use_deep, use)

    def _narrow(self) -> Bools:
        """Whether the convex combination of the ends is as good as exact."""
        gap = self.use_shallow - self.use_deep
        loss = (self.mu_deep - self.mu_shallow) * gap
        narrow = (gap <= TOLERANCE * self.budget) | (loss <= _NEGLIGIBLE)
        touching = np.isfinite(gap) & (self.deep <= self.shallow * (1 + 1e-15))
        enough: Bools = narrow | (touching & np.isfinite(self.shallow))
        return enough

    def _newton(self, use: Floats, slope: Floats, over: Bools) -> Floats:
        """One step on logarithms, aimed a hair past the budget so that the bracket closes."""
        aim = self.budget * np.where(over, 1 - TOLERANCE / 4, 1 + TOLERANCE / 4)
        step = np.log(aim / use) * use / (slope * self.depth)
        return np.where(np.isinf(self.depth), np.nan, self.depth * np.exp(np.clip(step, -12, 12)))

    def _help_crawlers(self, error: Floats, dropped: Bools) -> None:
        """Where three steps did not come much nearer: halves the bracket, or moves the anchor.

        The r of an element inside the bracket is a cusp. As long as there are any, the bracket
        is halved in mu, at a cusp where one is near (infinite depth of the element there);
        once there are none, the nearest element above is the anchor that makes demand smooth.
        """
        crawls = (error > self.checkpoint / 16) | dropped
        self.checkpoint = error
        if not crawls.any():
            return
        middle = np.where(
            self.mu_shallow > 0, np.sqrt(self.mu_shallow) * np.sqrt(self.mu_deep), self.mu_deep / 64
        )
        below = np.where(dropped, self.demand.anchor, np.inf)
        above = self.demand.dearest_below(np.minimum(1 / middle, below))
        lowest = self.demand.dearest_below(np.minimum(1 / self.mu_shallow, below))
        moves = crawls & (above > 0) & (above != self.demand.anchor)
        self.demand.anchor = np.where(moves, above, self.demand.anchor)
        # Rounding may drop the new anchor at mu_shallow; a little less depth is as good an end.
        shallow = np.minimum(self.demand.depth(self.mu_shallow), _LAST_DIGITS)
        self.shallow = np.where(moves, shallow, self.shallow)
        self.deep = np.where(moves, self.demand.depth(self.mu_deep), self.deep)
        halved = np.where(lowest > above, self.demand.depth(middle), np.nan)
        tried = np.where(moves & (above * self.mu_deep > 1), np.inf, halved)
        self.depth = np.where(crawls, tried, self.depth)

    def _halfway(self) -> Floats:
        middle = np.sqrt(self.shallow) * np.sqrt(self.deep)
        one_sided = np.where(np.isinf(self.deep), self.shallow * 8, self.deep / 8)
        one_sided = np.where(one_sided > 0, one_sided, 1.0)
        return np.where((self.shallow > 0) & np.isfinite(self.deep), middle, one_sided)


def start_depth(mirror: Mirror, demand: Demand, budget: float) -> Floats:
    """A first guess for one budget: exact if all elements had the same r."""
    total = float(demand.load.sum())
    if len(demand.load) >= _HISTOGRAM_FROM:
        return demand.depth(np.array([_histogram_multiplier(mirror, demand, budget)]))
    x = total / budget
    worth = float(mirror.access[demand.load > 0].sum())
    return demand.depth(np.array([-np.expm1(np.log1p(x) - x) * worth / total]))


def _histogram_multiplier(mirror: Mirror, demand: Demand, budget: float) -> float:
    """mu of the smaller problem whose elements are bins of log r, each sharing one x."""
    wanted = np.flatnonzero(demand.load)
    position = np.log(demand.price[wanted])
    low, high = float(position.min()), float(position.max())
    scale = (_BINS - 1) / max(high - low, 1e-9)
    index = ((position - low) * scale).astype(np.int64)
    load: Floats = np.bincount(index, demand.load[wanted], _BINS).astype(np.float64)
    worth: Floats = np.bincount(index, mirror.access[wanted], _BINS).astype(np.float64)
    binned = Mirror(load, worth, np.ones(_BINS))
    smaller = Demand(binned, Bounds())
    found = search(smaller, np.array([budget]), start_depth(binned, smaller, budget))
    return float(smaller.multiplier(found.deep)[0])


def clipped(frequency: Floats, bounds: Bounds) -> Floats:
    if bounds.floor is not None:
        frequency = np.maximum(frequency, bounds.floor)
    return frequency if bounds.cap is None else np.minimum(frequency, bounds.cap)
