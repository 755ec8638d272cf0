"""Capacity from live traffic: no emptied network, no test tuples.

By Little's law a service that holds k calls, each for W_k seconds, completes X_k = k / W_k of
them per second. With ``threads`` threads a call does not wait while k <= threads and waits for
its turn beyond: X_k = min(k, threads) / st rises in proportion to k and then stays flat. So the
mean time of calls by how many were inside when they began gives the whole curve: its height is
the capacity, the level where it turns flat the number of threads. Old evidence fades, so the
curve follows a service that changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.filters.declared_filters import Estimate

#: A level is believed after so many calls and two rounds of as many as it holds; it remembers
#: about four times that. So a service that got slower is believed after as many calls, however
#: long they now take.
_EVIDENCE = 5.0
_ROUNDS = 2
_CALLS_KEPT = 32
_TUPLES_KEPT = 256
#: Level k is flat if X_k is at least (1 - 0.4/k) of the highest rate: one thread short of the
#: truth is at 1 - 1/(k+1), which is less, so neighbours are told apart; noise is beyond 0.96.
_FLAT = 0.4
_FLAT_ENOUGH = 0.96


#: What to believe of a service before its first calls have come back.
NOTHING_KNOWN = Estimate(service_time_s=0.1, threads=1, selectivity=0.5)


@dataclass(slots=True)
class _Level:
    """The calls that began when a given number was inside, themselves included."""

    calls: float = 0.0
    seconds: float = 0.0
    tuples: float = 0.0

    def scale(self, kept: float) -> None:
        self.calls *= kept
        self.seconds *= kept
        self.tuples *= kept


@dataclass(frozen=True, slots=True)
class CallTicket:
    """A call that is inside."""

    level: int
    started_s: float


class OnlineEstimator:
    """Estimates one service (or one replica of it) from its calls."""

    def __init__(self, prior: Estimate = NOTHING_KNOWN, half_life_s: float = 30.0) -> None:
        self._prior = prior
        self._half_life_s = half_life_s
        self._levels: dict[int, _Level] = {}
        self._inside = 0
        self._now_s = 0.0
        self._seen = self._passed = 0.0
        self._estimate = prior

    @property
    def estimate(self) -> Estimate:
        """Service time, threads and selectivity as the evidence stands."""
        return self._estimate

    @property
    def seen(self) -> float:
        """How many tuples the selectivity rests on."""
        return self._seen

    @property
    def limit(self) -> int:
        """How many calls to let in: as many as there are threads, at times more or fewer.

        More while nothing is known beyond the believed number of threads; fewer, halving the
        gap, until the level just below it is known not to do as well. Since evidence fades,
        both are looked at again now and then.
        """
        threads = round(self._estimate.threads)
        step = max(1, threads // 4)
        known = self._known()
        if not any(k > threads for k in known):
            return threads + step
        below = max((k for k in known if k < threads), default=max(0, threads - 2 * step))
        return (below + threads) // 2 if threads - below > 1 else threads

    def started(self, now_s: float) -> CallTicket:
        """A call goes in; hand the ticket back when it ends, whichever way."""
        self._inside += 1
        return CallTicket(self._inside, now_s)

    def finished(self, ticket: CallTicket, now_s: float, results: Sequence[Any]) -> None:
        """The call came back with one result per tuple: None or False if it was dropped."""
        self._inside -= 1
        self._fade(now_s)
        level = self._levels.setdefault(ticket.level, _Level())
        level.scale(1 - 1 / max(_CALLS_KEPT, 4 * _ROUNDS * ticket.level))
        level.calls += 1
        level.seconds += now_s - ticket.started_s
        level.tuples += len(results)
        kept = (1 - 1 / _TUPLES_KEPT) ** len(results)
        self._seen = kept * self._seen + len(results)
        passed = sum(r is not None and r is not False for r in results)
        self._passed = kept * self._passed + passed
        self._revise()

    def gone(self, ticket: CallTicket) -> None:
        """The call failed or was taken back: how long it took says nothing."""
        self._inside -= 1

    def _known(self) -> list[int]:
        """Levels with enough evidence, lowest first."""
        return sorted(k for k, v in self._levels.items() if v.calls >= max(_EVIDENCE, _ROUNDS * k))

    def _fade(self, now_s: float) -> None:
        kept = 0.5 ** ((now_s - self._now_s) / self._half_life_s)
        self._now_s = now_s
        self._seen *= kept
        self._passed *= kept
        for level in self._levels.values():
            level.scale(kept)

    def _revise(self) -> None:
        prior = self._prior
        selectivity = (self._passed + 2 * prior.selectivity) / (self._seen + 2)
        rates = {
            k: k * self._levels[k].tuples / max(self._levels[k].seconds, 1e-9)
            for k in self._known()
        }
        if not rates:
            self._estimate = Estimate(prior.service_time_s, prior.threads, selectivity)
            return
        highest = max(rates.values())
        threads = next(
            k for k, rate in rates.items() if rate >= min(_FLAT_ENOUGH, 1 - _FLAT / k) * highest
        )
        self._estimate = Estimate(threads / rates[threads], threads, selectivity)
