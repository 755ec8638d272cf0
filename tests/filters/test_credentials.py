"""No password and no token of a service is shown: in errors, tracebacks, logs and failures."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from benchmarks.servers import free_port
from tests.filters.conftest import Servers
from tests.freshness.keep.servers import POLL_S

from daybreak.filters import CallFailure, FilterFailed, Router, Service, callable_service
from daybreak.filters.probing import measure_replica
from daybreak.filters.services.http import http_service
from daybreak.filters.services.postgres import postgres_service
from daybreak.filters.services.redis import redis_service
from daybreak.model import ConfigError

SECRET = "hunter2/Xy"
ESCAPED = "hunter2%2FXy"


def redis(url: str) -> Service:
    return redis_service("asked", [url], commands=lambda k: [("GET", k)], threads=2)


def postgres(url: str) -> Service:
    query = "select id from stock where id = any($1)"
    return postgres_service("asked", [url], query=query, key=lambda k: k, threads=2)


def http(url: str) -> Service:
    return http_service("asked", [url], path=lambda k: f"/score/{k}", threads=2)


MAKERS: dict[str, Callable[[str], Service]] = {"redis": redis, "postgresql": postgres, "http": http}


def hidden(text: str) -> None:
    assert "hunter2" not in text, text
    assert "t0ken-1" not in text, text


def ended(service: Service, failures: list[CallFailure]) -> FilterFailed:
    """The error that a run with this one service ends with."""

    async def run() -> None:
        router = Router([service], give_up_s=0, on_failure=failures.append)
        async with router:
            async for _ in router.run(range(3)):
                pass

    with pytest.raises(FilterFailed) as caught:
        asyncio.run(run())
    return caught.value


@pytest.mark.parametrize("scheme", MAKERS)
def test_a_connection_refused_shows_no_credentials(
    scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    query = {"redis": "", "postgresql": "?application_name=t0ken-1", "http": "?token=t0ken-1"}
    url = f"{scheme}://ann:{ESCAPED}@127.0.0.1:{free_port()}/{query[scheme]}"
    failures: list[CallFailure] = []
    with caplog.at_level(logging.DEBUG):
        error = ended(MAKERS[scheme](url), failures)
    assert failures
    assert "127.0.0.1" in str(error)
    for text in (*traceback.format_exception(error), caplog.text, repr(failures)):
        hidden(text)


def test_redis_refusing_the_password_is_one_line(servers: Servers) -> None:
    url = servers.redis[0].url.replace("://", f"://ann:{ESCAPED}@")
    error = ended(redis(url), [])
    assert "does not accept the credentials" in str(error)
    assert "check the user, password or token in its URL" in str(error)
    hidden("".join(traceback.format_exception(error)))


def test_postgresql_refusing_the_user_is_one_line(servers: Servers) -> None:
    url = servers.postgres[0].dsn.replace("postgres@", f"ann:{ESCAPED}@")
    error = ended(postgres(url), [])
    assert "does not accept the credentials" in str(error)
    hidden("".join(traceback.format_exception(error)))


@pytest.fixture
def answering() -> Iterator[tuple[str, list[str]]]:
    """An HTTP server that answers with the status named by ``?status=``; what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers.get('Authorization')}")
            status = int(self.path.partition("status=")[2][:3])
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere?token=t0ken-1")
            self.send_header("Content-Length", "2")
            with suppress(OSError):  # the router has ended already
                self.end_headers()
                self.wfile.write(b"{}")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    yield f"127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("status", [302, 400, 401, 403, 503])
def test_no_status_of_an_http_service_shows_credentials(
    answering: tuple[str, list[str]], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    place, asked = answering
    service = http(f"http://ann:{ESCAPED}@{place}/v1?status={status}&token=t0ken-1")
    with caplog.at_level(logging.INFO):
        error = ended(service, [])
    assert f"status {status}" in str(error)
    hidden("".join(traceback.format_exception(error)))
    # httpx itself logs the URL of every request.
    assert "HTTP Request: GET" in caplog.text
    hidden(caplog.text)
    assert all(f"?status={status}&token=t0ken-1 Basic " in request for request in asked)


def test_a_tuple_cannot_send_the_credentials_elsewhere(answering: tuple[str, list[str]]) -> None:
    place, asked = answering
    elsewhere = f"http://{place}/?status=200"
    service = http_service(
        "asked", [f"http://ann:{ESCAPED}@127.0.0.1:{free_port()}"], path=lambda _: elsewhere
    )
    assert "give a path, no URL" in str(ended(service, []))
    assert not asked


@pytest.mark.parametrize("scheme", MAKERS)
@pytest.mark.parametrize(
    "url",
    [
        "SCHEME://ann:hunter2@127.0.0.1:99999/x",
        "SCHEME://ann:hunter2@127.0.0.1:port/x",
        "SCHEME://ann:hunter2/Xy@127.0.0.1/x",
        "SCHEME://ann:hunter2@[::1/x",
        "ftp://ann:hunter2@127.0.0.1/x",
        "host=127.0.0.1 user=ann password=hunter2",
    ],
)
def test_a_bad_url_is_refused_without_its_credentials(scheme: str, url: str) -> None:
    with pytest.raises(ConfigError, match="is not valid") as caught:
        MAKERS[scheme](url.replace("SCHEME", scheme))
    hidden("".join(traceback.format_exception(caught.value)))


def test_a_bad_option_in_a_redis_url_is_refused_without_its_value() -> None:
    with pytest.raises(ConfigError, match="socket_timeout") as caught:
        redis(f"redis://ann:{ESCAPED}@127.0.0.1/0?socket_timeout={ESCAPED}")
    hidden("".join(traceback.format_exception(caught.value)))


def test_a_capacity_that_cannot_be_measured_shows_no_credentials() -> None:
    replica = redis(f"redis://ann:{ESCAPED}@127.0.0.1:{free_port()}").replicas[0]

    async def measure() -> None:
        try:
            await measure_replica(replica, 1, 1, asyncio.get_running_loop().time)
        finally:
            await replica.close()

    with pytest.raises(Exception, match="127") as caught:
        asyncio.run(measure())
    hidden("".join(traceback.format_exception(caught.value)))


def test_what_a_users_own_function_raises_is_redacted() -> None:
    def look_up(_: int) -> None:
        raise ValueError("cannot reach http://ann:" + SECRET.replace("/", "") + "@cache/x")

    error = ended(callable_service("asked", look_up), [])
    assert "http://***@cache/x" in str(error)
    hidden("".join(traceback.format_exception(error)))


def test_a_silent_server_shows_no_credentials(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://ann:{ESCAPED}@127.0.0.1:{silent.getsockname()[1]}"
        service = redis_service(
            "asked", [url], commands=lambda k: [("GET", k)], threads=2, timeout_s=0.1
        )
        error = ended(service, [])
    assert "no answer within 0.1 s" in str(error)
    hidden("".join(traceback.format_exception(error)) + caplog.text)
