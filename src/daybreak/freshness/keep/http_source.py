"""One HTTP request with every bound: connecting, headers, body and the time of it all.

``http.client`` limits the length and the number of header lines, but neither a body nor the time
a whole answer takes: a server that sends a byte now and then resets a socket's timeout each time.
So the answer is read through `_Bounded`, which counts bytes and knows the deadline.
"""

from __future__ import annotations

import hashlib
import io
import json
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from daybreak.freshness.keep.mirror_source import Fetched, Listed, SourceError, printable
from daybreak.model.errors import ConfigError
from daybreak.model.redaction import shown_url

#: A longer wish of a server is cut to this: a mistaken header must not lose an object.
MOST_RETRY_AFTER_S = 86_400.0
#: Longer validators are not sent back: servers refuse requests with long headers.
_MOST_VALIDATOR = 1024
#: What headers and chunk lengths may add to a body.
_OVERHEAD_BYTES = 1 << 20
_READ_BYTES = 1 << 16
#: Characters of a path and of a query that are sent as they are; ``%`` keeps what is escaped.
_SAFE = "/%:@!$&'()*+,;=~-._?"


@dataclass(frozen=True, slots=True)
class Address:
    """A URL, taken apart and in the ASCII spelling that travels."""

    tls: bool
    host: str
    port: int
    #: The value of the Host header; also what requests are spaced by.
    netloc: str
    target: str
    authorization: str | None

    @classmethod
    def of(cls, url: str) -> Address:
        """ConfigError if the URL cannot be asked for at all."""
        try:
            return cls._of(url)
        except ValueError as error:
            reason = str(error) or "cannot be parsed"
            raise ConfigError(
                f"URL {shown_url(url, keep_query=True)!r}", reason, "give http://HOST[:PORT]/PATH"
            ) from None

    @classmethod
    def _of(cls, url: str) -> Address:
        if not url.isprintable():
            raise ValueError("contains control characters")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("is no http or https URL")
        try:
            port = parts.port
        except ValueError:  # its message repeats what stands there, which may be a password
            raise ValueError("its port is not a number from 1 to 65535") from None
        if port == 0:
            raise ValueError("its port is not a number from 1 to 65535")
        try:
            host = parts.hostname.encode("idna").decode("ascii")
        except UnicodeError:
            raise ValueError("its host name is not valid") from None
        tls = parts.scheme == "https"
        bracketed = f"[{host}]" if ":" in host else host
        path = quote(parts.path or "/", safe=_SAFE)
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
        authorization = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {b64encode(pair.encode()).decode()}"
        return cls(
            tls, host, port or (443 if tls else 80),
            bracketed if port is None else f"{bracketed}:{port}", path + query, authorization,
        )  # fmt: skip


class HttpSource:
    """Objects are URLs. Asks with If-None-Match and If-Modified-Since; heeds Retry-After.

    Follows no redirects: an object that moved is a failure that names the new place.
    """

    def __init__(self, urls: Iterable[str], timeout_s: float, max_bytes: int) -> None:
        self.addresses = {url: Address.of(url) for url in urls}
        self.timeout_s = timeout_s
        self.max_bytes = max_bytes

    def objects(self) -> Iterable[Listed]:
        return [Listed(url, address.netloc) for url, address in self.addresses.items()]

    def fetch(self, name: str, version: str | None) -> Fetched:
        address = self.addresses.get(name) or Address.of(name)
        known: dict[str, str] = json.loads(version) if version else {}
        headers = {"Host": address.netloc, "User-Agent": "daybreak-mirror", "Connection": "close"}
        if address.authorization is not None:
            headers["Authorization"] = address.authorization
        if "etag" in known:
            headers["If-None-Match"] = known["etag"]
        if "modified" in known:
            headers["If-Modified-Since"] = known["modified"]
        try:
            response, body = get(address, headers, self.timeout_s, self.max_bytes)
        except TimeoutError as error:
            raise SourceError(f"no complete answer within {self.timeout_s:g} s") from error
        except (OSError, HTTPException, ValueError) as error:
            raise SourceError(f"no answer ({type(error).__name__}: {error})") from error
        return _judge(response, body, version)

    def close(self) -> None:
        pass


