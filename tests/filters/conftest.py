"""Real servers, one of each for the whole session."""

from collections.abc import Iterator

import pytest
from benchmarks.servers import HttpFilter, PostgresServer, RedisServer, Server
from tests.filters.stock import fill


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "servers" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


@pytest.fixture(scope="session")
def servers() -> Iterator["Servers"]:
    made = Servers()
    try:
        made.start()
        yield made
    finally:
        made.close()


class Servers:
    """Two Redis replicas, two PostgreSQL replicas and an HTTP filter, holding the same data."""

    def __init__(self) -> None:
        self.redis = [RedisServer(), RedisServer()]
        self.postgres = [PostgresServer(), PostgresServer()]
        self.http = HttpFilter(share=0.5)
        self.all: list[Server] = [*self.redis, *self.postgres, self.http]

    def start(self) -> None:
        for server in self.all:
            server.start()
        fill(self.redis, self.postgres)

    def close(self) -> None:
        for server in self.all:
            server.close()
