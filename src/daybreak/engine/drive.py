"""One loop drives an engine: events in their order, ticks and wakes, instructions carried out.

It is the same for queries of Daybreak's own, for governed ones and for replays in virtual time. It
has no thread, no clock and does no I/O: ``Ports`` tell the time and act, ``Books`` count. A caller
queues what happened (``put``), lets the engine handle it (``settle``), and calls ``tick`` now and
then. Instructions are carried out in the order in which the engine gave them, and what that leads
to is queued behind.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from daybreak.engine.engine import Engine
from daybreak.engine.events import Event, Woke
from daybreak.engine.instructions import (
    Account,
    AccountFailure,
    Instruction,
    Shed,
    StartJob,
    WakeAt,
)
from daybreak.policies.base import ProcessorUse

#: No instant: nothing is due.
NEVER = 2**62


class Books(Protocol):
    """Counts what an engine does."""

    def decided(self, job: StartJob, now_ns: int) -> None:
        """A worker is given an order now."""

    def ran(self, job: Account) -> None:
        """A group of queries has run."""

    def failed(self, job: AccountFailure, now_ns: int) -> None:
        """A group has failed."""

    def shed(self, shed: Shed, now_ns: int) -> None:
        """Tuples were given up because of overload."""

    def tick(self, now_ns: int) -> None:
        """Time has passed."""


class Ports(Protocol):
    """The world in which an engine is driven. All of it is called by the loop's own thread."""

    def now_ns(self) -> int:
        """The instant by the clock that stamps arrivals."""

    def processor(self) -> ProcessorUse | None:
        """The use of the cores, where jobs share them; read at every tick."""

    def tidy(self) -> None:
        """Does what is done between two decisions, at every tick; may call ``put``."""

    def carry_out(self, instruction: Instruction) -> None:
        """Acts, and may call ``put``. It sees every instruction but ``WakeAt``, booked by then."""


class EngineLoop:
    """Drives one engine. One thread uses it."""

    def __init__(
        self,
        engine: Engine,
        books: Books,
        ports: Ports,
        tick_ns: int,
        came: deque[Event] | None = None,
    ) -> None:
        """``tick_ns``: how far ticks are apart, ``NEVER`` for none; ``came``: what is queued by
        others, if anybody else queues."""
        self.engine = engine
        self._books = books
        self._ports = ports
        self._every_ns = tick_ns
        self._came = deque[Event]() if came is None else came
        self._tick_ns = 0 if tick_ns < NEVER else NEVER
        #: When the engine asked to be woken, or somebody for it.
        self.wake_ns = NEVER
        self._processor: ProcessorUse | None = None

    def put(self, *events: Event) -> None:
        """Queues events behind those that came before."""
        self._came.extend(events)

    def settle(self, *events: Event) -> None:
        """Lets the engine handle all that is queued, then these, and what they lead to."""
        self._came.extend(events)
        while self._came:
            batch = tuple(self._came)
            self._came.clear()
            now_ns = self._ports.now_ns()
            for instruction in self.engine.handle(now_ns, *batch):
                self._book(instruction, now_ns)

    def tick(self) -> None:
        """Wakes the engine, if a tick is over or it has asked for that; else does nothing.

        What is queued is handled before: maintenance finds an engine that knows what came.
        """
        self.settle()
        now_ns = self._ports.now_ns()
        ticks, wakes = now_ns >= self._tick_ns, now_ns >= self.wake_ns
        if ticks:
            self._tick_ns = now_ns + self._every_ns
            self._books.tick(now_ns)
            self._processor = self._ports.processor()
            self._ports.tidy()
        if wakes:
            self.wake_ns = NEVER
        if ticks or wakes:
            self.settle(Woke(self._processor))

    def wake_by(self, at_ns: int) -> None:
        """Wakes the engine at this instant at the latest."""
        self.wake_ns = min(self.wake_ns, at_ns)

    def due_ns(self) -> int:
        """The instant of the next tick or wake; ``NEVER`` if there is none."""
        return min(self.wake_ns, self._tick_ns)

    def _book(self, instruction: Instruction, now_ns: int) -> None:
        match instruction:
            case WakeAt(at_ns):
                self.wake_by(at_ns)
                return
            case StartJob():
                self._books.decided(instruction, now_ns)
            case Account():
                self._books.ran(instruction)
            case AccountFailure():
                self._books.failed(instruction, now_ns)
            case Shed():
                self._books.shed(instruction, now_ns)
        self._ports.carry_out(instruction)
