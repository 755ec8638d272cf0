"""Real Redis and PostgreSQL servers for tests and benchmarks: found or installed, on loopback.

Each server gets a temporary directory and a free port, and is stopped by its process id.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGQUIT
from tempfile import mkdtemp

#: PostgreSQL refuses to run as root; "nobody" owns nothing it could harm.
NOBODY = 65534


def binary(name: str, package: str) -> str:
    """Where a server's program is; as root on Debian its package is installed if it is not."""
    for attempt in range(2):
        places = [
            shutil.which(name),
            *sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))[::-1],
        ]
        for place in places:
            if place and Path(place).exists():
                return str(place)
        if attempt == 0 and os.geteuid() == 0 and shutil.which("apt-get"):
            sys.stderr.write(f"{name} is not here: installing the Debian package {package}\n")
            _without_debians_own_cluster()
            install = ["install", "-y", "-qq", "--no-install-recommends", package]
            for action in (["update", "-qq"], install):
                subprocess.run(
                    ["apt-get", *action],
                    check=True,
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                )
    raise RuntimeError(f"{name} is not installed; install the package {package}")


def _without_debians_own_cluster() -> None:
    """Keeps Debian's PostgreSQL package from starting a server of its own."""
    settings = Path("/etc/postgresql-common/createcluster.conf")
    if not settings.exists():
        settings.parent.mkdir(exist_ok=True)
        settings.write_text("create_main_cluster = false\n")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = 30.0) -> None:
    """Polls; raises if the condition does not come true in time."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not happen within {deadline_s} s")
        time.sleep(0.02)


def listening(port: int) -> bool:
    with socket.socket() as s:
        s.settimeout(1.0)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A process that listens on one port of loopback."""

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(mkdtemp(prefix="daybreak-"))
        self.process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def ready(self) -> bool:
        return listening(self.port)

    def start(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log)
        wait_until(self._up_or_dead, f"{type(self).__name__} on port {self.port}")
        if self.process.poll() is not None:
            raise RuntimeError((self.directory / "log").read_text(errors="replace")[-2000:])

    def _up_or_dead(self) -> bool:
        assert self.process is not None
        return self.process.poll() is not None or self.ready()

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class RedisServer(Server):
    """Redis, in memory only."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        program = binary("redis-server", "redis-server")
        # hz: how often a second timeouts of blocked clients are looked at.
        return [
            program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no", "--hz", "500", "--dir", str(self.directory),
        ]  # fmt: skip


class PostgresServer(Server):
    """PostgreSQL with one database and one user, ``postgres``, trusted on loopback."""

    def __init__(self, *, fsync: bool = False) -> None:
        """``fsync``: commits wait for the disk, as they do in production."""
        super().__init__()
        self._fsync = "on" if fsync else "off"
        self.as_user = (
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            if os.geteuid() == 0
            else []
        )
        self.data = self.directory / "data"
        if self.as_user:
            os.chown(self.directory, NOBODY, NOBODY)
        with (self.directory / "log").open("ab") as log:
            subprocess.run(
                [
                    *self.as_user, binary("initdb", "postgresql"), "-D", str(self.data),
                    "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8",
                ],
                check=True, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def dsn(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def command(self) -> list[str]:
        return [
            *self.as_user, binary("postgres", "postgresql"), "-D", str(self.data),
            "-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.directory),
            "-c", f"fsync={self._fsync}", "-c", "max_connections=60",
        ]  # fmt: skip

    def ready(self) -> bool:
        program = binary("pg_isready", "postgresql")
        asked = subprocess.run(
            [program, "-q", "-h", "127.0.0.1", "-p", str(self.port)], check=False
        )
        return asked.returncode == 0

    def kill(self) -> None:
        """An immediate shutdown: connections break, children go too, the data recovers."""
        if self.process is not None:
            self.process.send_signal(SIGQUIT)
            self.process.wait(20)
            self.process = None


class HttpFilter(Server):
    """`http_filter.py` in its own process."""

    def __init__(self, share: float, delay_ms: float = 0.0, threads: int = 1000) -> None:
        super().__init__()
        self.arguments = [str(share), str(delay_ms), str(threads)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        script = Path(__file__).with_name("http_filter.py")
        return [sys.executable, str(script), str(self.port), *self.arguments]
