"""The gate through which sources read: short steps pass, long ones wait for the engine's grant.

A source's thread asks before each step and says afterwards what it took, so what the next one will
take is learned per stream, as the cost of jobs is. Backpressure and storage are waited for before
a step is asked for, never while holding one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from daybreak.engine.events import Event, Ingested, SourceShows
from daybreak.engine.instructions import Ingest
from daybreak.spark.ingest.backpressure import Stopped

#: A step that is expected to take less needs no grant. Twice as long, and sources that nothing
#: schedules may take twice the processor time before the policy sees them; half, and a stream of
#: a few files a second asks the loop each time, which adds 0.2 to 1 ms to its rows' latency.
FREE_NS = 3_000_000
#: What a step takes before one was seen: by itself, and per byte (JSON at 50 MB/s). Twice as much
#: or half, and the first long step of a stream is half or twice as long as it was meant to be.
FIRST_FIXED_NS, FIRST_BYTE_NS = 2e6, 20.0
#: Weight of the newest step. Twice as much, and one slow step (a cold file, a garbage collection)
#: halves the next; half, and it takes twice as many steps to follow files of another kind.
NEWEST = 0.25
#: A step's part by itself grows by this share, and 0.1 ms, per step at most, since what made one
#: slow is rarely there for the next. Twice as much, and a busy second makes small steps ask for a
#: while; half, and a source that became slow passes unasked for twice as many steps.
RISE = 0.05
#: How soon a source that waits notices that it is to stop.
WATCH_S = 0.05


@dataclass
class StepCost:
    """Expects what a step of one stream takes: a part of its own, and one per unit."""

    fixed_ns: float = FIRST_FIXED_NS
    per_unit_ns: float = FIRST_BYTE_NS

    def of(self, amount: int) -> float:
        """Nanoseconds that a step over so much is expected to take."""
        return self.fixed_ns + self.per_unit_ns * amount

    def learn(self, amount: int, took_ns: int) -> None:
        """Follows a step that has ended.

        What is not explained goes to the part that dominates such a step.
        """
        wrong_ns = took_ns - self.of(amount)
        if self.per_unit_ns * amount > self.fixed_ns:
            self.per_unit_ns = max(0.0, self.per_unit_ns + NEWEST * wrong_ns / amount)
        elif wrong_ns < 0:
            self.fixed_ns = max(0.0, self.fixed_ns + NEWEST * wrong_ns)
        else:
            self.fixed_ns += min(NEWEST * wrong_ns, RISE * self.fixed_ns + 1e5)


@dataclass
class StreamSteps:
    """Counts the steps of one stream, for those who look at the run."""

    cost: StepCost = field(default_factory=StepCost)
    steps: int = 0
    granted: int = 0
    #: Time that steps took, and that they waited for their grants.
    work_ns: int = 0
    waited_ns: int = 0


@dataclass
class _Waiting:
    """A source's thread that asked for a step."""

    came: threading.Event = field(default_factory=threading.Event)
    grant: Ingest | None = None


class SourceStep:
    """A step that a source takes: of at most ``most``, of which it read ``took``.

    A step that cannot be cut beforehand, such as a large file, is divided while it runs: between
    two parts ``again`` lets others have their turn.
    """

    def __init__(
        self, gate: IngestGate, stream: str, shown_ns: int, stopping: threading.Event
    ) -> None:
        self._gate = gate
        self._stream = stream
        self._shown_ns = shown_ns
        self._stopping = stopping
        self._grant: Ingest | None = None
        self._began_ns = 0
        #: How much may be read, in the unit of what the source said there is.
        self.most = 0
        #: How much was read, where the source knows; 0: all of that.
        self.took = 0

    def begin(self, amount: int) -> None:
        """Waits until a step over at most ``amount`` may begin."""
        amount = max(1, amount)
        self._grant = self._gate.ask(self._stream, amount, self._shown_ns, self._stopping)
        self.most = amount if self._grant is None else min(amount, self._grant.most)
        self.took, self._began_ns = 0, time.monotonic_ns()

    def end(self, *, well: bool) -> None:
        """Ends it; one that did not end well teaches nothing."""
        took_ns = time.monotonic_ns() - self._began_ns
        self._gate.ended(self._stream, self._grant, took_ns, self.took or self.most, well=well)

    def again(self, took: int, left: int) -> int:
        """Ends this part of a step and waits for the next; gives how much that may take."""
        self.took = took
        self.end(well=True)
        self.begin(left)
        return self.most


class IngestGate:
    """Lets the sources of a run read. Methods may be called from any thread."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        """``tell`` queues an event for the engine."""
        self._tell = tell
        self._guard = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}
        self._streams: dict[str, StreamSteps] = {}

    def steps(self, stream: str) -> StreamSteps:
        """The steps of a stream so far."""
        with self._guard:
            return self._streams.setdefault(stream, StreamSteps())

    @contextmanager
    def step(
        self, stream: str, amount: int, shown_ns: int, stopping: threading.Event
    ) -> Iterator[SourceStep]:
        """Waits until a step over at most ``amount`` may begin; it ends with the block.

        ``Stopped`` if the source is to stop meanwhile.
        """
        step = SourceStep(self, stream, shown_ns, stopping)
        step.begin(amount)
        try:
            yield step
        except BaseException:
            step.end(well=False)
            raise
        step.end(well=True)

    def open(self, grant: Ingest) -> None:
        """Lets a step begin; called on the loop's thread."""
        with self._guard:
            waiting = self._waiting.pop(grant.stream, None)
        if waiting is None:  # its source has stopped meanwhile
            self._tell(Ingested(grant.stream, grant.grant, 0))
            return
        waiting.grant = grant
        waiting.came.set()

    def ask(
        self, stream: str, amount: int, shown_ns: int, stopping: threading.Event
    ) -> Ingest | None:
        """Waits for a grant; None for a step so short that it needs none."""
        known = self.steps(stream)
        if known.cost.of(amount) < FREE_NS:
            return None
        waiting, asked_ns = _Waiting(), time.monotonic_ns()
        with self._guard:
            self._waiting[stream] = waiting
        cost = known.cost
        self._tell(SourceShows(stream, amount, shown_ns, cost.fixed_ns, cost.per_unit_ns))
        while not waiting.came.wait(WATCH_S):
            if stopping.is_set():
                self._withdraw(stream, waiting)
        assert waiting.grant is not None
        known.granted += 1
        known.waited_ns += time.monotonic_ns() - asked_ns
        return waiting.grant

    def ended(
        self, stream: str, grant: Ingest | None, took_ns: int, amount: int, *, well: bool
    ) -> None:
        """Notes the end of a step, and lets its worker go."""
        known = self.steps(stream)
        known.steps += 1
        known.work_ns += took_ns
        if well:
            known.cost.learn(amount, took_ns)
        if grant is not None:
            self._tell(Ingested(stream, grant.grant, took_ns))

    def _withdraw(self, stream: str, waiting: _Waiting) -> None:
        """Asks no more; ``Stopped``, unless the grant has just come."""
        with self._guard:
            if self._waiting.get(stream) is not waiting:
                return
            del self._waiting[stream]
        self._tell(SourceShows(stream, 0))
        raise Stopped
