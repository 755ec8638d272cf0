"""Engines for tests: a few queries, a policy that is easy to foresee, and what jobs report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.engine.inside import inside

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Done, Event, Failure, JobEnded, Ran, Woke
from daybreak.engine.inbox import Arrival, Inbox, Tick, Waiting, WholeInbox, closing
from daybreak.engine.instructions import DEBUG, Group, Instruction, Notice, StartJob
from daybreak.engine.queries import Owner, QueryFacts, QueryStatus
from daybreak.engine.state import JobState
from daybreak.model.network import Box, Network, Query, QueryClass, Stream
from daybreak.policies.base import BasePolicy, Change, Decision, Plan, Step, View, Work

MS, SECOND = 1_000_000, 1_000_000_000


@dataclass(frozen=True)
class Segment:
    """Tuples of a stream that arrived together."""

    arrival_ns: int
    stream: str
    seq: int
    rows: int
    after_us: int | None = None
    borders: tuple[int, ...] = ()


class Windows(WholeInbox):
    """Windows of 10 µs over one stream, pending once its watermark has passed their end."""

    WIDTH_US = 10

    def __init__(self, put_us: int = 0) -> None:
        super().__init__()
        self._put_us = put_us

    def arrive(self, segment: Arrival) -> int:
        assert segment.after_us is not None
        return self.tick(Tick(segment.arrival_ns, segment.stream, segment.rows, segment.after_us))

    def tick(self, tick: Tick) -> int:
        closes_us = tick.watermark_us // self.WIDTH_US * self.WIDTH_US
        if closes_us <= self._put_us:
            return 0
        rows = max(1, tick.rows)
        self.put(closing(tick.arrival_ns, tick.stream, rows, self._put_us, closes_us))
        self._put_us = closes_us
        return rows


class First(BasePolicy):
    """Plans the free query with the lowest index, all that waits for it; remembers what it hears.

    ``plans`` come first, if there are any.
    """

    name = "first"

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self.heard: list[tuple[object, ...]] = []
        self.plans: list[Decision] = []

    def decide(self, now_ns: int, worker: int) -> Decision:
        if self.plans:
            return self.plans.pop(0)
        free = [b for b, n in enumerate(self.view.pending) if n and not self.view.running[b]]
        return Plan((Step(free[0]),)) if free else None

    def on_arrival(self, box: int, count: int, now_ns: int) -> None:
        self.heard.append(("arrival", box, count))

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        self.heard.append(("completion", plan, cost_ns))

    def on_withdrawn(self, box: int, now_ns: int) -> None:
        self.heard.append(("withdrawn", box))

    def on_returned(self, box: int, cost_ns: int, now_ns: int) -> None:
        self.heard.append(("returned", box))

    def on_change(self, change: Change, now_ns: int) -> None:
        self.heard.append(tuple(change))

    def on_query_removed(self, query: int, now_ns: int) -> None:
        self.heard.append(("removed", query))


class Learner(First):
    """The same, and it takes queries that come while it runs."""

    name = "learner"

    def on_query_added(self, query: int, now_ns: int) -> None:
        self.heard.append(("added", query))


def network_of(facts: Sequence[QueryFacts], classes: str = "") -> Network:
    """Queries of one box each, of class "h" (priority 60) or "l" (10)."""
    classes = classes or "h" * len(facts)
    return Network(
        streams=[Stream(name=s) for s in sorted({s for f in facts for s in f.reads})],
        boxes=[Box(name=f.name, inputs=f.reads, kind="filter") for f in facts],
        queries=[
            Query(name=f.name, output=f.name, cls=c) for f, c in zip(facts, classes, strict=True)
        ],
        classes=[QueryClass(name="h", priority=60), QueryClass(name="l", priority=10)],
        as_listed=True,
    )


def inbox_of(facts: QueryFacts) -> Inbox:
    return Windows() if facts.answers == "windows" else Inbox()


def ran(
    *rows: int, ms: int = 10, at_ns: int = 0, undelivered: Mapping[str, Failure] | None = None
) -> Ran:
    """A job that ended well with so many result rows of each of its queries."""
    return Ran(rows, ms * MS, 0, at_ns, at_ns - ms * MS, undelivered or {}, (None,) * len(rows))


@dataclass
class Bench:
    """An engine, and the clock that it is told."""

    facts: Sequence[QueryFacts]
    classes: str = ""
    workers: int = 1
    express: int = 0
    policy: BasePolicy = field(default_factory=First)
    settings: Settings = field(default_factory=Settings)
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.network = network_of(self.facts, self.classes)
        self.engine = Engine(
            JobState(self.network, self.workers, express=self.express),
            self.facts,
            [inbox_of(f) for f in self.facts],
            self.policy,
            self.settings,
        )
        self._seq: dict[str, int] = {}

    def tell(self, *events: Event) -> list[Instruction]:
        """What the engine answers, without what is only for debugging."""
        out = self.engine.handle(self.now_ns, *events)
        return [i for i in out if not (isinstance(i, Notice) and i.level == DEBUG)]

    def woke(self, now_ns: int) -> list[Instruction]:
        """What the engine answers when it is that late."""
        self.now_ns = now_ns
        return self.tell(Woke())

    def segment(self, stream: str, rows: int, after_us: int | None = None) -> Segment:
        """The next of a stream."""
        seq = self._seq[stream] = self._seq.get(stream, -1) + 1
        return Segment(self.now_ns, stream, seq, rows, after_us)

    def well(self, job: StartJob, ms: int = 10) -> JobEnded:
        """All of a job's groups ended well."""
        done = tuple(Done(g.boxes, ran(*[1] * len(g.boxes), ms=ms)) for g in job.groups)
        return JobEnded(job.order, done, None, ms * MS * len(done))

    def owner(self, box: int) -> Owner:
        return inside(self.engine).queries.owner(box)

    def status(self, box: int) -> QueryStatus:
        return inside(self.engine).queries.status[box]

    def waiting(self, box: int) -> list[Waiting]:
        return list(inside(self.engine).queries.inboxes[box].waiting)


def start(
    order: int, groups: Sequence[Group], *, worker: int = 0, plan: Plan | None = None
) -> StartJob:
    """The instruction for a plan that names the first query of each group."""
    steps = plan or Plan(tuple(Step(group.boxes[0]) for group in groups))
    return StartJob(order, worker, steps, tuple(groups))
