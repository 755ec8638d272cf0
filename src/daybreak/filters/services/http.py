"""Any HTTP service as a filter; needs the ``filters`` extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import httpx2

from daybreak.filters.services.base import Replica, Service, ServiceUnavailable


class HttpReplica(Replica):
    """Gets one address per tuple: 200 passes with the JSON body, 204 and 404 drop."""

    def __init__(self, base_url: str, path: Callable[[Any], str]) -> None:
        self.address = base_url
        self._path = path
        self._client = httpx2.AsyncClient(base_url=base_url, timeout=None)

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        return [await self._one(t) for t in tuples]

    async def _one(self, t: Any) -> Any:
        try:
            response = await self._client.get(self._path(t))
        except httpx2.TransportError as error:
            raise ServiceUnavailable(f"{self.address}: {error or type(error).__name__}") from error
        status = response.status_code
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.NO_CONTENT}:
            return None
        if status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise ServiceUnavailable(f"{self.address}: status {status}")
        response.raise_for_status()
        return response.json()

    async def close(self) -> None:
        await self._client.aclose()


def http_service(
    name: str, urls: Sequence[str], *, path: Callable[[Any], str], **options: Any
) -> Service:
    """One url per replica; ``path(tuple)`` is what is asked there."""
    return Service(name=name, replicas=[HttpReplica(url, path) for url in urls], **options)
