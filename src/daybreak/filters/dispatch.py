"""Between routers and whoever runs the calls: the simulator in virtual time, or asyncio.

The dispatcher owns the tuples. It hands out calls, takes their results back, and decides each
tuple exactly once: dropped by the first filter that says so, passed when all have passed it.
A disjunction is decided the other way round: passed by the first filter that accepts the tuple,
dropped when all have rejected it. To a router both are the same: a filter decides a tuple, or lets
it go on to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.filters.routers.base import Routing
from daybreak.model.errors import ConfigError, EngineBug


def rejects(result: Any) -> bool:
    """Whether a filter's result says no."""
    return result is None or result is False


def going_on(results: Sequence[Any], any_of: bool) -> list[bool]:
    """Which tuples go on to other filters after these results: the share a router counts with."""
    return [rejects(r) is any_of for r in results]


@dataclass(slots=True, eq=False)
class Call:
    """Tuples on their way to one filter together; usually one."""

    filter: int
    tuples: list[StreamTuple]

    @property
    def pointless(self) -> bool:
        """Whether every tuple of it has been decided meanwhile: it may be cancelled."""
        return all(t.decided for t in self.tuples)


@dataclass(slots=True)
class Counts:
    """What the dispatcher has seen, for reports and laws."""

    arrived: int = 0
    passed: int = 0
    dropped: int = 0
    #: Tuples handed to filters; of these, those another filter was working on.
    handed: int = 0
    duplicated: int = 0
    #: Results that came when the tuple had been decided.
    wasted: int = 0

    @property
    def decided(self) -> int:
        return self.passed + self.dropped

    @property
    def undecided(self) -> int:
        return self.arrived - self.decided


@dataclass
class Dispatcher:
    """Drives one router over one conjunction of filters, or one disjunction."""

    routing: Routing
    estimates: Estimates
    dependencies: Dependencies
    rng: Random
    #: The most tuples that travel together; a call never waits to be full.
    batch: int = 1
    #: Whether one filter that accepts a tuple is enough.
    any_of: bool = False
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        if self.any_of and not self.dependencies.none:
            # "After" asks that another filter passed the tuple, which ends a disjunction.
            raise ConfigError(
                "filters",
                "a disjunction with dependencies",
                "leave out 'after', or use all filters",
            )
        self.routing.attach(self.estimates, self.dependencies, self.rng)

    def arrive(self, value: Any, now_s: float) -> StreamTuple:
        t = StreamTuple(self.counts.arrived, value, now_s)
        t.enter(self.dependencies)
        self.counts.arrived += 1
        self.routing.arrive(t)
        return t

    def assign(self, free: Sequence[int]) -> list[Call]:
        """Calls to start now, given how many threads each filter has free."""
        left = list(free)
        calls: list[Call] = []
        progress = True
        while progress:
            progress = False
            for i in self.routing.order([i for i, n in enumerate(left) if n > 0]):
                while left[i] > 0 and (call := self._next_call(i)) is not None:
                    left[i] -= 1
                    calls.append(call)
                    progress = True
        return calls

    def _next_call(self, filter_: int) -> Call | None:
        taken: list[StreamTuple] = []
        while len(taken) < self.batch:
            t = self.routing.pick(filter_, duplicate=not taken)
            if t is None:
                break
            if t.decided or not t.may_go_to(filter_):
                raise EngineBug(
                    f"router {self.routing.name} gave tuple {t.sequence} to filter {filter_}: "
                    f"decided={t.decided} passed={t.passed:b} running={t.running:b}"
                )
            self.counts.handed += 1
            self.counts.duplicated += t.num_running > 0
            t.start(filter_)
            taken.append(t)
        return Call(filter_, taken) if taken else None

    def finish(self, call: Call, results: Sequence[Any]) -> list[StreamTuple]:
        """Takes the results of a call, one per tuple: None or False drops it.

        Returns the tuples it decided.
        """
        decided: list[StreamTuple] = []
        for t, result in zip(call.tuples, results, strict=True):
            t.stop(call.filter)
            if t.decided:
                self.counts.wasted += 1
                continue
            accepted = not rejects(result)
            if accepted:
                t.found[call.filter] = result
            if accepted == self.any_of:
                self._count(accepted)
                decided.append(t)
            else:
                t.pass_(call.filter, self.dependencies)
                if t.passed == self.dependencies.everything:
                    self._count(accepted)
                    decided.append(t)
                else:
                    self.routing.release(t, call.filter)
                    continue
            t.decided = True
            self.routing.forget(t, call.filter)
        return decided

    def accepted(self, t: StreamTuple) -> bool:
        """Whether a decided tuple passed."""
        return (t.passed == self.dependencies.everything) is not self.any_of

    def _count(self, passed: bool) -> None:
        if passed:
            self.counts.passed += 1
        else:
            self.counts.dropped += 1

    def fail(self, call: Call) -> None:
        """The service gave no result: the tuples wait as if the call had never been made."""
        for t in call.tuples:
            t.stop(call.filter)
            if not t.decided:
                self.routing.release(t, call.filter)
