"""The loop that drives an engine, whoever supplies its ports."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.engine.made import MS, SECOND, Bench, Segment

from daybreak.engine.core import Settings
from daybreak.engine.drive import NEVER, EngineLoop
from daybreak.engine.engine import Engine
from daybreak.engine.events import Event, Failure, JobEnded, LogFull, SegmentArrived, Skipped, Woke
from daybreak.engine.instructions import Instruction, Skip, StartJob, WakeAt
from daybreak.engine.queries import QueryFacts
from daybreak.model.limits import Limits
from daybreak.policies.base import Plan, ProcessorUse, Step, Wait

EACH = [QueryFacts("p", ("s",), on_full="skip"), QueryFacts("q", ("t",))]


@dataclass
class World:
    """Ports and books that remember; ``first``: what the first ``tidy`` finds."""

    engine: Engine
    at_ns: int = 0
    first: list[Event] = field(default_factory=list)
    acted: list[Instruction] = field(default_factory=list)
    booked: list[str] = field(default_factory=list)
    loop: EngineLoop = field(init=False)

    def __post_init__(self) -> None:
        self.loop = EngineLoop(self.engine, self, self, 100 * MS)

    def now_ns(self) -> int:
        return self.at_ns

    def processor(self) -> ProcessorUse | None:
        return ProcessorUse(2, self.at_ns, 0)

    def tidy(self) -> None:
        while self.first:
            self.loop.settle(self.first.pop(0))

    def carry_out(self, instruction: Instruction) -> None:
        self.acted.append(instruction)
        if isinstance(instruction, Skip):
            self.loop.put(Skipped(instruction.skip))

    def tick(self, now_ns: int) -> None:
        self.booked.append(f"tick {now_ns // MS}")

    def decided(self, _job: object, now_ns: int) -> None:
        self.booked.append(f"decided {now_ns // MS}")

    def ran(self, _job: object) -> None:
        self.booked.append("ran")

    def failed(self, _job: object, _now_ns: int) -> None:
        self.booked.append("failed")

    def shed(self, _shed: object, _now_ns: int) -> None:
        self.booked.append("shed")

    def heard(self) -> list[list[Event]]:
        return [list(entry.events) for entry in self.engine.journal.entries()]


def segment(stream: str, seq: int = 0) -> SegmentArrived:
    return SegmentArrived(Segment(0, stream, seq, 5))


def test_what_is_queued_comes_before_what_a_tick_finds() -> None:
    world = World(Bench(EACH).engine, first=[LogFull({"s": (1, 0)})])
    world.loop.put(segment("t"))
    world.loop.put(segment("s"))
    world.loop.tick()
    assert world.heard() == [
        [segment("t"), segment("s")], [LogFull({"s": (1, 0)})], [Woke(ProcessorUse(2, 0, 0))]
    ]  # fmt: skip
    assert [type(i) for i in world.acted] == [StartJob], "the first query runs, and keeps its rows"
    assert world.booked == ["decided 0", "tick 0"]


def test_the_answer_to_an_instruction_comes_behind_those_beside_it() -> None:
    bench = Bench(EACH, workers=2)
    world = World(bench.engine)
    bench.policy.__dict__["decide"] = lambda _now, _worker: None
    world.loop.settle(segment("s"))
    del bench.policy.__dict__["decide"]
    world.loop.settle(LogFull({"s": (1, 0)}), segment("t"))
    assert [type(i) for i in world.acted] == [Skip, StartJob]
    assert world.heard()[1:] == [[LogFull({"s": (1, 0)}), segment("t")], [Skipped(1)]]


def test_it_wakes_the_engine_at_ticks_and_when_it_asked() -> None:
    bench = Bench(EACH)
    world = World(bench.engine)
    bench.policy.__dict__["decide"] = lambda now, _worker: Wait(now + 30 * MS)
    world.loop.settle(segment("s"))
    world.loop.tick()
    assert world.loop.due_ns() == 30 * MS
    world.at_ns = 20 * MS
    world.loop.tick()
    assert [type(e) for events in world.heard() for e in events] == [SegmentArrived, Woke]
    world.at_ns = 31 * MS
    bench.policy.__dict__["decide"] = lambda _now, _worker: None
    world.loop.tick()
    assert world.heard()[-1] == [Woke(ProcessorUse(2, 0, 0))], "read at the last tick"
    assert world.loop.due_ns() == 100 * MS
    world.at_ns = 100 * MS
    world.loop.tick()
    assert world.heard()[-1] == [Woke(ProcessorUse(2, 100 * MS, 0))]
    assert world.booked == ["tick 0", "tick 100"]
    assert not any(isinstance(i, WakeAt) for i in world.acted)


def test_without_ticks_it_is_due_when_somebody_said_so() -> None:
    bench = Bench(EACH, settings=Settings(limits=Limits(retries=1, retry_s=1.0)))
    world = World(bench.engine)
    world.loop = EngineLoop(bench.engine, world, world, NEVER)
    world.loop.settle(segment("s"))
    world.loop.settle(JobEnded(1, (), Failure("bad"), MS))
    assert world.booked == ["decided 0", "failed"]
    assert world.loop.due_ns() == NEVER
    world.loop.wake_by(2 * SECOND)
    world.loop.wake_by(3 * SECOND)
    assert world.loop.due_ns() == 2 * SECOND
    world.at_ns = 2 * SECOND
    world.loop.tick()
    assert world.booked[2:] == ["decided 2000"], "tried again; no tick"
    plan = Plan((Step(0),))
    assert [i.plan for i in world.acted if isinstance(i, StartJob)] == [plan, plan]
