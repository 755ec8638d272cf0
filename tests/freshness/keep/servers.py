"""Real servers for the tests, on loopback: HTTP from the standard library, and PostgreSQL."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from benchmarks.servers import PostgresServer

#: How often a server looks whether it should end; the standard library's 0.5 s delay every test.
POLL_S = 0.01


@dataclass
class Pages:
    """What the HTTP server serves, and what it was asked."""

    content: dict[str, bytes] = field(default_factory=dict)
    #: (path, status) of every request, in order.
    log: list[tuple[str, int]] = field(default_factory=list)
    #: Answer 503 with this Retry-After while it is set.
    retry_after: str | None = None
    validators: bool = True
    lock: Lock = field(default_factory=Lock)

    def requests(self, path: str) -> int:
        return sum(asked == path for asked, _ in self.log)


@contextmanager
def http_server(pages: Pages) -> Iterator[str]:
    """Serves the pages; yields the URL's beginning."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with pages.lock:
                body = pages.content.get(self.path)
            etag = f'"{sha256(body or b"").hexdigest()[:16]}"'
            if pages.retry_after is not None:
                self._answer(503, b"", {"Retry-After": pages.retry_after})
            elif body is None:
                self._answer(404, b"", {})
            elif pages.validators and self.headers.get("If-None-Match") == etag:
                self._answer(304, b"", {"ETag": etag})
            else:
                self._answer(200, body, {"ETag": etag} if pages.validators else {})

        def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            pages.log.append((self.path, status))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL of its own in a temporary folder; yields its SQLAlchemy URL."""
    server = PostgresServer()
    try:
        server.start()
        yield server.dsn.replace("postgresql://", "postgresql+psycopg://")
    finally:
        server.close()


Answer = Callable[[socket.socket], None]


@contextmanager
def raw_server(answers: Mapping[str, Answer]) -> Iterator[str]:
    """Answers each path with a function that writes what it likes; yields the URL's beginning.

    Every connection has a thread of its own. A function that writes until the client hangs up
    ends with the client.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    threads: list[Thread] = []

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(30)
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(65536)
            answers[request.split(b" ")[1].decode()](connection)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threads.append(Thread(target=serve, args=(connection,), daemon=True))
            threads[-1].start()

    accepting = Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        # A shut-down listening socket wakes accept(); a closed one alone would not.
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for thread in [accepting, *threads]:
            thread.join(30)
