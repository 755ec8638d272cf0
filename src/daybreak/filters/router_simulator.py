"""Filter services in virtual time: the routers, driven by declared times and probabilities.

Each service has ``threads`` threads and a queue, first come, first served. A tuple's fate at
each filter is drawn when it arrives, so all routers see the same tuples with the same fates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Literal

import numpy as np

from daybreak.filters.capacity import CallTicket, OnlineEstimator
from daybreak.filters.declared_filters import Filter, check_names
from daybreak.filters.dependencies import Dependencies
from daybreak.filters.dispatch import Call, Counts, Dispatcher, going_on
from daybreak.filters.estimates import Estimates
from daybreak.filters.routers import Routing
from daybreak.model.errors import ConfigError
from daybreak.model.qos import NS_PER_S

Process = Literal["poisson", "uniform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterChange:
    """From ``at_s`` on the filter is another one: other time, threads or selectivity."""

    at_s: float
    filter: int
    service_time_s: float | None = None
    threads: int | None = None
    selectivity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What arrives: an open stream of a rate, or a closed loop that keeps tuples waiting."""

    tuples: int
    #: Open: tuples per second, exponential gaps (poisson) or equal ones (uniform).
    rate_per_s: float | None = None
    process: Process = "poisson"
    #: Closed: so many undecided tuples at any time; measures saturation, as an open stream
    #: cannot (what it decides per second may exceed F* by what it leaves undone).
    population: int | None = None
    #: Leading fraction of the tuples that is not measured.
    warmup: float = 0.1
    #: The share of tuples that meet one fate at all filters: what the less selective of two lets
    #: pass includes what the other does. Selectivities stay as they are.
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if (self.rate_per_s is None) == (self.population is None):
            raise ConfigError("load", "open or closed?", "give either a rate or a population")
        if self.rate_per_s is not None and not 0 < self.rate_per_s <= 1e6:
            raise ConfigError("load", f"rate {self.rate_per_s}/s", "give a rate in (0, 1e6]")
        if self.population is not None and self.population < 1:
            raise ConfigError("load", f"population {self.population}", "give at least 1")
        if not 0 <= self.correlation <= 1:
            raise ConfigError("load", f"correlation {self.correlation}", "give a share, 0 to 1")
        if self.tuples < 1:
            raise ConfigError("load", f"{self.tuples} tuples", "give at least 1")


@dataclass(frozen=True)
class SimulationReport:
    """What one run came to; latencies are from arrival to decision, of all measured tuples."""

    latencies_s: np.ndarray[Any, np.dtype[np.float64]]
    #: Of those, which passed all filters.
    passed: np.ndarray[Any, np.dtype[np.bool_]]
    #: Decisions per second, from the end of the warm-up to the last arrival.
    throughput_per_s: float
    #: When each tuple was decided, all of them, in order.
    decided_s: np.ndarray[Any, np.dtype[np.float64]]
    counts: Counts
    #: Busy fraction of each filter's threads.
    utilisation: tuple[float, ...]

    @property
    def mean_latency_s(self) -> float:
        return float(self.latencies_s.mean())


@dataclass(slots=True, eq=False)
class _Started:
    """A call inside a service."""

    call: Call
    began_ns: int
    ticket: CallTicket | None
    cancelled: bool = False


@dataclass(slots=True)
class _SimulatedService:
    """Threads and a queue; knows nothing of routers."""

    filter: Filter
    waiting: deque[_Started] = field(default_factory=deque)
    running: int = 0
    busy_ns: int = 0


def simulate(
    filters: Sequence[Filter],
    routing: Routing,
    load: Load,
    seed: int,
    *,
    changes: Sequence[FilterChange] = (),
    online: bool = False,
    batch: int = 1,
    call_overhead_s: float = 0.0,
    cancel: bool = False,
    any_of: bool = False,
) -> SimulationReport:
    """Runs the router until every tuple of the load is decided.

    With ``online`` the router starts knowing nothing and learns times, threads and selectivities
    from traffic; otherwise it is told what is declared (and of no ``changes``). A call of b
    tuples holds a thread for ``call_overhead_s + b * service_time_s``. With ``cancel`` a thread
    stops working on a tuple that others have dropped. With ``any_of`` a tuple passes as soon as
    one filter accepts it.
    """
    return _Simulation(
        filters, routing, load, seed, changes, online, batch, call_overhead_s, cancel, any_of
    ).run()


