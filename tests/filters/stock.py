"""The data behind the real services: which keys pass, and how slowly PostgreSQL answers."""

import asyncio
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import asyncpg
from benchmarks.http_filter import passes as http_passes
from benchmarks.servers import PostgresServer, RedisServer
from redis.asyncio import Redis

from daybreak.filters import Service
from daybreak.filters.services.http import http_service
from daybreak.filters.services.postgres import postgres_service
from daybreak.filters.services.redis import redis_service

KEYS = 4000
#: A row's wait is read from a table, so that a test can make the service slower.
QUERY = """
    select s.id, s.price from (select pg_sleep(seconds) from slowness) as slow
    left join stock s on s.id = any($1)
"""


def in_redis(key: int) -> bool:
    return crc32(f"redis/{key}".encode()) % 10 < 4


def in_postgres(key: int) -> bool:
    return crc32(f"postgres/{key}".encode()) % 10 < 6


def expected(keys: Sequence[int], http: bool = False) -> list[int]:
    return [k for k in keys if in_redis(k) and in_postgres(k) and (not http or http_passes(k, 0.5))]


def fill(redis: Sequence[RedisServer], postgres: Sequence[PostgresServer]) -> None:
    async def filled() -> None:
        for server in redis:
            await fill_redis(server)
        for database in postgres:
            connection = await asyncpg.connect(database.dsn)
            await connection.execute("create table stock (id int primary key, price int)")
            await connection.execute("create table slowness (seconds float)")
            await connection.execute("insert into slowness values (0)")
            await connection.copy_records_to_table(
                "stock", records=[(k, 10 * k) for k in range(KEYS) if in_postgres(k)]
            )
            await connection.close()

    asyncio.run(filled())


async def fill_redis(server: RedisServer) -> None:
    client = Redis.from_url(server.url)
    await client.mset({f"user:{k}": f"name {k}" for k in range(KEYS) if in_redis(k)})
    await client.aclose()


async def slow_down(server: PostgresServer, seconds: float) -> None:
    connection = await asyncpg.connect(server.dsn)
    await connection.execute("update slowness set seconds = $1", seconds)
    await connection.close()


def users(servers: Sequence[RedisServer], delay_s: float = 0.0, **options: Any) -> Service:
    """Redis, held up on the server: a pop from a list that never fills, then the lookup."""
    wait = [("BLPOP", "never", delay_s)] if delay_s else []
    return redis_service(
        "users",
        [s.url for s in servers],
        commands=lambda k: [*wait, ("GET", f"user:{k}")],
        **options,
    )


def stock(servers: Sequence[PostgresServer], **options: Any) -> Service:
    return postgres_service("stock", [s.dsn for s in servers], query=QUERY, key=int, **options)


def scores(url: str, **options: Any) -> Service:
    return http_service("scores", [url], path=lambda k: f"/{k}", **options)
