"""The text's simulation (figure 2.4): changes, refreshes and accesses in virtual time.

Vectorised: all events of a run are drawn at once and sorted by object and time; an access sees
a fresh copy if its object's last refresh came after its last change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from daybreak.freshness.mirror import Bools, Floats, Ints, Mirror
from daybreak.freshness.timetable import Timetable


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Things that happen to objects; in any order."""

    time: Floats
    item: Ints


@dataclass(frozen=True, slots=True)
class Simulated:
    """What the accesses saw, over several runs."""

    perceived_freshness: float
    standard_error: float
    runs: int
    accesses: int
    changes: int
    refreshes: int


def fresh_accesses(changes: Events, refreshes: Events, accesses: Events) -> Bools:
    """Of each access: whether its object was refreshed since it last changed.

    An object without earlier changes is fresh. At the same instant a change comes before a
    refresh and a refresh before an access.
    """
    kinds = (changes, refreshes, accesses)
    kind = np.repeat(np.arange(3, dtype=np.int8), [len(k.time) for k in kinds])
    time = np.concatenate([k.time for k in kinds])
    item = np.concatenate([k.item for k in kinds])
    order = np.lexsort((kind, time, item))
    kind, item = kind[order], item[order]
    place = np.arange(len(order))
    changed = np.maximum.accumulate(np.where(kind == 0, place, -1))
    refreshed = np.maximum.accumulate(np.where(kind == 1, place, -1))
    # A change of another object does not count: then this one has not changed at all.
    own = (changed >= 0) & (item[changed] == item)
    fresh = ~own | (refreshed > changed)
    seen = np.empty(len(order), np.bool_)
    seen[order] = fresh
    return seen[-len(accesses.time) :] if len(accesses.time) else seen[:0]


def poisson_events(rate: Floats, start: float, end: float, rng: np.random.Generator) -> Events:
    """Every object's events of a Poisson process over [start, end)."""
    count = rng.poisson(rate * (end - start))
    return Events(rng.uniform(start, end, int(count.sum())), np.repeat(np.arange(len(rate)), count))


def draw_accesses(
    mirror: Mirror, per_period: float, periods: float, rng: np.random.Generator
) -> Events:
    total = rng.poisson(per_period * periods)
    return Events(rng.uniform(0, periods, total), rng.choice(len(mirror), total, p=mirror.access))


def simulate(
    mirror: Mirror,
    frequency: Floats,
    *,
    periods: float,
    accesses_per_period: float,
    seed: int,
    runs: int = 10,
    jitter: float = 0.0,
) -> Simulated:
    """Runs the plan's timetable against random changes and accesses."""
    shares: list[float] = []
    counts = np.zeros(3, np.int64)
    for run in range(runs):
        # One stream per purpose, so that another plan meets the same changes and accesses.
        change, access, before, origin = (
            np.random.default_rng([seed, run, purpose]) for purpose in range(4)
        )
        # A run looks at the timetable from a random moment on: phases differ between runs.
        timetable = Timetable(frequency, jitter, seed)
        shift = float(origin.uniform(1e3, 1e4))
        times, items = timetable.between(shift, shift + periods)
        changes = poisson_events(mirror.change_rate, 0, periods, change)
        stale = _stale(mirror, timetable, shift, before)
        accesses = draw_accesses(mirror, accesses_per_period, periods, access)
        seen = fresh_accesses(
            Events(
                np.concatenate([stale.time, changes.time]),
                np.concatenate([stale.item, changes.item]),
            ),
            Events(times - shift, items),
            accesses,
        )
        shares.append(float(seen.mean()) if len(seen) else float("nan"))
        counts += (len(accesses.time), len(changes.time), len(times))
    error = float(np.std(shares, ddof=1) / np.sqrt(runs)) if runs > 1 else float("nan")
    return Simulated(float(np.mean(shares)), error, runs, *(int(c) for c in counts))


def _stale(mirror: Mirror, timetable: Timetable, moment: float, rng: np.random.Generator) -> Events:
    """Changes just before the run that put it into its stationary state from the start.

    An object whose next refresh is a time d away was last refreshed 1/f - d ago.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = timetable.after(moment) - moment
        elapsed = np.where(timetable.frequency > 0, 1 / timetable.frequency - ahead, np.inf)
        expected = np.where(mirror.change_rate > 0, mirror.change_rate * np.maximum(elapsed, 0), 0)
    stale = np.flatnonzero(rng.random(len(mirror)) < -np.expm1(-expected))
    return Events(np.full(len(stale), -1.0), stale)
