"""Drivers come and go, with their disks; the store and the log remain: every row once."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest
from benchmarks.servers import PostgresServer
from tests.until import until

pytestmark = pytest.mark.slow

WORKER = Path(__file__).with_name("driver_worker.py")
LEASE_S = 1.0


class Drivers:
    """Drivers of one application, each in a folder of its own."""

    def __init__(self, root: Path, server: PostgresServer) -> None:
        self.root, self.server = root, server
        self.out, self.store = root / "out", root / "shared" / "app"
        self.store.parent.mkdir()
        self._started: list[subprocess.Popen[bytes]] = []
        #: A database of its own: the name of the application is always the same.
        name = f"drivers_{random.getrandbits(40):x}"
        with psycopg.connect(server.dsn, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}".encode())
        self.url = server.dsn.removesuffix("/postgres") + f"/{name}"

    def start(self, limit: int) -> subprocess.Popen[bytes]:
        folder = self.folder(len(self._started))
        folder.mkdir()
        with (self.root / f"{folder.name}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable, str(WORKER), str(folder), str(self.store), str(self.out),
                    self.url, str(LEASE_S), str(limit),
                ],
                stdout=log, stderr=log,
            )  # fmt: skip
        self._started.append(process)
        return process

    def folder(self, number: int) -> Path:
        return self.root / f"driver{number}"

    def told(self, process: subprocess.Popen[bytes]) -> str:
        number = self._started.index(process)
        return (self.root / f"driver{number}.log").read_text()

    def files(self) -> list[Path]:
        return sorted(self.out.glob("*.parquet"))

    def await_more(self, what: str) -> None:
        before = len(self.files())
        until(lambda: len(self.files()) > before + 3, what)

    def numbers(self) -> list[int]:
        found = [pq.read_table(path, partitioning=None)["n"].to_pylist() for path in self.files()]
        return sorted(int(n) for rows in found for n in rows)

    def end(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()


@pytest.fixture
def drivers(tmp_path: Path, postgres: PostgresServer) -> Iterator[Drivers]:
    all_of_them = Drivers(tmp_path, postgres)
    yield all_of_them
    all_of_them.end()


def test_of_two_drivers_one_works_and_a_stopped_one_delivers_nothing(drivers: Drivers) -> None:
    first = drivers.start(10**6)
    until(lambda: len(drivers.files()) > 3, "the first works")
    second = drivers.start(10**6)
    until(lambda: "waits" in drivers.told(second), "the second waits")
    assert "works" not in drivers.told(second)
    first.send_signal(signal.SIGSTOP)  # longer than its lease
    until(lambda: "works" in drivers.told(second), "the second takes over")
    of_first = [path for path in drivers.files() if "-0001-" in path.name]
    until(lambda: any("-0002-" in path.name for path in drivers.files()), "the second delivers")
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=30) == 3, drivers.told(first)
    assert "another driver (process" in drivers.told(first)
    second.kill()
    second.wait()
    assert drivers.numbers() == list(range(len(drivers.numbers()))), "in order, and once"
    late = {path for path in drivers.files() if "-0001-" in path.name} - set(of_first)
    assert not late, "delivered after it was replaced"


def test_a_server_that_restarts_under_load_loses_nothing(drivers: Drivers) -> None:
    driver = drivers.start(10**6)
    for _ in range(2):
        drivers.await_more("it works")
        drivers.server.kill()
        drivers.server.start()
    drivers.await_more("it works again")
    assert driver.poll() is None, drivers.told(driver)
    driver.kill()
    driver.wait()
    assert drivers.numbers() == list(range(len(drivers.numbers()))), "in order, and once"
