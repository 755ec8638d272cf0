"""Bounds on connections: a client that never finishes its requests cannot lock others out.

uvicorn limits connections in total and answers everybody with 503 beyond that, so that whoever
opens a hundred sockets and stays silent closes the page for all. Here a request has to be complete
in time, and where there are too many connections, the ones that wait for a request go first, the
oldest of the client that has most.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import Counter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

#: From the connection, or from the last answer, to the last byte of a request.
REQUEST_WITHIN_S = 15.0
#: More than pages there may be (`hub.MOST_PAGES`), each with a few more connections at its start.
MOST_PER_CLIENT = 64
MOST_CONNECTIONS = 256


class Connections:
    """The open connections of one server, oldest first. Used by its event loop alone."""

    def __init__(
        self,
        request_within_s: float = REQUEST_WITHIN_S,
        most_per_client: int = MOST_PER_CLIENT,
        most: int = MOST_CONNECTIONS,
    ) -> None:
        self.request_within_s = request_within_s
        self._most_per_client = most_per_client
        self._most = most
        #: By client; a dictionary for its order.
        self._open: dict[HttpConnection, str] = {}

    def add(self, connection: HttpConnection, client: str) -> bool:
        """Whether the connection may stay; another one may have to go for it."""
        self._open[connection] = client
        counts = Counter(self._open.values())
        if counts[client] > self._most_per_client:
            return self._make_room(client, connection)
        if len(self._open) > self._most:
            return self._make_room(counts.most_common(1)[0][0], connection)
        return True

    def remove(self, connection: HttpConnection) -> None:
        self._open.pop(connection, None)

    def _make_room(self, client: str, newcomer: HttpConnection) -> bool:
        for connection, of in self._open.items():
            if of == client and connection is not newcomer and connection.waits:
                self.remove(connection)
                connection.transport.abort()
                return True
        self.remove(newcomer)
        return False

    def protocol(self) -> type[HttpConnection]:
        """What uvicorn makes for every connection of this server."""
        return type("BoundedConnection", (HttpConnection,), {"connections_of_server": self})


class HttpConnection(H11Protocol):
    """One connection; it ends if a request is not complete in time."""

    connections_of_server: Connections
    _deadline: asyncio.TimerHandle | None = None

    @property
    def waits(self) -> bool:
        """Whether the next thing to happen is up to the client: its request is not complete."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.connections_of_server.add(self, client_of(transport)):
            self._watch()
        else:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections_of_server.remove(self)
        self._unwatch()
        super().connection_lost(exc)

    def _watch(self) -> None:
        """Starts the timer where the client is awaited; bytes that drip do not restart it."""
        if not self.waits:
            self._unwatch()
        elif self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(
                self.connections_of_server.request_within_s, self.transport.abort
            )

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def client_of(transport: asyncio.BaseTransport) -> str:
    """Who connects: an IPv4 address, or the network of an IPv6 address, which is one customer's."""
    peer: Any = transport.get_extra_info("peername")
    if not isinstance(peer, tuple):
        return "unknown"
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
