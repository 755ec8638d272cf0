"""What a filter service is to the router: a name, replicas that answer, and how they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.filters.declared import Estimate
from daybreak.model.errors import ConfigError, DaybreakError


class ServiceUnavailable(DaybreakError):
    """A replica gave no answer, though it may later: the router asks another, or again."""


class Replica(ABC):
    """One place where a service answers. All replicas of a service give the same answers."""

    #: Shown in reports and errors.
    address: str

    @abstractmethod
    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        """One result per tuple: None or False drops it, anything else passes and is kept.

        Called concurrently. Must not change anything: a call may be repeated after a failure.
        Raises ``ServiceUnavailable`` where trying again can help; any other error ends the run.
        """

    async def ping(self) -> None:
        """A round trip without work, for measuring the network's part; nothing by default."""
        return

    async def close(self) -> None:
        """Frees connections; called once, last."""
        return


@dataclass(frozen=True, kw_only=True)
class Service:
    """A filter as the asyncio router uses it."""

    name: str
    replicas: Sequence[Replica]
    #: Tuples (calls) each replica works on at the same time; None: found out from traffic.
    threads: int | None = None
    #: Filters that must have passed a tuple first.
    after: Sequence[str] = ()
    #: What to believe until traffic tells.
    selectivity: float = 0.5
    service_time_s: float = 0.1
    #: No answer within this time counts as a failure of the replica.
    timeout_s: float = 30.0
    #: Whether a call whose tuple was dropped elsewhere may be cancelled half-way.
    cancellable: bool = True

    def __post_init__(self) -> None:
        place = f"service {self.name!r}"
        if not self.replicas:
            raise ConfigError(place, "has no replica", "give at least one")
        if self.threads is not None and self.threads < 1:
            raise ConfigError(place, f"{self.threads} threads", "give at least 1, or leave it out")
        if not 0 <= self.selectivity <= 1:
            raise ConfigError(place, f"selectivity {self.selectivity}", "give 0 to 1")
        if not self.service_time_s > 0 or not self.timeout_s > 0:
            raise ConfigError(place, "a time that is not above 0", "give seconds above 0")

    @property
    def prior(self) -> Estimate:
        return Estimate(self.service_time_s, self.threads or 1, self.selectivity)
