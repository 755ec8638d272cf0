"""A plain client: it sends just the headers a test names."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from daybreak.dashboard.server import Dashboard


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    served: Dashboard,
    method: str,
    path: str,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    try:
        host = {"Host": f"127.0.0.1:{served.port}"} | dict(headers or {})
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in host.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


def own(served: Dashboard, **more: str) -> dict[str, str]:
    """The headers that our own page sends with a change."""
    csrf = ask(served, "GET", "/api/session").json["csrf"] if served.token is None else ""
    return {
        "Content-Type": "application/json",
        "Origin": f"http://127.0.0.1:{served.port}",
        "Sec-Fetch-Site": "same-origin",
        "X-Daybreak-CSRF": csrf,
    } | {name.replace("_", "-"): value for name, value in more.items()}


class Event(NamedTuple):
    kind: str
    id: str
    data: Any


@contextmanager
def events(served: Dashboard, last: str = "") -> Iterator[Iterator[Event]]:
    """An open stream of events."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
    connection.request("GET", "/events", headers={"Last-Event-ID": last} if last else {})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    assert answer.headers["content-type"].startswith("text/event-stream")

    def read() -> Iterator[Event]:
        found: dict[str, str] = {}
        while line := answer.readline():
            text = line.decode().rstrip("\n")
            if not text and "data" in found:
                yield Event(found["event"], found["id"], json.loads(found["data"]))
                found = {}
            elif ": " in text:
                key, _, value = text.partition(": ")
                found[key] = value

    try:
        yield read()
    finally:
        connection.close()
