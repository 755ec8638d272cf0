"""The gate of ingest: short steps pass, long ones wait for a grant, and their costs are learned."""

from __future__ import annotations

import queue
import threading

import pytest
from tests.until import until

from daybreak.engine.events import Event, Ingested, SourceShows
from daybreak.engine.instructions import Ingest
from daybreak.spark.ingest.backpressure import Stopped
from daybreak.spark.ingest.gate import FREE_NS, IngestGate, StepCost

LONG = 10**9


class Loop:
    """Stands where the engine's loop is: hears what sources ask, and answers."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self.gate = IngestGate(self.heard.put)
        self.stopping = threading.Event()
        self.ended: list[object] = []

    def read(self, stream: str, amount: int) -> threading.Thread:
        """A source's thread takes one step."""

        def run() -> None:
            try:
                with self.gate.step(stream, amount, 7, self.stopping) as step:
                    self.ended.append(step.most)
            except Stopped as stopped:
                self.ended.append(stopped)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def next(self) -> Event:
        return self.heard.get(timeout=10)


def test_a_short_step_passes_without_a_word() -> None:
    loop = Loop()
    with loop.gate.step("s", 100, 0, loop.stopping) as step:
        assert step.most == 100
    assert loop.heard.empty()
    assert (loop.gate.steps("s").steps, loop.gate.steps("s").granted) == (1, 0)


def test_a_long_step_waits_for_its_grant_and_says_when_it_has_ended() -> None:
    loop = Loop()
    thread = loop.read("s", LONG)
    asked = loop.next()
    assert isinstance(asked, SourceShows)
    assert (asked.stream, asked.amount, asked.shown_ns) == ("s", LONG, 7)
    assert not loop.ended
    loop.gate.open(Ingest(3, "s", 0, 500))
    thread.join(10)
    ended = loop.next()
    assert isinstance(ended, Ingested)
    assert (ended.grant, loop.ended) == (3, [500])
    assert loop.gate.steps("s").granted == 1


def test_a_step_that_fails_ends_too() -> None:
    loop = Loop()

    def run() -> None:
        with pytest.raises(OSError, match="away"), loop.gate.step("s", LONG, 0, loop.stopping):
            raise OSError("away")

    thread = threading.Thread(target=run)
    thread.start()
    loop.next()
    loop.gate.open(Ingest(1, "s", 0, 1))
    thread.join(10)
    assert isinstance(loop.next(), Ingested)


def test_a_source_that_stops_asks_no_more() -> None:
    loop = Loop()
    thread = loop.read("s", LONG)
    loop.next()
    loop.stopping.set()
    thread.join(10)
    gone = loop.next()
    assert isinstance(gone, SourceShows)
    assert gone.amount == 0
    assert isinstance(loop.ended[0], Stopped)


def test_a_grant_that_comes_too_late_is_given_back() -> None:
    loop = Loop()
    loop.gate.open(Ingest(9, "s", 0, 1))
    assert loop.next() == Ingested("s", 9, 0)


def test_what_steps_take_is_learned_so_that_they_ask_in_time() -> None:
    cost = StepCost()
    for _ in range(40):
        cost.learn(100_000, 20_000_000)
    assert cost.of(100_000) == pytest.approx(20e6, rel=0.05)
    for _ in range(60):
        cost.learn(100_000, 1_000_000)
    assert cost.of(100_000) < FREE_NS


def test_one_slow_small_step_does_not_make_the_next_ask() -> None:
    cost = StepCost()
    cost.learn(100, 400_000_000)
    assert cost.of(100) < FREE_NS
    for _ in range(40):
        cost.learn(100, 400_000_000)
    assert cost.of(100) > FREE_NS, "a source that stays slow does ask"


def test_sources_of_two_streams_wait_apart() -> None:
    loop = Loop()
    threads = [loop.read("a", LONG), loop.read("b", LONG)]
    until(lambda: loop.heard.qsize() == 2)
    loop.gate.open(Ingest(1, "b", 0, 5))
    threads[1].join(10)
    assert loop.ended == [5]
    loop.gate.open(Ingest(2, "a", 0, 6))
    threads[0].join(10)
    assert loop.ended == [5, 6]
