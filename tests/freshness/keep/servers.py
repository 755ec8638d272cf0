"""Real servers for the tests, on loopback: HTTP from the standard library, PostgreSQL from Debian.

PostgreSQL is looked for under /usr/lib/postgresql; where it is missing and the tests run as root
on Debian, it is installed with apt-get, and said so. It never runs as root.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread


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
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def wait_for(condition: Callable[[], bool], what: str, deadline_s: float = 30) -> None:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline_s} s for {what}")
        time.sleep(0.02)


def _postgres_bin() -> Path:
    def found() -> list[Path]:
        return sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))

    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing postgresql with apt-get for the tests", file=sys.stderr)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        # No cluster of Debian's own: the tests start theirs.
        Path("/etc/postgresql-common").mkdir(exist_ok=True)
        settings = Path("/etc/postgresql-common/createcluster.conf")
        if not settings.exists():
            settings.write_text("create_main_cluster = false\n")
        for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
            subprocess.run(
                ["apt-get", "-q", *command], check=True, env=environment, capture_output=True
            )
    if not found():
        raise RuntimeError("PostgreSQL is needed: apt-get install postgresql, as root")
    return found()[-1].parent


@contextmanager
def postgres() -> Iterator[str]:
    """A PostgreSQL of its own in a temporary folder; yields its SQLAlchemy URL."""
    programs = _postgres_bin()
    with tempfile.TemporaryDirectory(prefix="daybreak-pg-") as folder:
        data = Path(folder) / "data"
        user: dict[str, int] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam("nobody")
            user = {"user": account.pw_uid, "group": account.pw_gid}
            os.chown(folder, account.pw_uid, account.pw_gid)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        subprocess.run(
            [programs / "initdb", "-D", data, "-U", "mirror", "-A", "trust", "--no-sync"],
            check=True, capture_output=True, cwd=folder, **user,  # type: ignore[call-overload]
        )  # fmt: skip
        options = ["-k", folder, "-h", "127.0.0.1", "-p", str(port), "-F"]
        log = (Path(folder) / "log").open("wb")
        server = subprocess.Popen(
            [programs / "postgres", "-D", data, *options],
            stdout=log, stderr=log, cwd=folder, **user,  # type: ignore[call-overload]
        )  # fmt: skip
        try:
            ready: list[Path | str] = [
                programs / "pg_isready",
                "-q",
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
            ]
            wait_for(lambda: subprocess.run(ready, check=False).returncode == 0, "PostgreSQL", 60)
            yield f"postgresql+psycopg://mirror@127.0.0.1:{port}/postgres"
        finally:
            # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait for its clients.
            server.send_signal(signal.SIGINT)
            server.wait(30)
            log.close()
