"""What a filter service is to the router: a name, replicas that answer, and how they are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from traceback import format_exception
from typing import Any
from urllib.parse import urlsplit

from daybreak.filters.declared_filters import Estimate
from daybreak.model.errors import ConfigError, DaybreakError
from daybreak.model.redaction import redacted, shown_url


class ServiceUnavailable(DaybreakError):
    """A replica gave no answer, though it may later: the router asks another, or again."""


class Replica(ABC):
    """One place where a service answers. All replicas of a service give the same answers."""

    #: Shown in reports, errors and logs: without credentials.
    address: str
    #: Its URL as declared, with credentials; never shown.
    _url: str = ""

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

    def redacted(self, text: str) -> str:
        """A text to be shown, without the credentials of this replica and of any URL in it."""
        return redacted(text, self._url)

    def shown_cause(self, error: BaseException) -> BaseException | None:
        """The error, to chain another one to, unless its traceback would show credentials."""
        trace = "".join(format_exception(error))
        return error if self.redacted(trace) == trace else None

    def _unavailable(self, error: BaseException) -> ServiceUnavailable:
        """A driver's error that a retry can fix."""
        text = self.redacted(str(error)) or type(error).__name__
        return ServiceUnavailable(f"{self.address}: {text}")

    def _refused(self, finding: str) -> ConfigError:
        """The service does not accept our credentials: no retry helps."""
        remedy = "check the user, password or token in its URL"
        return ConfigError(f"service at {self.address}", self.redacted(finding), remedy)


def shown_address(url: str, schemes: Collection[str]) -> str:
    """The URL as it may be shown; ConfigError, without credentials, if it is not one of these."""
    shown = shown_url(url) if "://" in url else f"a text of {len(url)} characters"
    form = f"give {next(iter(schemes))}://[USER:PASSWORD@]HOST[:PORT]; escape / ? # @ in a password"
    try:
        parts = urlsplit(url)
        several = "," in parts.netloc
        valid = parts.scheme in schemes and (several or (parts.port or 1) > 0)
    except ValueError:  # its text repeats parts of the URL
        valid = False
    if not valid:
        raise ConfigError("service URL", f"{shown} is not valid", form)
    return shown


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
