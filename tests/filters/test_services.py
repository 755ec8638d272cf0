"""The router against a real Redis, a real PostgreSQL and a real HTTP service."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.filters.conftest import Servers
from tests.filters.stock import (
    KEYS,
    expected,
    fill_redis,
    scores,
    slow_down,
    stock,
    users,
)

from daybreak.filters import CallFailure, Capacity, FilterFailed, Passed, Router, ServiceUnavailable
from daybreak.filters.probing import measure_replica
from daybreak.filters.services.postgres import PostgresReplica, postgres_service
from daybreak.filters.services.redis import redis_service


async def gather(router: Router, tuples: Iterable[Any]) -> list[Passed]:
    async with router:
        return [passed async for passed in router.run(tuples)]


@pytest.mark.parametrize("batch", [1, 16])
@pytest.mark.parametrize("threads", [None, 4])
def test_lookups_join_what_the_services_hold(
    servers: Servers, batch: int, threads: int | None
) -> None:
    services = [
        users(servers.redis[:1], threads=threads),
        stock(servers.postgres[:1], threads=threads),
        scores(servers.http.url, threads=threads),
    ]
    found = asyncio.run(gather(Router(services, window=64, batch=batch), range(300)))
    assert sorted(p.tuple for p in found) == expected(range(300), http=True)
    one = found[0]
    key = one.tuple
    assert one.found == {
        "users": f"name {key}",
        "stock": {"id": key, "price": 10 * key},
        "scores": {"score": key % 7},
    }


def test_a_reply_may_be_judged(servers: Servers) -> None:
    service = redis_service(
        "even names",
        [servers.redis[0].url],
        commands=lambda k: [("GET", f"user:{k}")],
        keep=lambda k, reply: reply if reply and k % 2 == 0 else None,
    )
    found = asyncio.run(gather(Router([service, stock(servers.postgres[:1])]), range(100)))
    assert sorted(p.tuple for p in found) == [k for k in expected(range(100)) if k % 2 == 0]


async def paced(keys: Iterable[int], hook: Any) -> AsyncIterator[int]:
    for k in keys:
        await hook(k)
        yield k


def test_one_redis_down_and_back_the_other_takes_over(servers: Servers) -> None:
    failing = servers.redis[0]
    failures: list[CallFailure] = []
    down = asyncio.Event()

    async def hook(k: int) -> None:
        if k == 500:
            failing.kill()
        if k == 600:
            # The router must have noticed before the replica comes back.
            await asyncio.wait_for(down.wait(), 20)
            failing.start()
            await fill_redis(failing)

    def failed(failure: CallFailure) -> None:
        failures.append(failure)
        down.set()

    async def run() -> tuple[list[Passed], Router]:
        router = Router(
            [users(servers.redis, threads=4), stock(servers.postgres[:1], threads=4)],
            window=64,
            on_failure=failed,
        )
        found = [p async for p in router.run(paced(range(KEYS), hook))]
        await router.close()
        return found, router

    found, router = asyncio.run(run())
    assert sorted(p.tuple for p in found) == expected(range(KEYS))
    assert router.counts.decided == KEYS
    assert {f.replica for f in failures} == {failing.url}
    assert all(f.others_up for f in failures)
    assert router.states[0].replicas[0].up


@pytest.mark.parametrize("kind", ["stock", "scores"])
def test_a_service_killed_in_the_middle_loses_and_repeats_nothing(
    servers: Servers, kind: str
) -> None:
    killed = servers.postgres[0] if kind == "stock" else servers.http
    failures: list[CallFailure] = []
    dead = asyncio.Event()
    decisions: list[int] = []

    async def hook(k: int) -> None:
        if k == 400:
            killed.kill()

    def failed(failure: CallFailure) -> None:
        failures.append(failure)
        dead.set()

    async def restart() -> None:
        await asyncio.wait_for(dead.wait(), 20)
        await asyncio.to_thread(killed.start)

    async def run() -> tuple[list[Passed], Router]:
        router = Router(
            [
                users(servers.redis[:1], threads=4),
                stock(servers.postgres[:1], threads=4),
                scores(servers.http.url, threads=4),
            ],
            window=64,
            on_failure=failed,
            on_decision=lambda k, _passed, _latency: decisions.append(k),
        )
        restarting = asyncio.create_task(restart())
        found = [p async for p in router.run(paced(range(1000), hook))]
        await restarting
        await router.close()
        return found, router

    found, router = asyncio.run(run())
    assert sorted(p.tuple for p in found) == expected(range(1000), http=True)
    assert sorted(decisions) == list(range(1000))
    assert router.counts.arrived == router.counts.decided == 1000
    assert {f.service for f in failures} == {kind}
    assert not failures[0].others_up


def test_a_replica_that_gets_slower_is_noticed(servers: Servers) -> None:
    slow, quick = servers.postgres

    async def run() -> Router:
        router = Router([stock([slow, quick], threads=2)], window=16)
        await slow_down(slow, 0.005)
        await slow_down(quick, 0.005)
        async for _ in router.run(range(200)):
            pass
        await slow_down(slow, 0.1)
        async for _ in router.run(range(1500)):
            pass
        times = [r.estimate.service_time_s for r in router.states[0].replicas]
        await slow_down(slow, 0)
        await slow_down(quick, 0)
        await router.close()
        assert times[0] > 0.05
        assert times[0] > 3 * times[1]
        return router

    assert asyncio.run(run()).estimates.revision > 0


def test_the_report_s_measurement_on_a_real_redis(servers: Servers) -> None:
    # Three connections, each held up 100 ms on the server: 30 per second.
    async def run() -> Capacity:
        service = users(servers.redis[:1], delay_s=0.1, connections=3)
        replica = service.replicas[0]
        found = await measure_replica(replica, 1, 1, time.monotonic)
        await replica.close()
        return found

    capacity = asyncio.run(run())
    assert capacity.threads == 3
    assert capacity.service_time_s == pytest.approx(0.1, rel=0.3)


def test_what_no_retry_can_mend_ends_the_run_and_names_the_service(servers: Servers) -> None:
    dsn, redis = servers.postgres[0].dsn, servers.redis[0]
    ids = "select id from stock where id = any($1)"
    wrong = {
        "table": postgres_service("table", [dsn], query="select a from nowhere", key=int),
        "key": postgres_service("key", [dsn], query=ids, key=str),
        "command": redis_service("command", [redis.url], commands=lambda _: [("GETT", "x")]),
        "password": redis_service(
            "password",
            [f"redis://nobody:wrong@127.0.0.1:{redis.port}"],
            commands=lambda _: [("GET", "x")],
        ),
    }
    for name, service in wrong.items():
        router = Router([service])
        with pytest.raises(FilterFailed, match=f"'{name}'"):
            asyncio.run(gather(router, [1, 2, 3]))
        assert router.states[0].replicas[0].in_flight == 0


def test_an_address_nobody_listens_on_is_unavailable_and_shows_no_password() -> None:
    replica = PostgresReplica("postgresql://me:secret@127.0.0.1:1/db", "select 1", int, 1)

    async def ask() -> None:
        try:
            await replica.ask([1])
        finally:
            await replica.close()

    with pytest.raises(ServiceUnavailable) as caught:
        asyncio.run(ask())
    assert "127.0.0.1:1/db" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_example_runs(servers: Servers) -> None:
    example = Path(__file__).parents[2] / "examples" / "filters.py"
    addresses = ["--redis", servers.redis[0].url, "--postgres", servers.postgres[0].dsn]
    done = subprocess.run(
        [sys.executable, str(example), *addresses],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected_passes = sum(n % 50 < 30 and n % 40 < 25 and 7 * n % 100 < 60 for n in range(1000))
    assert f"{expected_passes} orders pass, {1000 - expected_passes} are dropped" in done.stdout