class _Simulation:
    def __init__(
        self,
        filters: Sequence[Filter],
        routing: Routing,
        load: Load,
        seed: int,
        changes: Sequence[FilterChange],
        online: bool,
        batch: int,
        call_overhead_s: float,
        cancel: bool,
        any_of: bool,
    ) -> None:
        check_names([f.name for f in filters])
        self.load = load
        self.services = [_SimulatedService(f) for f in filters]
        self.in_flight = [0] * len(filters)
        self.overhead_ns = round(call_overhead_s * NS_PER_S)
        self.cancel = cancel
        self.arrivals = Random(f"{seed}/arrivals")
        self.fates = Random(f"{seed}/fates")
        self.online = [OnlineEstimator() for _ in filters] if online else None
        declared = [f.estimate.negated if any_of else f.estimate for f in filters]
        known = [o.estimate for o in self.online] if self.online else declared
        self.estimates = Estimates(known)
        self.dispatcher = Dispatcher(
            routing,
            self.estimates,
            Dependencies([f.name for f in filters], {f.name: f.after for f in filters}),
            Random(f"{seed}/routes"),
            batch,
            any_of,
        )
        self.now_ns = 0
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self._calls: dict[int, set[_Started]] = {}
        self._latencies: list[float] = []
        self._passed: list[bool] = []
        self._last_arrival_ns = 0
        self._decided_ns: list[int] = []
        for change in changes:
            self._at(round(change.at_s * NS_PER_S), lambda c=change: self._change(c))  # type: ignore[misc]

    def run(self) -> SimulationReport:
        if self.load.population is not None:
            for _ in range(min(self.load.population, self.load.tuples)):
                self._arrive()
        else:
            self._at(self._gap_ns(), self._next_arrival)
        self._dispatch()
        while self._events:
            self.now_ns = self._events[0][0]
            # Everything that happens at one instant comes first: a filter that chose between two
            # completions of it would choose as if the second were still to come.
            while self._events and self._events[0][0] == self.now_ns:
                heappop(self._events)[2]()
            self._dispatch()
        return self._report()

    @property
    def _now_s(self) -> float:
        return self.now_ns / NS_PER_S

    def _at(self, when_ns: int, action: Callable[[], None]) -> None:
        heappush(self._events, (when_ns, next(self._sequence), action))

    def _gap_ns(self) -> int:
        rate = self.load.rate_per_s
        assert rate is not None
        gap_s = self.arrivals.expovariate(rate) if self.load.process == "poisson" else 1 / rate
        return round(gap_s * NS_PER_S)

    def _next_arrival(self) -> None:
        self._arrive()
        if self.dispatcher.counts.arrived < self.load.tuples:
            self._at(self.now_ns + self._gap_ns(), self._next_arrival)

    def _arrive(self) -> None:
        if self.load.correlation and self.fates.random() < self.load.correlation:
            fates = [self.fates.random()] * len(self.services)
        else:
            fates = [self.fates.random() for _ in self.services]
        t = self.dispatcher.arrive(fates, self._now_s)
        self._calls[t.sequence] = set()
        self._last_arrival_ns = self.now_ns

    def _change(self, change: FilterChange) -> None:
        service = self.services[change.filter]
        old = service.filter
        service.filter = Filter(
            name=old.name,
            after=old.after,
            service_time_s=change.service_time_s or old.service_time_s,
            threads=change.threads or old.threads,
            selectivity=old.selectivity if change.selectivity is None else change.selectivity,
        )

    def _dispatch(self) -> None:
        if self.online:
            limits = [o.limit for o in self.online]
        else:
            limits = [s.filter.threads for s in self.services]
        free = [limit - n for limit, n in zip(limits, self.in_flight, strict=True)]
        for call in self.dispatcher.assign(free):
            ticket = self.online[call.filter].started(self._now_s) if self.online else None
            started = _Started(call, self.now_ns, ticket)
            self.in_flight[call.filter] += 1
            for t in call.tuples:
                self._calls[t.sequence].add(started)
            self.services[call.filter].waiting.append(started)
            self._serve(call.filter)

    def _serve(self, filter_: int) -> None:
        service = self.services[filter_]
        while service.waiting and service.running < service.filter.threads:
            started = service.waiting.popleft()
            if started.cancelled:
                continue
            service.running += 1
            started.began_ns = self.now_ns
            work_ns = len(started.call.tuples) * round(service.filter.service_time_s * NS_PER_S)
            self._at(
                self.now_ns + self.overhead_ns + work_ns,
                lambda s=started: self._complete(s),  # type: ignore[misc]
            )

    def _complete(self, started: _Started) -> None:
        if started.cancelled:
            return
        call = started.call
        selectivity = self.services[call.filter].filter.selectivity
        results = [t.value[call.filter] < selectivity for t in call.tuples]
        self._leave(started)
        if self.online and started.ticket:
            seen = going_on(results, self.dispatcher.any_of)
            self.online[call.filter].finished(started.ticket, self._now_s, seen)
            self.estimates.update(call.filter, self.online[call.filter].estimate)
        for t in self.dispatcher.finish(call, results):
            self._decided(t.sequence, t.arrived_s, self.dispatcher.accepted(t))

    def _leave(self, started: _Started) -> None:
        service = self.services[started.call.filter]
        service.busy_ns += self.now_ns - started.began_ns
        service.running -= 1
        self.in_flight[started.call.filter] -= 1
        for t in started.call.tuples:
            if t.sequence in self._calls:
                self._calls[t.sequence].discard(started)
        self._serve(started.call.filter)

    def _decided(self, sequence: int, arrived_s: float, passed: bool) -> None:
        others = self._calls.pop(sequence)
        if self.cancel:
            for other in others:
                self._cancel(other)
        if sequence >= self.load.warmup * self.load.tuples:
            self._latencies.append(self._now_s - arrived_s)
            self._passed.append(passed)
        self._decided_ns.append(self.now_ns)
        if self.load.population is not None and self.dispatcher.counts.arrived < self.load.tuples:
            self._arrive()

    def _cancel(self, started: _Started) -> None:
        if not started.call.pointless:
            return
        if started in self.services[started.call.filter].waiting:
            return  # it will be served and found wasted; only running calls hold a thread
        started.cancelled = True
        if self.online and started.ticket:
            self.online[started.call.filter].gone(started.ticket)
        self._leave(started)
        self.dispatcher.fail(started.call)

    def _report(self) -> SimulationReport:
        # After the last arrival the run only drains; rates of that part mean nothing.
        decided_s = np.array(self._decided_ns) / NS_PER_S
        end_s = self._last_arrival_ns / NS_PER_S
        inside = decided_s[decided_s <= end_s]
        first = int(self.load.warmup * len(inside))
        begin_s = float(inside[first]) if first < len(inside) else end_s
        return SimulationReport(
            np.array(self._latencies),
            np.array(self._passed),
            (len(inside) - first - 1) / (end_s - begin_s) if end_s > begin_s else float("nan"),
            decided_s,
            self.dispatcher.counts,
            tuple(s.busy_ns / max(1, self.now_ns * s.filter.threads) for s in self.services),
        )
