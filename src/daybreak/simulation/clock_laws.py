"""Laws about clocks: whatever they do, rows that wait are served.

The wall clock of a machine is set by a minute, an hour or a day, either way: while a run is under
way, or between two runs, so that rows in the log are stamped far from now. And a process may be
stopped for so long.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Done, Event, JobEnded, Ran, RangeArrived, Started, Woke
from daybreak.engine.inbox import Inbox, Waiting
from daybreak.engine.instructions import Account, StartJob, WakeAt
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model import Box, Network, QoSGraph, Query, QueryClass, Stream
from daybreak.runtime.clock import Clock
from daybreak.simulation.loop import NEVER
from daybreak.simulation.query_laws import Make

MS, SECOND = 10**6, 10**9
STEPS_NS = tuple(s * SECOND for s in (60, -60, 3_600, -3_600, 86_400, -86_400))
#: A day of 2026.
BEGIN_NS = 1_790_000_000 * SECOND
#: Tuples come so often, for so long; the step is in the middle. Jobs take so long.
EVERY_NS, SPAN_NS, JOB_NS = 100 * MS, 2 * SECOND, 5 * MS
#: An engine is woken at least so often.
TICK_NS = 100 * MS
#: All that waits is served so long after the last arrival: half of the shortest step.
SOON_NS = 30 * SECOND


class ClockSteps(NamedTuple):
    """What clocks do."""

    #: How far from now rows are stamped that wait at the start.
    stamped_ns: int = 0
    #: By how much the wall clock is set on the way.
    wall_ns: int = 0
    #: For how long the process is stopped on the way.
    stopped_ns: int = 0


def _network() -> Network:
    graphs = {"a": None, "b": QoSGraph.deadline(0.2), "c": QoSGraph.deadline(5.0, 60.0)}
    return Network(
        streams=[Stream(name="s")],
        boxes=[Box(name=n, inputs=("s",), kind="filter") for n in graphs],
        queries=[
            Query(name=n, output=n, cls="hl"[i % 2], qos=g)
            for i, (n, g) in enumerate(graphs.items())
        ],
        classes=[QueryClass(name="h", priority=60), QueryClass(name="l", priority=10)],
    )


class _Driver:
    """Runs an engine by a clock whose two sources are made up."""

    def __init__(self, make: Make, steps: ClockSteps) -> None:
        self._steps = steps
        self._steady_ns, self._ahead_ns = 7 * SECOND, BEGIN_NS
        self._clock = Clock(lambda: self._steady_ns + self._ahead_ns, lambda: self._steady_ns)
        network = _network()
        names = [query.name for query in network.queries]
        stamp_ns = self._clock.now_ns() + steps.stamped_ns
        self._engine = Engine(
            JobState(network, 2),
            [QueryFacts(name, ("s",)) for name in names],
            [Inbox.of([Waiting(stamp_ns, "s", 5, 0)]) for _ in names],
            make(),
            Settings(),
        )
        self._ends: list[tuple[int, StartJob]] = []
        self._wake_ns = NEVER
        self.answered = 0

    def run(self) -> None:
        first_ns = self._steady_ns
        self._tell(Started())
        for n in range(1, SPAN_NS // EVERY_NS + 1):
            self._pass_until(first_ns + n * EVERY_NS)
            if n == SPAN_NS // EVERY_NS // 2:
                self._ahead_ns += self._steps.wall_ns
                self._steady_ns += self._steps.stopped_ns
                first_ns += self._steps.stopped_ns
            item = Waiting(self._clock.now_ns(), "s", 5, n)
            self._tell(Woke(), RangeArrived(tuple(range(len(self._engine.view.facts))), item))
        self._pass_until(self._steady_ns + SOON_NS)

    def _pass_until(self, until_ns: int) -> None:
        """Lets jobs end and the engine wake up to this instant of the steady clock."""
        while not self._engine.quiet or self._steady_ns < until_ns:
            wake_ns = min(self._steady_ns + TICK_NS, self._wake_ns - BEGIN_NS)
            ends_ns = min((at_ns for at_ns, _ in self._ends), default=NEVER)
            next_ns = max(min(wake_ns, ends_ns), self._steady_ns)
            if next_ns > until_ns:
                self._steady_ns = max(self._steady_ns, until_ns)
                return
            self._steady_ns = next_ns
            if ends_ns <= next_ns:
                self._end(min(self._ends, key=lambda one: one[0]))
            else:
                self._wake_ns = NEVER
                self._tell(Woke())

    def _end(self, ended: tuple[int, StartJob]) -> None:
        self._ends.remove(ended)
        _, job = ended
        now_ns = self._clock.now_ns()
        ran = partial(Ran, work_ns=JOB_NS, commit_ns=0, committed_at_ns=now_ns,
                      began_ns=now_ns - JOB_NS, undelivered={})  # fmt: skip
        done = tuple(
            Done(g.boxes, ran(rows=(1,) * len(g.boxes), stale_since_ns=(None,) * len(g.boxes)))
            for g in job.groups
        )
        self._tell(JobEnded(job.order, done, None, JOB_NS * len(done)))

    def _tell(self, *events: Event) -> None:
        for instruction in self._engine.handle(self._clock.now_ns(), *events):
            match instruction:
                case StartJob():
                    ends_ns = self._steady_ns + JOB_NS * len(instruction.groups)
                    self._ends.append((ends_ns, instruction))
                case WakeAt(at_ns):
                    self._wake_ns = min(self._wake_ns, at_ns)
                case Account(boxes=boxes, taken=taken):
                    self.answered += len(boxes) * sum(item.tuples for item in taken)

    @property
    def waiting(self) -> list[str]:
        """Queries that have not answered all."""
        view = self._engine.look()
        return [f.name for f, n in zip(view.facts, view.waiting, strict=True) if n]


def serves_rows_whatever_clocks_do(make: Make) -> None:
    """Rows that wait are served soon after the last has come, whether the wall clock is set, rows
    in the log were stamped by a clock that was ahead or behind, or the process was stopped."""
    if not make().on_spark:
        return
    steps = [ClockSteps()]
    steps += [ClockSteps(stamped_ns=ns) for ns in STEPS_NS]
    steps += [ClockSteps(wall_ns=ns) for ns in STEPS_NS]
    steps += [ClockSteps(stopped_ns=ns) for ns in STEPS_NS if ns > 0]
    for one in steps:
        driver = _Driver(make, one)
        driver.run()
        assert not driver.waiting, f"rows of {', '.join(driver.waiting)} were not served, {one}"
        assert driver.answered == 15 * (SPAN_NS // EVERY_NS + 1), f"rows were lost, {one}"


CLOCK_LAWS = (serves_rows_whatever_clocks_do,)
