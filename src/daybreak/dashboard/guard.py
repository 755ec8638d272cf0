"""Who may look, and who may change.

A page on the loopback address is for whoever is on this machine; anywhere else a token is needed.
A change must come from our own page: not from a link, a form or a script of another site.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from starlette.requests import Request

from daybreak.model.errors import ConfigError

#: The header that carries what only our own page can have read.
CSRF_HEADER = "x-daybreak-csrf"
LEAST_TOKEN = 16


class RequestRefused(Exception):
    """A request that is not allowed: its status and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


def parse_address(text: str, place: str = "--dashboard-address") -> tuple[str, int]:
    """HOST:PORT, or PORT alone for the loopback address."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]") if colon else "127.0.0.1"
    if not port.isdecimal() or int(port) > 65535 or not host:
        raise ConfigError(place, f"is {text!r}", "give HOST:PORT, such as 127.0.0.1:8265")
    return host, int(port)


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def new_token() -> str:
    return secrets.token_urlsafe(24)


class Guard:
    """Judges requests to one server."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        """``ConfigError`` if others could reach it and there is no good token."""
        self.loopback = is_loopback(host)
        if token is None and not self.loopback:
            raise ConfigError(f"dashboard on {host}", "has no token", "give one, or use 127.0.0.1")
        if token is not None and len(token) < LEAST_TOKEN:
            raise ConfigError(
                "dashboard token", "is too short", f"give at least {LEAST_TOKEN} characters"
            )
        self._token = token
        self.cookie = f"daybreak-{port}"
        #: Proves that the token was known once, and tells nothing of it.
        self._pass = hmac.digest((token or "").encode(), b"daybreak cookie", sha256).hex()
        self.csrf = secrets.token_urlsafe(24)
        self._names = {"localhost", host.lower(), *_own_names()} if not self.loopback else set()

    def check_host(self, request: Request) -> None:
        """Against DNS rebinding: a name that somebody else points here is not ours."""
        host = _host_name(request.headers.get("host", ""))
        known = is_loopback(host) if self.loopback else host in self._names or _is_address(host)
        if not known:
            raise RequestRefused(421, "no such host here")

    def check_reader(self, request: Request) -> bool:
        """Raises unless the request may look; True if it showed the token in its address."""
        if self._token is None:
            return False
        given = request.query_params.get("token")
        if given is not None and self._same(given, self._token):
            return True
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._same(bearer, self._token):
            return False
        if self._same(_cookie(request, self.cookie), self._pass):
            return False
        raise RequestRefused(401, "open the address with the token that daybreak printed")

    def check_writer(self, request: Request) -> None:
        """Raises unless the request comes from our own page."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise RequestRefused(415, "a change is application/json")
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is None and origin is None:
            raise RequestRefused(403, "a change comes from the page: its origin is missing")
        if site is not None and site != "same-origin":
            raise RequestRefused(403, "a change comes from the page itself")
        host = request.headers.get("host", "")
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            raise RequestRefused(403, "a change comes from the page itself")
        if not self._same(request.headers.get(CSRF_HEADER, ""), self.csrf):
            raise RequestRefused(403, "the page is of an earlier start: reload it")

    def set_cookie(self) -> str:
        """The header that lets a browser in from now on."""
        return f"{self.cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/"

    @staticmethod
    def _same(given: str, expected: str) -> bool:
        """In a time that does not tell how much of it was right."""
        return hmac.compare_digest(given.encode(), expected.encode())


def _cookie(request: Request, name: str) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _host_name(header: str) -> str:
    """Without the port, which a tunnel may have changed."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _own_names() -> set[str]:
    return {socket.gethostname().lower(), socket.getfqdn().lower()}


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
