"""Logs of both databases: one PostgreSQL server for all tests, a schema for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest
from benchmarks.servers import PostgresServer

from daybreak.model.storage import check_log
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.contract import Database
from daybreak.spark.log.postgres_log import PostgresDatabase
from daybreak.spark.log.sqlite_log import SqliteDatabase

_numbers = count()
#: Long enough for a busy machine; a driver that is killed keeps others waiting for it.
LEASE_S = 5.0


class OpenLog(Protocol):
    """Opens the log of one application, again at every call; ``name``: another one's."""

    def __call__(
        self,
        name: str = "",
        *,
        clock_ns: Callable[[], int] | None = None,
        boot: str | None = None,
        lease_s: float = LEASE_S,
    ) -> CommitLog: ...


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_log(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[OpenLog]:
    opened: list[CommitLog] = []
    test, server = next(_numbers), None
    if kind == "postgres":
        server = request.getfixturevalue("postgres")

    def make(name: str, lease_s: float) -> Database:
        if server is None:
            folder = tmp_path / f"log{name}"
            folder.mkdir(exist_ok=True)
            return SqliteDatabase(folder / "state.db")
        url = check_log(server.dsn, "test")
        return PostgresDatabase(url, f"test {test} {name}", lease_s=lease_s)

    def open_(
        name: str = "",
        *,
        clock_ns: Callable[[], int] | None = None,
        boot: str | None = None,
        lease_s: float = LEASE_S,
    ) -> CommitLog:
        clock = {} if clock_ns is None else {"clock_ns": clock_ns}
        log = CommitLog(make(name, lease_s), boot=boot, **clock)
        opened.append(log)
        return log

    yield open_
    for log in opened:
        log.close()


@pytest.fixture
def log(open_log: OpenLog) -> CommitLog:
    return open_log()
