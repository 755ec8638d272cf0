"""For ``test_machine``: the driver of an engine, the model beside it, and policies of whims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.engine.inside import inside
from tests.engine.made import MS, SECOND, Segment, Windows, network_of, ran

from daybreak.engine import events as ev
from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.instructions import (
    AbandonJob,
    Account,
    CancelJob,
    Finished,
    Group,
    Ingest,
    Instruction,
    Redeliver,
    Skip,
    StartJob,
    WakeAt,
)
from daybreak.engine.queries import QueryFacts
from daybreak.model.network import Network
from daybreak.policies.base import BasePolicy, Decision, Plan, Step, View, Wait, Work
from daybreak.policies.registry import all_policies, make_policy_with

#: Queries that share jobs, some that do not, and queries over windows; two classes.
FACTS = (
    QueryFacts("a0", ("a",), share_key="a"),
    QueryFacts("a1", ("a",), share_key="a"),
    QueryFacts("a2", ("a",), share_key="a", on_full="skip"),
    QueryFacts("ab", ("a", "b"), "job", on_full="skip"),
    QueryFacts("w0", ("a",), "window", "w", "windows", spared=True),
    QueryFacts("w1", ("a",), "prepared", "w", "windows", spared=True, on_full="skip"),
    QueryFacts("b0", ("b",), share_key="b"),
    QueryFacts("b1", ("b",), share_key="b", on_full="block"),
)
CLASSES = "hhhlllll"
#: What may come while it runs.
MORE = (
    QueryFacts("a3", ("a",), share_key="a"),
    QueryFacts("b2", ("b",), share_key="b", on_full="skip"),
    QueryFacts("b3", ("b",), "job"),
)
STREAMS = ("a", "b")
#: Ranges that come to some queries alone are of this one.
ASIDE = "aside"

#: A tuple, or windows that are taken as a whole.
Unit = tuple[str, int, int]


def units(items: Sequence[Waiting]) -> list[Unit]:
    """The tuples of these ranges one by one."""
    found: list[Unit] = []
    for item in items:
        if item.seq < 0:
            found.append((item.stream, item.after_us, item.closes_us))
        else:
            found += [(item.stream, item.seq, item.row + i) for i in range(item.tuples)]
    return found


class Whims(BasePolicy):
    """Plans any free queries in any order and number, and checks that it is told in step."""

    name = "whims"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._random = Random(seed)
        self._gone: set[int] = set()
        self._planned: list[Plan] = []

    def decide(self, now_ns: int, worker: int) -> Decision:
        view, draw = self.view, self._random
        free = [b for b in range(len(view.pending)) if not view.running[b]]
        assert not self._gone.intersection(free), "free, and yet withdrawn"
        full = [b for b in free if view.pending[b]]
        if not full or draw.random() < 0.1:
            return draw.choice((None, Wait(now_ns + draw.randrange(SECOND))))
        boxes = [draw.choice(full), *draw.choices(free, k=draw.choice((0, 0, 1, 3)))]
        steps = [
            Step(b, draw.choice((None, None, 1, 3)), draw.choice((1.0, 1.0, 0.5))) for b in boxes
        ]
        self._planned.append(Plan(tuple(steps)))
        return self._planned[-1]

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self._planned.remove(plan)
        assert not any(self.view.running[step.box] for step in plan.steps)

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        assert self.view.running[box]
        assert box not in self._gone, "withdrawn twice"
        self._gone.add(box)

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        assert not self.view.running[box]
        self._gone.remove(box)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        assert not self.view.pending[query]


class LearningWhims(Whims):
    """The same, and it takes queries that come while it runs."""

    name = "learning-whims"

    def on_query_added(self, query: int, now_ns: int) -> None:
        self._gone.discard(query)


POLICIES = [
    *["whims", "learning-whims"] * 4, *[name for name, p in all_policies().items() if p.on_spark]
]  # fmt: skip


def policy_of(name: str) -> BasePolicy:
    made: dict[str, type[BasePolicy]] = {"whims": Whims, "learning-whims": LearningWhims}
    return made[name]() if name in made else make_policy_with(name)


@dataclass
class Life:
    """One query in the model, from the moment it comes."""

    facts: QueryFacts
    #: All that came, and how much of it is past: committed, or skipped with a record.
    came: list[Unit] = field(default_factory=list)
    past: int = 0
    put_us: int = 0
    dropping: bool = False

    def passes(self, items: Sequence[Waiting]) -> None:
        gone = units(items)
        assert gone == self.came[self.past : self.past + len(gone)], "not in the stream's order"
        self.past += len(gone)


class Driven:
    """An engine, the driver that carries out its instructions, and the model."""

    engine: Engine
    network: Network

    def reset(self) -> None:
        self.now_ns = 10 * SECOND
        self.network = network_of(FACTS, CLASSES)
        self.segments: dict[str, list[Segment]] = {stream: [] for stream in STREAMS}
        self.watermark_us = 0
        #: Ranges of ``ASIDE`` so far.
        self.aside = 0
        self.lives: dict[int, Life] = {}
        #: What the engine has asked for and not heard of yet.
        self.jobs: dict[int, StartJob] = {}
        self.skips: dict[int, Skip] = {}
        #: Steps of ingest that were granted and have not ended; one at most has a worker.
        self.steps: list[Ingest] = []
        self.asking: set[str] = set()
        self.delivering: dict[int, int] = {}
        #: The query of each command that is not answered yet.
        self.commands: dict[int, int] = {}
        self.numbered = 0
        #: Queries that were last told to pause, not to resume.
        self.paused: set[int] = set()
        #: Whether the policy has asked to be asked again.
        self.waits = False

    def tell(self, *events: ev.Event) -> None:
        out = self.engine.handle(self.now_ns, *events)
        self.waits = any(isinstance(instruction, WakeAt) for instruction in out)
        for instruction in out:
            self._carry_out(instruction)

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case StartJob():
                self._check_start(instruction)
                self.jobs[instruction.order] = instruction
            case Ingest():
                self._check_step(instruction)
                self.steps.append(instruction)
            case Account(boxes=boxes, taken=taken):
                for box in boxes:
                    self.lives[box].passes(taken)
            case Skip():
                assert instruction.given
                self.skips[instruction.skip] = instruction
            case Redeliver(box, delivery):
                assert box not in self.delivering, "two deliveries of a query at once"
                self.delivering[box] = delivery
            case Finished(command):
                box = self.commands.pop(command)
                state = inside(self.engine).queries.status[box].state
                if state == "dropped":
                    self.lives.pop(box, None)
                elif instruction.refused and state == "paused":
                    self.paused.add(box)  # as it was: what it failed on could not be skipped
            case CancelJob(worker, order, group) | AbandonJob(worker, order, group):
                assert self.jobs[order].worker == worker
                assert group < len(self.jobs[order].groups)

    def _check_step(self, step: Ingest) -> None:
        assert step.stream in self.asking, "it does not ask"
        self.asking.remove(step.stream)
        assert step.most > 0
        if step.worker is None:
            return
        assert all(other.worker is None for other in self.steps), "one at a time"
        assert step.worker not in [j.worker for j in self.jobs.values()], "it has an order"

    def step_ends(self) -> None:
        step = self.steps.pop()
        self.tell(ev.Ingested(step.stream, step.grant, MS))

    def _check_start(self, job: StartJob) -> None:
        at_work = [*(j.worker for j in self.jobs.values()), *(s.worker for s in self.steps)]
        assert job.worker not in at_work, "it has something to do"
        busy = {b for j in self.jobs.values() for g in j.groups for b in g.boxes}
        assert job.groups
        for group in job.groups:
            assert group.tuples > 0
            assert set(group.boxes) <= set(group.cell)
            for box in group.boxes:
                assert box not in busy, "it runs already"
                assert not inside(self.engine).queries.status[box].held, "it is held"
                assert not self.lives[box].dropping
                assert units(group.taken)[0] in self.lives[box].came

    def next_segment(self, stream: str, rows: int) -> Segment:
        known = self.segments[stream]
        if stream == "a":
            self.watermark_us += rows * 3
        after_us = self.watermark_us if stream == "a" else None
        segment = Segment(self.now_ns, stream, len(known), rows, after_us)
        known.append(segment)
        for life in self.lives.values():
            self._comes(life, segment)
        return segment

    def _comes(self, life: Life, segment: Segment) -> None:
        if segment.stream not in life.facts.reads:
            return
        if life.facts.answers == "windows":
            self.closes(life, self.watermark_us)
        else:
            life.came += [(segment.stream, segment.seq, row) for row in range(segment.rows)]

    def closes(self, life: Life, watermark_us: int) -> None:
        closes_us = watermark_us // Windows.WIDTH_US * Windows.WIDTH_US
        if closes_us > life.put_us:
            life.came.append(("a", life.put_us, closes_us))
            life.put_us = closes_us

    def inbox(self, box: int, facts: QueryFacts, *, earliest: bool) -> Inbox:
        """What a query finds when it comes, here and in the model."""
        life = self.lives[box] = Life(facts)
        if facts.answers == "windows":
            life.put_us = self.watermark_us // Windows.WIDTH_US * Windows.WIDTH_US
            return Windows(life.put_us)
        inbox = Inbox()
        for stream in facts.reads if earliest else ():
            for segment in self.segments[stream]:
                inbox.arrive(segment)
                self._comes(life, segment)
        return inbox

    def pass_time(self, ms: int, jump_s: int = 0) -> None:
        """``jump_s``: for so long the process was stopped."""
        while self.steps:  # they end in time: giving up a step has a test of its own
            self.step_ends()
        self.now_ns += ms * MS + jump_s * SECOND
        self.tell(ev.Woke())

    def ends_well(self, job: StartJob, ms: int) -> None:
        done = tuple(self.done(group, "well", ms) for group in job.groups)
        del self.jobs[job.order]
        self.tell(ev.JobEnded(job.order, done, None, ms * MS * len(done)))

    def done(self, group: Group, end: str, ms: int) -> ev.Done:
        boxes = group.boxes[:1] if end == "alone" else group.boxes
        refusing = boxes[-1:] if end == "undelivered" else ()
        names = [inside(self.engine).queries.facts[b].name for b in refusing]
        undelivered = {name: ev.Failure("refused") for name in names}
        report = ran(*[1] * len(boxes), ms=ms, at_ns=self.now_ns, undelivered=undelivered)
        return ev.Done(boxes, report)

    def new_command(self, box: int) -> int:
        self.numbered += 1
        self.commands[self.numbered] = box
        return self.numbered
