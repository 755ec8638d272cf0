"""What a driver and those who work for it need of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from daybreak.engine.events import Event
from daybreak.engine.inbox import Tick, Waiting
from daybreak.policies.base import ProcessorUse
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.tasks.task import Runnable


class Loop(Protocol):
    """What maintenance between two decisions may do to the loop that calls it."""

    def feed(self, *events: Event) -> None:
        """Hands the engine events that are the next; raises if rows could not be given up.

        The loop calls maintenance when all that came before has been handled.
        """

    def on_tick(self, tick: Tick) -> None:
        """Queues a watermark, behind what has arrived before."""


class Hooks(NamedTuple):
    """What a driver needs done by others."""

    #: Makes a worker's runner, its jobs tagged as told; called on the worker's thread.
    new_runner: Callable[[str], JobRunner]
    #: Ends the jobs of a tag.
    cancel: Callable[[str], None]
    #: Called every ``TICK_S``, on the loop's thread, with the loop itself.
    tidy: Callable[[Loop], None]
    #: Moves queries past what was taken from their inboxes for good, all or none, and why.
    give_up: Callable[[Sequence[tuple[Runnable, Sequence[Waiting]]], str], None]
    #: A disk that takes nothing now: what could not be done, and why; None when it could.
    trouble: Callable[[str, str | None], None] = lambda _what, _why: None
    #: Emits to the event log.
    emit: Emit = silent
    #: How busy the cores are that jobs share; None where jobs run on other machines.
    processor: Callable[[], ProcessorUse | None] = lambda: None
