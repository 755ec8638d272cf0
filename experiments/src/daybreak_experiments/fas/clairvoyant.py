"""Small instances with arrivals: FAS-MCQ beside the best order of one who knows the future.

Every update passes and costs are fixed, so that an instance is deterministic. With one worker
that never idles while updates are pending, the instant follows from what has been processed;
the least stale time is a dynamic program over how many updates of each query have been.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from daybreak.simulation.randomness import generator_for

Done = tuple[int, ...]
#: (query, updates pending) -> priority.
Priority = Callable[[int, int], float]


@dataclass(frozen=True)
class Arriving:
    """Cost per update of each query, and when its updates arrive, in order."""

    costs: tuple[int, ...]
    arrivals: tuple[tuple[int, ...], ...]

    def waiting(self, done: Done, now: int) -> list[int]:
        """How many updates of each query have arrived and are not processed."""
        return [
            sum(1 for a in times[k:] if a <= now)
            for times, k in zip(self.arrivals, done, strict=True)
        ]

    def begin(self, done: Done, now: int) -> int:
        """When work goes on: now, or with the next arrival."""
        heads = [t[k] for t, k in zip(self.arrivals, done, strict=True) if k < len(t)]
        return max(now, min(heads))

    def stale(self, done: Done, now: int, until: int) -> int:
        """Stale time between two instants, over all queries, while this much is done."""
        heads = [t[k] for t, k in zip(self.arrivals, done, strict=True) if k < len(t)]
        return sum(max(0, until - max(now, head)) for head in heads)


def draw_arriving(seed: int, number: int, queries: int = 4, updates: int = 5) -> Arriving:
    """About as much work as time; updates come in bursts of one to three."""
    random = generator_for(seed, f"fas/arriving/{number}")
    costs = 2 ** random.integers(0, 3, queries)
    span = int(costs.sum()) * updates
    instants = []
    for _ in range(queries):
        bursts = random.integers(0, span, updates)
        chosen = np.sort(bursts[random.integers(0, updates, updates)])
        instants.append(tuple(chosen.tolist()))
    return Arriving(tuple(costs.tolist()), tuple(instants))


def optimum(instance: Arriving) -> int:
    """The least stale time of any order that does not idle."""

    @cache
    def least(done: Done, now: int) -> int:
        if all(k == len(t) for k, t in zip(done, instance.arrivals, strict=True)):
            return 0
        start = instance.begin(done, now)
        best = None
        for q, n in enumerate(instance.waiting(done, start)):
            if n:
                end = start + instance.costs[q]
                total = instance.stale(done, start, end) + least(_with(done, q), end)
                best = total if best is None else min(best, total)
        assert best is not None
        return best

    return least((0,) * len(instance.costs), 0)


def by_priority(instance: Arriving, priority: Priority) -> int:
    """The stale time if the highest priority goes first, ties by query."""
    done, now, total = (0,) * len(instance.costs), 0, 0
    for _ in range(sum(map(len, instance.arrivals))):
        now = instance.begin(done, now)
        pending = instance.waiting(done, now)
        q = max(
            (q for q, n in enumerate(pending) if n), key=lambda q: (priority(q, pending[q]), -q)
        )
        end = now + instance.costs[q]
        total += instance.stale(done, now, end)
        done, now = _with(done, q), end
    return total


def fas(instance: Arriving) -> int:
    """FAS-MCQ (eq. 11) with S = 1."""
    return by_priority(instance, lambda q, n: 1 / (n * instance.costs[q]))


def rb(instance: Arriving) -> int:
    """RB-MCQ (eq. 13) with S = 1."""
    return by_priority(instance, lambda q, _: 1 / instance.costs[q])


def _with(done: Done, query: int) -> Done:
    return (*done[:query], done[query] + 1, *done[query + 1 :])
