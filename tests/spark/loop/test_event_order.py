"""The loop hands an engine everything by events, in the order in which they came."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from tests.engine.inside import inside
from tests.engine.journal import assert_repeats_itself
from tests.engine.made import First, Segment, network_of
from tests.until import until

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Event, LogFull, Pause, SegmentArrived, Skipped, Started, Woke
from daybreak.engine.inbox import Inbox
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.policies.base import Decision, ProcessorUse
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.monitor import Monitor
from daybreak.spark.loop.driver import Driver
from daybreak.spark.loop.driver_hooks import Hooks, Loop

FACTS = [QueryFacts(name, ("s",), on_full="skip") for name in ("p", "q")]


class Idle(First):
    """Starts nothing, so that no worker is needed."""

    def decide(self, now_ns: int, worker: int) -> Decision:
        return None


def nothing(*_: object) -> None:
    pass


@contextmanager
def driver_of(
    tidy: Callable[[Loop], None] = nothing,
    processor: Callable[[], ProcessorUse | None] = lambda: None,
) -> Iterator[tuple[Driver, Engine]]:
    """A driver that has not begun; it ends with the block."""
    network = network_of(FACTS)
    state = JobState(network, 1)
    engine = Engine(state, FACTS, [Inbox(), Inbox()], Idle(), Settings())
    runner = cast(Any, type("Runner", (), {"close": nothing}))
    hooks = Hooks(lambda _tag: runner(), nothing, tidy, nothing, processor=processor)
    accounts = Accounts(engine, Monitor(network))
    driver = Driver(engine, accounts, cast(Any, ["p", "q"]), hooks, 60.0)
    yield driver, engine
    driver.stop()
    driver.join()
    assert driver.failure is None
    assert_repeats_itself(engine)


def events(engine: Engine) -> list[Event]:
    return [event for entry in engine.journal.entries() for event in entry.events]


def segment(seq: int) -> Any:
    return Segment(time.time_ns(), "s", seq, 5)


def test_what_maintenance_finds_comes_after_what_has_arrived_before() -> None:
    full = LogFull({"s": (1, 0)})
    once = iter([full])
    with driver_of(lambda loop: loop.feed(*once)) as (driver, engine):
        driver.on_segment(segment(0))
        driver.start()
        until(lambda: any(isinstance(e, Skipped) for e in events(engine)))
        until(lambda: isinstance(events(engine)[-1], Woke))
    came = [type(e) for e in events(engine) if not isinstance(e, Woke)]
    assert came[:4] == [Started, SegmentArrived, LogFull, Skipped]
    assert inside(engine).state.pending == [0, 0], "the log was full of rows that the engine knew"


def test_commands_keep_their_place_among_events() -> None:
    with driver_of() as (driver, engine):
        driver.on_segment(segment(0))
        paused = driver.ask(lambda: Pause(0))
        driver.on_segment(segment(1))
        again = driver.ask(lambda: Pause(1))
        driver.start()
        paused.result(timeout=30)
        again.result(timeout=30)
    came = [type(e) for e in events(engine) if not isinstance(e, Woke)]
    assert came[:5] == [Started, SegmentArrived, Pause, SegmentArrived, Pause]


def test_the_use_of_the_cores_is_an_event() -> None:
    read = iter(range(1, 1000))
    with driver_of(processor=lambda: ProcessorUse(2, next(read), 7)) as (driver, engine):
        assert inside(engine).state.processor is None
        driver.start()
        until(lambda: Woke(ProcessorUse(2, 2, 7)) in events(engine))
    woke = [e.processor for e in events(engine) if isinstance(e, Woke)]
    assert woke[:3] == [None, ProcessorUse(2, 1, 7), ProcessorUse(2, 2, 7)]
    assert inside(engine).state.processor == woke[-1]
