"""Orders through three filter services: users in Redis, stock in PostgreSQL, a Python rule.

    python examples/filters.py --redis redis://127.0.0.1 \\
        --postgres postgresql://postgres@127.0.0.1/postgres

Writes a few rows under the name daybreak_example on both servers and removes them at the end.
Needs: pip install 'daybreak[filters]'.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from typing import Any

import asyncpg
from redis.asyncio import Redis

from daybreak.filters import CallFailure, Router, callable_service
from daybreak.filters.services.postgres import postgres_service
from daybreak.filters.services.redis import redis_service

ORDERS = [{"id": n, "user": n % 50, "item": n % 40, "amount": 7 * n % 100} for n in range(1000)]


async def main(redis_url: str, dsn: str) -> None:
    await fill(redis_url, dsn)
    outcomes: Counter[bool] = Counter()
    services = [
        # Known users only; what Redis returns comes along as passed.found["users"].
        redis_service(
            "users",
            [redis_url],
            commands=lambda order: [("GET", f"daybreak_example:user:{order['user']}")],
        ),
        # Items in stock: one row per key passes, none drops the order.
        postgres_service(
            "stock",
            [dsn],
            query="select item, pieces from daybreak_example where item = any($1)",
            key=lambda order: order["item"],
        ),
        # Any function: here a rule that may run only after the user is known.
        callable_service("amount", lambda order: order["amount"] < 60, after=["users"]),
    ]
    async with Router(
        services,
        on_failure=say,
        on_decision=lambda _order, passed, _latency_s: outcomes.update([passed]),
    ) as router:
        async for passed in router.run(ORDERS):
            if outcomes[True] <= 3:
                print(f"order {passed.tuple['id']}: {passed.found}")
        print(f"{outcomes[True]} orders pass, {outcomes[False]} are dropped")
        for service, known in zip(services, router.estimates, strict=True):
            print(
                f"{service.name}: {known.service_time_s * 1e3:.2f} ms, "
                f"{known.threads:g} at once, passes {known.selectivity:.0%}"
            )
    await clean(redis_url, dsn)


def say(failure: CallFailure) -> None:
    print(f"{failure.service} at {failure.replica}: {failure.error}")


async def fill(redis_url: str, dsn: str) -> None:
    client: Any = Redis.from_url(redis_url)
    await client.mset({f"daybreak_example:user:{n}": f"user {n}" for n in range(30)})
    await client.aclose()
    connection = await asyncpg.connect(dsn)
    await connection.execute("create table if not exists daybreak_example (item int, pieces int)")
    await connection.execute("delete from daybreak_example")
    await connection.copy_records_to_table(
        "daybreak_example", records=[(n, 10 * n) for n in range(25)]
    )
    await connection.close()


async def clean(redis_url: str, dsn: str) -> None:
    client: Any = Redis.from_url(redis_url)
    await client.delete(*(f"daybreak_example:user:{n}" for n in range(30)))
    await client.aclose()
    connection = await asyncpg.connect(dsn)
    await connection.execute("drop table daybreak_example")
    await connection.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Orders through three filter services.")
    parser.add_argument("--redis", default="redis://127.0.0.1")
    parser.add_argument("--postgres", default="postgresql://postgres@127.0.0.1/postgres")
    given = parser.parse_args()
    asyncio.run(main(given.redis, given.postgres))