def get(
    address: Address, headers: Mapping[str, str], timeout_s: float, max_bytes: int
) -> tuple[HTTPResponse, bytes]:
    """The answer and its body; TimeoutError unless all of it came within ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    sock = _connected(address, deadline_s)
    try:
        connection = HTTPConnection(address.host, address.port)
        connection.sock = _Bounded(sock, deadline_s, max_bytes + _OVERHEAD_BYTES)
        connection.putrequest("GET", address.target, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        return response, _body(response, max_bytes)
    finally:
        sock.close()


def _body(response: HTTPResponse, max_bytes: int) -> bytes:
    if response.status != 200:
        return b""
    if response.length is not None and response.length > max_bytes:
        raise SourceError(f"announces {response.length} bytes, more than max_bytes = {max_bytes}")
    body = bytearray()
    while part := response.read(_READ_BYTES):
        body += part
        if len(body) > max_bytes:
            raise SourceError(f"sends more than max_bytes = {max_bytes}")
    if response.length:  # what is still missing of the announced length
        raise SourceError(f"the body ended {response.length} bytes early")
    return bytes(body)


def _connected(address: Address, deadline_s: float) -> socket.socket:
    """A connection to the first of the host's addresses that takes it; all share the deadline."""
    failure: OSError = OSError(f"no address for {address.host}")
    for family, kind, protocol, _, place in socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM
    ):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_left_s(deadline_s))
            sock.connect(place)
            if not address.tls:
                return sock
            sock.settimeout(_left_s(deadline_s))
            # The timeout holds for the handshake as a whole.
            return ssl.create_default_context().wrap_socket(sock, server_hostname=address.host)
        except OSError as error:
            sock.close()
            failure = error
            if isinstance(error, TimeoutError):
                break
    raise failure


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("the time for this request is over")
    return left_s


class _Bounded:
    """The part of a socket that ``http.client`` uses, with a deadline and a budget of bytes."""

    def __init__(self, sock: socket.socket, deadline_s: float, most_bytes: int) -> None:
        self._sock = sock
        self._deadline_s = deadline_s
        self._most_bytes = most_bytes

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_left_s(self._deadline_s))
        self._sock.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self._sock, self._deadline_s, self._most_bytes))

    def close(self) -> None:
        """The answer may still be read; `get` closes the socket."""


class _Reader(io.RawIOBase):
    def __init__(self, sock: socket.socket, deadline_s: float, most_bytes: int) -> None:
        self._sock = sock
        self._deadline_s = deadline_s
        self._left_bytes = most_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left_s(self._deadline_s))
        count = self._sock.recv_into(buffer)
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise SourceError("sends more than max_bytes and its headers can be")
        return count


def _judge(response: HTTPResponse, body: bytes, version: str | None) -> Fetched:
    if response.status == 304 and version:
        return Fetched(version, None)
    if response.status != 200:
        moved = response.headers.get("Location")
        reason = f"status {response.status}"
        if moved:
            reason += f", moved to {shown_url(moved, keep_query=True)}"
        raise SourceError(reason, retry_after_s(response.headers))
    seen = {"hash": hashlib.sha256(body).hexdigest()}
    for key, header in (("etag", "ETag"), ("modified", "Last-Modified")):
        value = response.headers.get(header)
        if value and len(value) <= _MOST_VALIDATOR and value == printable(value):
            seen[key] = value
    # Many servers send the same page with another validator: only the content counts.
    same = version is not None and json.loads(version)["hash"] == seen["hash"]
    return Fetched(json.dumps(seen), None if same else body)


def retry_after_s(headers: Message) -> float | None:
    """Retry-After as seconds, whether given so or as a date (relative to the answer's Date).

    None if there is none or it cannot be understood; never more than ``MOST_RETRY_AFTER_S``.
    """
    wish = headers.get("Retry-After", "").strip()
    if wish.isascii() and wish.isdigit():
        # A number of hundreds of digits is infinite as a float, and cut as well.
        return min(float(wish), MOST_RETRY_AFTER_S)
    until, at = _moment(wish), _moment(headers.get("Date", ""))
    if until is None:
        return None
    wait_s = (until - (at or datetime.now(UTC))).total_seconds()
    return min(max(0.0, wait_s), MOST_RETRY_AFTER_S)


def _moment(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
        # "-0000" means UTC without a place, which Python gives as a time without a zone.
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
