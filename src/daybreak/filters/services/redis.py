"""Lookups in Redis as a filter service; needs the ``filters`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from daybreak.filters.services.base import Replica, Service, shown_address
from daybreak.model.errors import ConfigError, DaybreakError

_UNAVAILABLE = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    OSError,
)
#: Commands for one tuple, such as ``[("GET", "user:7")]``; the last one's reply counts.
Commands = Callable[[Any], Sequence[Sequence[Any]]]


class RedisReplica(Replica):
    """Runs each call's commands in one round trip on one connection."""

    def __init__(
        self,
        url: str,
        commands: Commands,
        keep: Callable[[Any, Any], Any] | None,
        connections: int,
    ) -> None:
        self.address = shown_address(url, ("redis", "rediss", "unix"))
        self._url = url
        self._commands = commands
        self._keep = keep
        try:
            # The router retries, on another replica if there is one; a second layer would hide it.
            pool = BlockingConnectionPool.from_url(
                url,
                max_connections=connections,
                timeout=None,
                decode_responses=True,
                retry=Retry(NoBackoff(), 0),
                socket_connect_timeout=5,
            )
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"service at {self.address}", self.redacted(str(error)), "correct its URL"
            ) from None
        self._client: Redis = Redis.from_pool(pool)

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        last: list[int] = []
        pipeline = self._client.pipeline(transaction=False)
        queued = 0
        for t in tuples:
            for command in self._commands(t):
                pipeline.execute_command(*command)
                queued += 1
            last.append(queued - 1)
        try:
            replies = await pipeline.execute()
        except _UNAVAILABLE as error:
            raise self._judged(error) from self.shown_cause(error)
        found = [replies[k] for k in last]
        if self._keep is None:
            return found
        return [self._keep(t, reply) for t, reply in zip(tuples, found, strict=True)]

    async def ping(self) -> None:
        try:
            await self._client.ping()
        except _UNAVAILABLE as error:
            raise self._judged(error) from self.shown_cause(error)

    def _judged(self, error: Exception) -> DaybreakError:
        # A kind of ConnectionError, but no retry helps.
        if isinstance(error, (exceptions.AuthenticationError, exceptions.AuthorizationError)):
            return self._refused(f"does not accept the credentials ({error})")
        return self._unavailable(error)

    async def close(self) -> None:
        await self._client.aclose()


def redis_service(
    name: str,
    urls: Sequence[str],
    *,
    commands: Commands,
    keep: Callable[[Any, Any], Any] | None = None,
    connections: int = 64,
    **options: Any,
) -> Service:
    """A tuple passes if the reply is there, or if ``keep(tuple, reply)`` says so.

    Give one url per replica, and for each tuple the commands to run, for example
    ``commands=lambda t: [("HGETALL", f"user:{t['user']}")]``.
    """
    # A connection cancelled between command and reply has to be closed: dearer than the wait.
    options.setdefault("cancellable", False)
    return Service(
        name=name,
        replicas=[RedisReplica(url, commands, keep, connections) for url in urls],
        **options,
    )
