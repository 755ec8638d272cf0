"""One PostgreSQL server for the tests of sinks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks.servers import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
