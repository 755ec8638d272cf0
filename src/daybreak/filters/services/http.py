"""Any HTTP service as a filter; needs the ``filters`` extra."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx2

from daybreak.filters.services.base import Replica, Service, shown_address
from daybreak.model.errors import ConfigError
from daybreak.model.redaction import redacted, shown_url


class HttpReplica(Replica):
    """Gets one address per tuple: 200 passes with the JSON body, 204 and 404 drop.

    A query in ``base_url``, such as a token, is added to every request.
    """

    def __init__(self, base_url: str, path: Callable[[Any], str]) -> None:
        self.address = shown_address(base_url, ("http", "https"))
        self._url = base_url
        self._path = path
        parts = urlsplit(base_url)
        self._query = parts.query
        auth = None
        if parts.username is not None:
            auth = httpx2.BasicAuth(unquote(parts.username), unquote(parts.password or ""))
        host = parts.netloc.rpartition("@")[2]
        _HIDING.urls.add(base_url)
        try:
            self._client = httpx2.AsyncClient(
                base_url=parts._replace(netloc=host, query="", fragment="").geturl(),
                auth=auth,
                timeout=None,
            )
        except httpx2.InvalidURL as error:
            raise ConfigError(
                f"service at {self.address}", self.redacted(str(error)), "correct its URL"
            ) from None

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        return [await self._one(t) for t in tuples]

    async def _one(self, t: Any) -> Any:
        path = self._path(t)
        if httpx2.URL(path).is_absolute_url:
            # A tuple must not decide who gets the credentials.
            raise ConfigError(
                f"service at {self.address}", f"path gives {shown_url(path)}", "give a path, no URL"
            )
        if self._query:
            path += ("&" if "?" in path else "?") + self._query
        try:
            response = await self._client.get(path)
        except httpx2.TransportError as error:
            raise self._unavailable(error) from self.shown_cause(error)
        status = response.status_code
        if status in {HTTPStatus.NOT_FOUND, HTTPStatus.NO_CONTENT}:
            return None
        if status >= 500 or status == HTTPStatus.TOO_MANY_REQUESTS:
            raise self._unavailable(RuntimeError(f"status {status}"))
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise self._refused(f"answers with status {status}")
        if not response.is_success:
            raise ConfigError(
                f"service at {self.address}",
                f"answers {shown_url(path)} with status {status}",
                "correct path, or make it answer with 200, 204 or 404",
            )
        return response.json()

    async def close(self) -> None:
        await self._client.aclose()


class _Hiding(logging.Filter):
    """httpx logs the URL of every request at level INFO; without this, with its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(
                redacted(str(arg), *self.urls) if isinstance(arg, httpx2.URL) else arg
                for arg in record.args
            )
        return True


_HIDING = _Hiding()
logging.getLogger("httpx2").addFilter(_HIDING)


def http_service(
    name: str, urls: Sequence[str], *, path: Callable[[Any], str], **options: Any
) -> Service:
    """One url per replica; ``path(tuple)`` is what is asked there."""
    return Service(name=name, replicas=[HttpReplica(url, path) for url in urls], **options)
