"""Lookup joins in PostgreSQL as a filter service; needs the ``filters`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import asyncpg

from daybreak.filters.services.base import Replica, Service, shown_address

_UNAVAILABLE = (
    OSError,
    TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
_REFUSED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidPasswordError)


class PostgresReplica(Replica):
    """Asks one query per call, over at most ``connections`` connections."""

    def __init__(self, dsn: str, query: str, key: Callable[[Any], Any], connections: int) -> None:
        self.address = shown_address(dsn, ("postgresql", "postgres"))
        self._url = dsn
        self._query = query
        self._key = key
        self._connections = connections
        self._pool: asyncpg.Pool | None = None

    async def _connected(self) -> asyncpg.Pool:
        if self._pool is None:
            # Created here, at once, so that concurrent first calls share one pool; with
            # min_size 0 creating it connects nothing.
            self._pool = asyncpg.create_pool(
                self._url, min_size=0, max_size=self._connections, timeout=5
            )
        await self._pool  # initialises it the first time
        return self._pool

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        keys = [self._key(t) for t in tuples]
        try:
            rows = await (await self._connected()).fetch(self._query, keys)
        except (*_UNAVAILABLE, asyncpg.InterfaceError) as error:
            # InterfaceError also means wrong keys or arguments, for which no retry helps.
            if isinstance(error, asyncpg.InterfaceError) and "closed" not in str(error):
                raise
            await self._forget_connections()
            raise self._unavailable(error) from self.shown_cause(error)
        except _REFUSED as error:
            raise self._refused(f"does not accept the credentials ({error})") from None
        found = {row[0]: dict(row) for row in rows}
        return [found.get(key) for key in keys]

    async def _forget_connections(self) -> None:
        """After a restart every idle connection is dead: none of them may fail a tuple."""
        if self._pool is not None:
            await self._pool.expire_connections()

    async def ping(self) -> None:
        try:
            await (await self._connected()).execute("select 1")
        except _UNAVAILABLE as error:
            raise self._unavailable(error) from self.shown_cause(error)
        except _REFUSED as error:
            raise self._refused(f"does not accept the credentials ({error})") from None

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.terminate()


def postgres_service(
    name: str,
    dsns: Sequence[str],
    *,
    query: str,
    key: Callable[[Any], Any],
    connections: int | None = None,
    **options: Any,
) -> Service:
    """A tuple passes if the query returns a row for its key; the row is what it found.

    The query gets the keys of a call as one array and returns rows whose first column is the
    key, for example ``select id, country from users where id = any($1)``.
    """
    most = connections or options.get("threads") or 32
    return Service(
        name=name, replicas=[PostgresReplica(dsn, query, key, most) for dsn in dsns], **options
    )
