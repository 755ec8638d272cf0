"""Split bandwidth (section 6.2.4): B_s refreshes by plan, B_d by a queue that reacts.

The mirror sees every request at once, but a change only when it refreshes. The queue is told
both; its score says which object it refreshes next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from daybreak.freshness.mirror import Bools, Floats, Mirror
from daybreak.freshness.refresh_planner import plan
from daybreak.freshness.timetable import Timetable
from daybreak.model.errors import ConfigError, suggestion


@dataclass(slots=True, eq=False)
class Observed:
    """What the mirror knows of its objects at one moment."""

    now: float
    refreshed: Floats
    #: Requests since the last refresh: how many, when the last came, and the sum of their times.
    requests: Floats
    requested: Floats
    request_times: Floats
    #: Estimates that follow bursts: accesses and changes per period.
    demand: Floats
    change_rate: Floats


Score = Callable[[Observed], Floats]


def lru_score(seen: Observed) -> Floats:
    """Like LRU: the object that was asked for most recently moves to the front."""
    return np.where(seen.requests > 0, seen.requested, -1.0)


def lwf_score(seen: Observed) -> Floats:
    """Like longest-wait-first broadcast: requests since the refresh, weighed by their waits."""
    return seen.requests * seen.now - seen.request_times


def value_score(seen: Observed) -> Floats:
    """Ours: the expected accesses per period that a refresh now would turn from stale to fresh."""
    stale: Floats = -np.expm1(-seen.change_rate * (seen.now - seen.refreshed))
    return seen.demand * stale


SCORES: dict[str, Score] = {"lru": lru_score, "lwf": lwf_score, "value": value_score}


@dataclass(frozen=True, slots=True)
class Bursts:
    """Now and then an object changes, or is asked for, so many times as often for a while."""

    per_period: float
    periods: float
    change_factor: float = 1.0
    access_factor: float = 1.0


def simulate_split(
    mirror: Mirror,
    bandwidth: float,
    dynamic_share: float,
    queue: str,
    bursts: Bursts,
    *,
    periods: int,
    accesses_per_period: float,
    seed: int,
) -> float:
    """PF that users see when this share of the bandwidth goes to the queue. Unit sizes."""
    if queue not in SCORES:
        raise ConfigError("split", f"queue {queue!r}", suggestion(queue, SCORES))
    static = bandwidth * (1 - dynamic_share)
    frequency = plan(mirror, static).frequency if static > 0 else np.zeros(len(mirror))
    run = _Run(mirror, SCORES[queue], bandwidth * dynamic_share, accesses_per_period, seed)
    slots = max(1, round(bandwidth)) * periods
    step = periods / slots
    times, items = Timetable(frequency).between(0, periods)
    cuts = np.searchsorted(times, np.arange(slots + 1) * step)
    bursting = _burst_map(len(mirror), slots, step, bursts, np.random.default_rng([seed, 9]))
    for slot in range(slots):
        active = bursting(slot)
        run.step(
            slot * step,
            step,
            np.where(active, bursts.change_factor, 1.0),
            np.where(active, bursts.access_factor, 1.0),
            items[cuts[slot] : cuts[slot + 1]],
        )
    return run.fresh_seen / max(run.seen_total, 1)


def _burst_map(
    n: int, slots: int, step: float, bursts: Bursts, rng: np.random.Generator
) -> Callable[[int], Bools]:
    count = rng.poisson(bursts.per_period * slots * step)
    first = rng.integers(0, slots, count)
    last = first + max(1, round(bursts.periods / step))
    which = rng.integers(0, n, count)

    def at(slot: int) -> Bools:
        active = np.zeros(n, np.bool_)
        active[which[(first <= slot) & (slot < last)]] = True
        return active

    return at


class _Run:
    """One simulated mirror, slot by slot."""

    #: How fast the estimates of demand and change forget: per period, and per refresh.
    FORGET_PER_PERIOD = 2.0
    FORGET_PER_VISIT = 0.5

    def __init__(
        self, mirror: Mirror, score: Score, dynamic: float, accesses: float, seed: int
    ) -> None:
        n = len(mirror)
        self.mirror, self.score, self.dynamic, self.accesses = mirror, score, dynamic, accesses
        self.change, self.access = (np.random.default_rng([seed, i]) for i in (1, 2))
        self.fresh = np.ones(n, np.bool_)
        self.tokens = 0.0
        self.seen_total, self.fresh_seen = 0, 0
        self.seen = Observed(
            now=0.0,
            refreshed=np.zeros(n),
            requests=np.zeros(n),
            requested=np.full(n, -1.0),
            request_times=np.zeros(n),
            demand=mirror.access * accesses,
            change_rate=mirror.change_rate.copy(),
        )

    def step(
        self, now: float, length: float, unrest: Floats, rush: Floats, planned: np.ndarray
    ) -> None:
        """One slot in which change rates and demand are so many times their usual values."""
        seen, mirror = self.seen, self.mirror
        seen.now = now
        self.fresh &= self.change.random(len(mirror)) >= -np.expm1(
            -mirror.change_rate * unrest * length
        )
        arrivals = self.access.poisson(mirror.access * rush * self.accesses * length)
        self.seen_total += int(arrivals.sum())
        self.fresh_seen += int(arrivals[self.fresh].sum())
        hit = arrivals > 0
        seen.requests += arrivals
        seen.requested[hit] = now
        seen.request_times += arrivals * now
        # An exponential average around the profile: bursts show within about half a period.
        keep = np.exp(-self.FORGET_PER_PERIOD * length)
        usual = mirror.access * self.accesses
        seen.demand = (
            usual
            + (seen.demand - usual) * keep
            + self.FORGET_PER_PERIOD * (arrivals - usual * length)
        )
        self._refresh(planned)
        self.tokens += self.dynamic * length
        while self.tokens >= 1:
            self.tokens -= 1
            self._refresh(np.array([int(np.argmax(self.score(seen)))]))

    def _refresh(self, items: np.ndarray) -> None:
        seen = self.seen
        for i in items:
            elapsed = max(seen.now - seen.refreshed[i], 1e-9)
            # One visit's estimate: a change, or none, within the elapsed time.
            found = (0.0 if self.fresh[i] else 1.5) / elapsed
            usual = self.mirror.change_rate[i]
            mixed = self.FORGET_PER_VISIT * min(found, 50 * usual)
            seen.change_rate[i] = max(
                usual, (1 - self.FORGET_PER_VISIT) * seen.change_rate[i] + mixed
            )
            seen.refreshed[i] = seen.now
            seen.requests[i] = seen.request_times[i] = 0.0
            self.fresh[i] = True
