"""Routers on a real Redis, a real PostgreSQL and a real HTTP service with configured throttles.

    python benchmarks/filters.py [--seconds 15] [--json]

Each service holds every call for a configured time on the server and takes a configured number
at once (Redis: a blocking pop, PostgreSQL: pg_sleep, over so many connections; HTTP: so many
workers that sleep). So the optimum F* is known beforehand and not measured. Keys 0..124 hold
every combination of verdicts once; shuffled and repeated they have exactly the selectivity.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import asyncpg
from redis.asyncio import Redis

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.servers import HttpFilter, PostgresServer, RedisServer, Server

from daybreak.filters import Estimate, Router, Service, optimum_per_s
from daybreak.filters.services.http import http_service
from daybreak.filters.services.postgres import postgres_service
from daybreak.filters.services.redis import redis_service

#: The report's three costs, and four threads each.
TIMES_S = (0.1, 0.15, 0.2)
THREADS = 4
SELECTIVITY = 0.4
OPTIMUM_PER_S = optimum_per_s([Estimate(s, THREADS, SELECTIVITY) for s in TIMES_S])
ROUTERS = ("fixed", "condon", "priority", "free-first")
WARM_UP_S = 3.0
#: Low load: a tenth of what the fixed order can take.
LOW_PER_S = 0.1 * THREADS / TIMES_S[0]


def digit(key: int, place: int) -> int:
    return int(key // 5**place % 5)


class Services:
    """The three servers, filled."""

    def __init__(self) -> None:
        self.redis = RedisServer()
        self.postgres = PostgresServer()
        self.http = HttpFilter(SELECTIVITY, TIMES_S[2] * 1e3, THREADS)
        self.all: list[Server] = [self.redis, self.postgres, self.http]

    def start(self) -> None:
        for server in self.all:
            server.start()
        asyncio.run(self._fill())

    def close(self) -> None:
        for server in self.all:
            server.close()

    async def _fill(self) -> None:
        client = Redis.from_url(self.redis.url)
        await client.mset({f"k:{k}": k for k in range(125) if digit(k, 0) < 5 * SELECTIVITY})
        await client.aclose()
        connection = await asyncpg.connect(self.postgres.dsn)
        await connection.execute("create table t (id int primary key)")
        await connection.copy_records_to_table(
            "t", records=[(k,) for k in range(125) if digit(k, 1) < 5 * SELECTIVITY]
        )
        await connection.close()

    def adapters(self, threads: int | None) -> list[Service]:
        return adapters(self.redis.url, self.postgres.dsn, self.http.url, threads)


def adapters(
    redis_url: str,
    dsn: str,
    http_url: str,
    threads: int | None,
    key: Callable[[Any], Any] = int,
) -> list[Service]:
    """With ``threads`` None the router must find out all by itself."""
    known: list[dict[str, Any]] = [
        {"threads": threads, "service_time_s": s, "selectivity": SELECTIVITY} for s in TIMES_S
    ]
    if threads is None:
        known = [{}, {}, {}]
    return [
        redis_service(
            "redis",
            [redis_url],
            commands=lambda t: [("BLPOP", "never", TIMES_S[0]), ("GET", f"k:{key(t)}")],
            connections=threads or THREADS,
            **known[0],
        ),
        postgres_service(
            "postgres",
            [dsn],
            # An outer join: an inner one would not sleep for keys that are not there.
            query=f"select t.id from pg_sleep({TIMES_S[1]}) left join t on t.id = any($1)",
            key=key,
            connections=threads or THREADS,
            **known[1],
        ),
        http_service("http", [http_url], path=lambda t: f"/{key(t)}", **known[2]),
    ]


def keys(seed: int) -> Iterator[int]:
    """Blocks of all 125 keys, each shuffled."""
    rng = Random(seed)
    while True:
        block = list(range(125))
        rng.shuffle(block)
        yield from block


async def saturated(services: list[Service], router: str, seconds: float) -> dict[str, float]:
    """As many tuples as the router takes; decisions per second after the warm-up."""
    decided: list[float] = []
    made = Router(
        services,
        router=router,
        window=48,
        on_decision=lambda _k, _passed, _latency: decided.append(time.monotonic()),
    )
    began = time.monotonic()

    def source() -> Iterator[int]:
        for key in keys(1):
            if time.monotonic() - began > WARM_UP_S + seconds:
                return
            yield key

    async with made, aclosing(made.run(source())) as results:  # type: ignore[type-var]
        async for _ in results:
            pass
    inside = [t for t in decided if WARM_UP_S <= t - began <= WARM_UP_S + seconds]
    return {
        "decided_per_s": len(inside) / seconds,
        "of_optimum": len(inside) / seconds / OPTIMUM_PER_S,
        "duplicated": made.counts.duplicated / made.counts.handed,
    }


async def low_load(services: list[Service], router: str, seconds: float) -> dict[str, float]:
    """Poisson arrivals at a low rate; latency from arrival to decision of all tuples."""
    latencies: list[float] = []
    made = Router(
        services, router=router, on_decision=lambda _k, _p, latency: latencies.append(latency)
    )

    async def source() -> AsyncIterator[int]:
        rng = Random(2)
        next_s = time.monotonic()
        for _, key in zip(range(round(LOW_PER_S * seconds)), keys(3), strict=False):
            next_s += rng.expovariate(LOW_PER_S)
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            yield key

    async with made:
        async for _ in made.run(source()):
            pass
    return {"mean_latency_ms": 1e3 * mean(latencies), "tuples": len(latencies)}


def measure(seconds: float, say: Any) -> dict[str, Any]:
    servers = Services()
    try:
        servers.start()
        limit: dict[str, Any] = {}
        for router in ROUTERS:
            say(f"saturated: {router}")
            limit[router] = asyncio.run(saturated(servers.adapters(THREADS), router, seconds))
        say("saturated: free-first, nothing declared")
        limit["free-first, nothing declared"] = asyncio.run(
            saturated(servers.adapters(None), "free-first", seconds)
        )
        low: dict[str, Any] = {}
        for router in ("fixed", "condon", "free-first"):
            say(f"low load: {router}")
            low[router] = asyncio.run(low_load(servers.adapters(THREADS), router, 2 * seconds))
    finally:
        servers.close()
    ratio = low["free-first"]["mean_latency_ms"] / low["fixed"]["mean_latency_ms"]
    return {
        "optimum_per_s": OPTIMUM_PER_S,
        "configured": {"times_s": TIMES_S, "threads": THREADS, "selectivity": SELECTIVITY},
        "seconds": seconds,
        "saturated": limit,
        "low_load_per_s": LOW_PER_S,
        "low_load": low,
        "must": {
            "free_first_of_optimum": limit["free-first"]["of_optimum"],
            "free_first_of_optimum_at_least": 0.95,
            "low_load_latency_of_fixed": ratio,
            "low_load_latency_of_fixed_at_most": 0.75,
            "holds": limit["free-first"]["of_optimum"] >= 0.95 and ratio <= 0.75,
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=15.0, help="measured per router")
    parser.add_argument("--json", action="store_true", help="print JSON only")
    arguments = parser.parse_args()
    result = measure(arguments.seconds, lambda text: print(text, file=sys.stderr))
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        print(f"F* = {result['optimum_per_s']:.1f} tuples/s, from the configured throttles")
        for router, row in result["saturated"].items():
            print(
                f"  saturated  {router:30} {row['decided_per_s']:7.1f}/s  "
                f"{row['of_optimum']:6.1%} of F*  {row['duplicated']:6.1%} duplicated"
            )
        for router, row in result["low_load"].items():
            print(f"  {LOW_PER_S:.0f}/s        {router:30} {row['mean_latency_ms']:7.1f} ms")
        must = result["must"]
        print(f"  low-load latency of fixed order's: {must['low_load_latency_of_fixed']:.2f}")
    return 0 if result["must"]["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
