"""What reaches the loop's thread of an executor on Spark, and what the executor asks of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple

from daybreak.engine.inbox import Tick, Waiting
from daybreak.policies.base import Change
from daybreak.runtime.eventlog import Say, silent
from daybreak.runtime.loop import Loop
from daybreak.spark.jobs import JobRunner, Runnable
from daybreak.spark.segments import Segment
from daybreak.spark.workers import Done, Order


@dataclass(frozen=True, slots=True)
class Arrived:
    segment: Segment


@dataclass(frozen=True, slots=True)
class Ended:
    worker: int
    order: Order
    ran: Done
    failure: Exception | None
    cost_ns: int


#: What an operator wants done on the loop's thread, between two decisions.
Make = Callable[[Loop], Change | None]


@dataclass(frozen=True, slots=True)
class Asked:
    """An operator's change, or only a question."""

    make: Make | None
    #: Whether nothing waited and nothing ran at that moment.
    done: Future[bool]


Event = Arrived | Ended | Asked | Tick


class Hooks(NamedTuple):
    """What the executor needs done by others."""

    #: Makes a worker's runner, its jobs tagged as told; called on the worker's thread.
    new_runner: Callable[[str], JobRunner]
    #: Ends the jobs of a tag.
    cancel: Callable[[str], None]
    #: Called every sampling period, on the loop's thread.
    tidy: Callable[[Loop], None]
    #: Moves queries past what was taken from their inboxes for ever, all or none, with the reason.
    give_up: Callable[[Sequence[tuple[Runnable, Sequence[Waiting]]], str], None]
    #: Jobs of these boxes have ended, and no other has begun; on the loop's thread.
    ended: Callable[[Sequence[int], Loop], None]
    #: Tells the event log.
    say: Say = silent
