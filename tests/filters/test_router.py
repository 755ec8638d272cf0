"""The asyncio router with Python callables: results, back pressure, failures, cancelling."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from daybreak.filters import (
    ROUTERS,
    CallFailure,
    FilterFailed,
    Passed,
    Replica,
    Router,
    Service,
    ServiceUnavailable,
    callable_service,
)
from daybreak.model import ConfigError


async def gather(router: Router, tuples: Iterable[Any]) -> list[Passed]:
    async with router:
        return [passed async for passed in router.run(tuples)]


def divides(n: int) -> Callable[[int], Any]:
    async def check(value: int) -> int | None:
        await asyncio.sleep(0)
        return value // n if value % n == 0 else None

    return check


class Flaky(Replica):
    """Answers, or fails while ``down`` is set; remembers what it was asked."""

    def __init__(self, name: str) -> None:
        self.address = name
        self.down = False
        self.asked: list[Any] = []

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        await asyncio.sleep(0)
        if self.down:
            raise ServiceUnavailable(f"{self.address} is down")
        self.asked += tuples
        return [True] * len(tuples)


@pytest.mark.parametrize("name", ROUTERS)
def test_with_any_of_one_service_that_passes_a_tuple_is_enough(name: str) -> None:
    services = [callable_service(f"by{n}", divides(n)) for n in (2, 3, 5)]
    router = Router(services, router=name, window=40, any_of=True)
    found = asyncio.run(gather(router, range(1, 301)))
    wanted = [v for v in range(1, 301) if v % 2 == 0 or v % 3 == 0 or v % 5 == 0]
    assert sorted(p.tuple for p in found) == wanted
    assert router.counts.passed == len(wanted)
    assert router.counts.dropped == 300 - len(wanted)
    for p in found:
        (service, value), *more = p.found.items()
        assert not more
        assert value * int(service.removeprefix("by")) == p.tuple


@pytest.mark.parametrize("name", ROUTERS)
@pytest.mark.parametrize("batch", [1, 4])
def test_what_passes_is_what_every_service_passes(name: str, batch: int) -> None:
    services = [callable_service(f"by{n}", divides(n)) for n in (2, 3, 5)]
    found = asyncio.run(gather(Router(services, router=name, window=40, batch=batch), range(600)))
    assert sorted(p.tuple for p in found) == list(range(0, 600, 30))
    thirty = next(p for p in found if p.tuple == 30)
    assert thirty.found == {"by2": 15, "by3": 10, "by5": 6}


def test_plain_functions_run_in_threads_and_zero_is_a_result_not_a_drop() -> None:
    services = [
        callable_service("zero", lambda _: 0, threads=2),
        callable_service("odd", lambda v: v % 2 == 1),
    ]
    found = asyncio.run(gather(Router(services), range(20)))
    assert sorted(p.tuple for p in found) == list(range(1, 20, 2))
    assert found[0].found["zero"] == 0


def test_an_async_source_is_read_no_further_than_the_window() -> None:
    read = 0

    async def source() -> AsyncIterator[int]:
        nonlocal read
        for value in range(1000):
            read += 1
            yield value

    async def first_ten() -> None:
        router = Router([callable_service("all", divides(1))], window=16)
        taken = 0
        async for _ in router.run(source()):
            taken += 1
            assert read <= taken + 16
            if taken == 10:
                break
        await router.close()

    asyncio.run(first_ten())
    assert read <= 10 + 16


def test_a_failed_replica_is_replaced_by_the_other_and_asked_again_later() -> None:
    one, two = Flaky("one"), Flaky("two")
    failures: list[CallFailure] = []
    now_s = 0.0

    async def run() -> list[Passed]:
        router = Router(
            [Service(name="pair", replicas=[one, two], threads=2)],
            window=8,
            on_failure=failures.append,
            clock=lambda: now_s,
        )
        found: list[Passed] = []
        async with router:

            async def source() -> AsyncIterator[int]:
                nonlocal now_s
                for value in range(6000):
                    one.down = 100 <= value < 2000
                    now_s += 0.001
                    yield value

            async for passed in router.run(source()):
                found.append(passed)
        return found

    found = asyncio.run(run())
    assert sorted(p.tuple for p in found) == list(range(6000))
    assert failures
    assert all(f.replica == "one" and f.others_up for f in failures)
    # It came back: after the outage it was asked again.
    assert max(one.asked) > 2000
    assert sorted(one.asked + two.asked) == list(range(6000))


def test_tuples_of_a_dead_service_wait_and_are_decided_once_it_is_back() -> None:
    only = Flaky("only")
    failures: list[CallFailure] = []

    def failed(failure: CallFailure) -> None:
        failures.append(failure)
        only.down = len(failures) < 3

    async def run() -> list[Passed]:
        only.down = True
        services = [
            Service(name="dead", replicas=[only], threads=4),
            callable_service("all", divides(1)),
        ]
        return await gather(Router(services, on_failure=failed), range(50))

    assert sorted(p.tuple for p in asyncio.run(run())) == list(range(50))
    assert not failures[0].others_up
    assert "only is down" in failures[0].error


def test_a_service_dead_for_too_long_ends_the_run_if_asked_to() -> None:
    only = Flaky("only")
    only.down = True
    router = Router([Service(name="dead", replicas=[only])], give_up_s=0.1)
    with pytest.raises(FilterFailed, match="'dead' is dead: only is down"):
        asyncio.run(gather(router, range(5)))


def test_no_answer_in_time_is_a_failure() -> None:
    calls = 0

    async def slow_once(value: int) -> bool:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.sleep(60)
        return True

    failures: list[CallFailure] = []
    service = callable_service("slow", slow_once, timeout_s=0.05)
    found = asyncio.run(gather(Router([service], on_failure=failures.append), [1]))
    assert [p.tuple for p in found] == [1]
    assert [f.error for f in failures] == ["no answer within 0.05 s"]


def test_a_bug_in_a_service_ends_the_run_with_its_name() -> None:
    def broken(value: int) -> bool:
        return bool(1 / value)

    with pytest.raises(FilterFailed, match=r"'broken'.*division by zero"):
        asyncio.run(gather(Router([callable_service("broken", broken)]), [3, 2, 1, 0, 5]))


def test_an_error_of_the_source_reaches_the_caller() -> None:
    def source() -> Iterable[int]:
        yield 1
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        asyncio.run(gather(Router([callable_service("all", divides(1))]), source()))


def test_a_dropped_tuple_s_other_calls_are_cancelled_and_their_places_freed() -> None:
    cancelled: list[int] = []

    async def never(value: int) -> bool:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(value)
            raise
        return True

    async def drop(value: int) -> bool:
        await asyncio.sleep(0.001)
        return False

    services = [
        callable_service("drop", drop, threads=1),
        callable_service("never", never, threads=1),
    ]
    router = Router(services, window=1)
    assert asyncio.run(gather(router, range(20))) == []
    assert router.counts.dropped == 20
    assert cancelled == list(range(20))
    assert all(r.in_flight == 0 for s in router.states for r in s.replicas)


def test_dependencies_are_kept_by_the_router() -> None:
    seen: list[str] = []

    def tracing(name: str) -> Callable[[int], Any]:
        async def check(value: int) -> bool:
            seen.append(name)
            await asyncio.sleep(0)
            return True

        return check

    services = [
        callable_service("last", tracing("last"), after=["middle"]),
        callable_service("middle", tracing("middle"), after=["first"]),
        callable_service("first", tracing("first")),
    ]
    asyncio.run(gather(Router(services), [1]))
    assert seen == ["first", "middle", "last"]


@pytest.mark.slow
@pytest.mark.parametrize("capacity", ["online", "probe"])
def test_unknown_threads_are_found_out(capacity: Any) -> None:
    async def run() -> Router:
        gate = asyncio.Semaphore(3)

        class Throttled(Replica):
            address = "throttled"

            async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
                async with gate:
                    await asyncio.sleep(0.02)
                return [True] * len(tuples)

        router = Router([Service(name="s", replicas=[Throttled()])], capacity=capacity)
        await gather(router, range(300))
        return router

    estimate = asyncio.run(run()).estimates[0]
    assert estimate.threads == pytest.approx(3, abs=1)
    assert estimate.capacity_per_s == pytest.approx(150, rel=0.25)


def test_one_run_at_a_time() -> None:
    async def run() -> None:
        router = Router([callable_service("all", divides(1))])
        async with aclosing(router.run(range(10))) as first:  # type: ignore[type-var]
            await anext(first)
            with pytest.raises(ConfigError, match="run under way"):
                await anext(router.run(range(10)))
        assert len([p async for p in router.run(range(10))]) == 10
        await router.close()

    asyncio.run(run())


def test_what_makes_no_sense_is_refused() -> None:
    service = callable_service("a", divides(1))
    with pytest.raises(ConfigError, match="twice"):
        Router([service, service])
    with pytest.raises(ConfigError, match="no filter"):
        Router([])
    with pytest.raises(ConfigError, match="window 0"):
        Router([service], window=0)
    with pytest.raises(ConfigError, match="unknown"):
        Router([service], router="quickest")
    with pytest.raises(ConfigError, match="cycle"):
        Router([callable_service("a", divides(1), after=["a"])])
    with pytest.raises(ConfigError, match="no replica"):
        Service(name="none", replicas=[])
    with pytest.raises(ConfigError, match="0 threads"):
        callable_service("zero", divides(1), threads=0)
