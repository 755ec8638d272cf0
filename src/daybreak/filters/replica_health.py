"""Which replicas of a service are up, how many calls they hold, what they can do.

No clock and no sockets: the router says what happened and when.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from daybreak.filters.capacity import CallTicket, OnlineEstimator
from daybreak.filters.declared_filters import Estimate
from daybreak.filters.measurement import Capacity, Trigger
from daybreak.filters.services.base import Replica, Service

FIRST_RETRY_S = 0.05
LONGEST_RETRY_S = 2.0


@dataclass(eq=False)
class ReplicaState:
    """One replica: up until a call fails, then asked again after growing pauses, singly."""

    replica: Replica
    #: None: as many as the estimator finds.
    threads: int | None
    estimator: OnlineEstimator
    #: Set if capacity is measured the report's way: then when, and what it found.
    trigger: Trigger | None = None
    measured: Capacity | None = None
    #: Being emptied for a measurement: no new calls.
    draining: bool = False
    in_flight: int = 0
    failures: int = 0
    retry_at_s: float = 0.0
    last_error: str | None = None

    @property
    def up(self) -> bool:
        return self.failures == 0

    @property
    def limit(self) -> int:
        if self.threads is not None:
            return self.threads
        if self.trigger is not None:
            return self.measured.threads if self.measured else 1
        return self.estimator.limit

    @property
    def estimate(self) -> Estimate:
        known = self.estimator.estimate
        if self.measured is not None:
            m = self.measured
            return Estimate(m.service_time_s, m.threads, known.selectivity)
        return known

    def free(self, now_s: float) -> int:
        """How many calls it may get now."""
        if self.draining:
            return 0
        if not self.up:
            return int(self.in_flight == 0 and now_s >= self.retry_at_s)
        return max(0, self.limit - self.in_flight)

    def started(self, now_s: float) -> CallTicket:
        self.in_flight += 1
        return self.estimator.started(now_s)

    def finished(self, ticket: CallTicket, now_s: float, results: list[Any]) -> None:
        self.in_flight -= 1
        self.failures = 0
        self.estimator.finished(ticket, now_s, results)
        if self.trigger is not None:
            self.trigger.returned(now_s - ticket.started_s)

    def cancelled(self, ticket: CallTicket) -> None:
        self.in_flight -= 1
        self.estimator.gone(ticket)

    def failed(self, ticket: CallTicket, now_s: float, error: str) -> None:
        self.in_flight -= 1
        self.estimator.gone(ticket)
        self.last_error = error
        if now_s >= self.retry_at_s:  # calls that fail together are one failure
            self.failures += 1
            pause_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2 ** (self.failures - 1))
            self.retry_at_s = now_s + pause_s


@dataclass(eq=False)
class ServiceState:
    """A service and its replicas."""

    service: Service
    replicas: list[ReplicaState] = field(default_factory=list)
    #: Since when no replica is up.
    dead_since_s: float | None = None

    @classmethod
    def of(cls, service: Service, probing: bool, any_of: bool = False) -> ServiceState:
        prior = service.prior.negated if any_of else service.prior
        return cls(
            service,
            [
                ReplicaState(
                    replica,
                    service.threads,
                    OnlineEstimator(prior),
                    Trigger() if probing and service.threads is None else None,
                )
                for replica in service.replicas
            ],
        )

    def free(self, now_s: float) -> int:
        return sum(r.free(now_s) for r in self.replicas)

    def choose(self, now_s: float) -> ReplicaState:
        """The replica with the largest part free; one that is up before one to be tried."""
        able = [r for r in self.replicas if r.free(now_s) > 0]
        return max(able, key=lambda r: (r.up, r.free(now_s) / max(1, r.limit)))

    def observe(self, now_s: float) -> None:
        """Notes whether the service is dead; call after every success or failure."""
        if any(r.up for r in self.replicas):
            self.dead_since_s = None
        elif self.dead_since_s is None:
            self.dead_since_s = now_s

    def next_retry_s(self, now_s: float) -> float | None:
        """When a replica that is down may be asked again, if not already now."""
        times = [r.retry_at_s for r in self.replicas if not r.up and r.retry_at_s > now_s]
        return min(times, default=None)

    @property
    def estimate(self) -> Estimate:
        """Capacities of the replicas that are up add up; of all, if none is."""
        counted = [r for r in self.replicas if r.up] or self.replicas
        estimates = [r.estimate for r in counted]
        threads = sum(e.threads for e in estimates)
        capacity = sum(e.capacity_per_s for e in estimates)
        seen = [r.estimator.seen + 1 for r in counted]
        selectivity = sum(e.selectivity * s for e, s in zip(estimates, seen, strict=True)) / sum(
            seen
        )
        return Estimate(threads / capacity, threads, selectivity)
