"""One PostgreSQL server for the tests of sinks, and a log for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.servers import PostgresServer

from daybreak.spark.log.commitlog import CommitLog


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    opened = CommitLog(tmp_path / "state.db")
    yield opened
    opened.close()
