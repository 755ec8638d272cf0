"""Frequencies become a timetable: every object at its fixed interval, the load constant.

Object i is refreshed at (k + phase_i) / f_i for k = 0, 1, ... The phases come from the golden
ratio over objects sorted by frequency, so objects of similar frequency never bunch. Times are
absolute: a process that starts again at another moment continues the same timetable.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from daybreak.freshness.mirror import Floats, Ints
from daybreak.model.errors import ConfigError

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, slots=True, eq=False)
class Timetable:
    """When each object is refreshed; made from a plan's frequencies."""

    frequency: Floats
    #: Each refresh is moved by up to half this share of its interval, either way; below 1 the
    #: order of an object's refreshes stays. The same seed moves them the same way.
    jitter: float = 0.0
    seed: int = 0
    phase: Floats = field(init=False)

    def __post_init__(self) -> None:
        if not 0 <= self.jitter < 1:
            raise ConfigError("timetable", f"jitter {self.jitter}", "give a share in [0, 1)")
        object.__setattr__(self, "phase", spread_phases(self.frequency))

    def between(self, start: float, end: float) -> tuple[Floats, Ints]:
        """Times in [start, end) in order, and the objects refreshed then."""
        objects = np.flatnonzero(self.frequency > 0)
        frequency, phase = self.frequency[objects], self.phase[objects]
        # Jitter may carry a refresh over either border: look one further on both sides.
        first = np.floor(start * frequency - phase).astype(np.int64)
        last = np.ceil(end * frequency - phase).astype(np.int64)
        count = last - first + 1
        which = np.repeat(np.arange(len(objects)), count)
        turn = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + first[which]
        times = self._time(turn, objects[which])
        inside = (times >= start) & (times < end)
        times, chosen = times[inside], objects[which[inside]]
        order = np.lexsort((chosen, times))
        return times[order], chosen[order]

    def after(self, moment: float) -> Floats:
        """Each object's next refresh at or after this moment; infinite if it has none."""
        due = np.full(len(self.frequency), np.inf)
        objects = np.flatnonzero(self.frequency > 0)
        turn = np.floor(moment * self.frequency[objects] - self.phase[objects]).astype(np.int64)
        for step in range(3):
            times = self._time(turn + step, objects)
            due[objects] = np.where(np.isinf(due[objects]) & (times >= moment), times, due[objects])
        return due

    def events(self, start: float = 0.0) -> Iterator[tuple[float, int]]:
        """(time, object) for ever, in order."""
        due = self.after(start)
        queue = [(float(due[i]), int(i)) for i in np.flatnonzero(np.isfinite(due))]
        heapq.heapify(queue)
        while queue:
            moment, item = queue[0]
            yield moment, item
            turn = round(moment * self.frequency[item] - self.phase[item])
            following = float(self._time(np.array([turn + 1]), np.array([item]))[0])
            heapq.heapreplace(queue, (following, item))

    def _time(self, turn: Ints, objects: Ints) -> Floats:
        moved: Floats = turn + self.phase[objects]
        if self.jitter:
            moved = moved + self.jitter * (_unit(turn, objects, self.seed) - 0.5)
        return moved / self.frequency[objects]


def spread_phases(frequency: Floats) -> Floats:
    """A phase in [0, 1) per object, well spread among objects of similar frequency."""
    rank = np.empty(len(frequency))
    rank[np.argsort(-frequency, kind="stable")] = np.arange(len(frequency))
    phases: Floats = ((rank + 0.5) * _GOLDEN) % 1.0
    return phases


def _unit(turn: Ints, objects: Ints, seed: int) -> Floats:
    """A number in [0, 1) that depends on its arguments alone (the splitmix64 mixer)."""
    with np.errstate(over="ignore"):
        z = turn.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += objects.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9) + np.uint64(seed)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    share: Floats = (z >> np.uint64(11)).astype(np.float64) / 2.0**53
    return share
