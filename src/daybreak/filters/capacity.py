"""Capacity from live traffic: no emptied network, no test tuples.

While k calls are inside a service, it completes X_k of them per second; by Little's law each
then takes W_k = k / X_k. A service of ``threads`` threads has X_k = min(k, threads) / st: it
rises in proportion to k and then stays flat. Counting completions and seconds per level k
gives the whole curve; its height is the capacity and the level where it turns flat is the
number of threads. Old evidence fades, so the curve follows a service that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.filters.declared import Estimate

#: Completions at a level before its rate is believed.
_EVIDENCE = 5.0
#: Level k is flat if X_k is at least (1 - 0.4/k) of the highest rate. One thread short of the
#: truth is at 1 - 1/(k+1), which is less for every k: neighbours are told apart.
_FLAT = 0.4


@dataclass(slots=True)
class _Level:
    """What happened while a given number of calls was inside."""

    seconds: float = 0.0
    completions: float = 0.0

    @property
    def rate_per_s(self) -> float:
        return self.completions / self.seconds if self.seconds > 0 else 0.0


class OnlineEstimator:
    """Estimates one service (or one replica of it) from its calls."""

    def __init__(
        self, prior: Estimate = Estimate(0.1, 1, 0.5), half_life_s: float = 30.0
    ) -> None:
        self._prior = prior
        self._half_life_s = half_life_s
        self._levels: dict[int, _Level] = {}
        self._inside = 0
        self._now_s: float | None = None
        self._seen = self._passed = 0.0
        self._estimate = prior

    @property
    def estimate(self) -> Estimate:
        """Service time, threads and selectivity as the evidence stands."""
        return self._estimate

    @property
    def limit(self) -> int:
        """How many calls to let in: as many as there are threads, at times a few more.

        More only while what lies beyond the believed number of threads is unknown; since
        evidence fades, it is looked at again from time to time.
        """
        threads = round(self._estimate.threads)
        beyond = threads + max(1, threads // 4)
        known = any(
            level.completions >= _EVIDENCE for k, level in self._levels.items() if k > threads
        )
        return threads if known else beyond

    def started(self, now_s: float) -> None:
        self._advance(now_s)
        self._inside += 1

    def finished(self, now_s: float, results: Sequence[Any]) -> None:
        """A call came back with one result per tuple: None or False if it was dropped."""
        self._complete(now_s, 1.0)
        self._seen += len(results)
        self._passed += sum(r is not None and r is not False for r in results)
        self._revise()

    def cancelled(self, now_s: float, started_s: float) -> None:
        """A call was taken back: the part of its work that was done counts."""
        part = (now_s - started_s) / self._estimate.service_time_s
        self._complete(now_s, min(1.0, part))

    def failed(self, now_s: float) -> None:
        """A call came to nothing: neither its time nor its end says anything."""
        self._advance(now_s)
        self._inside -= 1

    def _complete(self, now_s: float, work: float) -> None:
        self._advance(now_s)
        self._levels[self._inside].completions += work
        self._inside -= 1

    def _advance(self, now_s: float) -> None:
        elapsed = now_s - self._now_s if self._now_s is not None else 0.0
        self._now_s = now_s
        if elapsed > 0:
            kept = 0.5 ** (elapsed / self._half_life_s)
            self._seen *= kept
            self._passed *= kept
            for level in self._levels.values():
                level.seconds *= kept
                level.completions *= kept
        level = self._levels.setdefault(self._inside, _Level())
        level.seconds += elapsed

    def _revise(self) -> None:
        prior = self._prior
        selectivity = (self._passed + 2 * prior.selectivity) / (self._seen + 2)
        curve = {
            k: level
            for k, level in sorted(self._levels.items())
            if k > 0 and level.completions >= _EVIDENCE
        }
        if not curve:
            self._estimate = Estimate(prior.service_time_s, prior.threads, selectivity)
            return
        highest = max(level.rate_per_s for level in curve.values())
        threads = next(
            k for k, level in curve.items() if level.rate_per_s >= (1 - _FLAT / k) * highest
        )
        flat = [level for k, level in curve.items() if k >= threads]
        capacity = sum(f.completions for f in flat) / sum(f.seconds for f in flat)
        self._estimate = Estimate(threads / capacity, threads, selectivity)
