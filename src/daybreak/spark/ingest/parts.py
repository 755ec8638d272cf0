"""Parts of a run that all sources share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from daybreak.engine.inbox import Tick
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.ingest.direct.load import SegmentLoad
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.log.segments import OnSegment, SegmentStore


class StreamWay(NamedTuple):
    """Who reads a stream, and why that is not left to this driver's threads alone."""

    way: Literal["direct", "jobs", "spark"]
    why: str = ""

    @property
    def shown(self) -> str:
        return f"{self.way}: {self.why}" if self.why else self.way


@dataclass(frozen=True)
class IngestParts:
    """Where sources put rows, and what holds them up."""

    store: SegmentStore
    dead_letters: DeadLetters
    backpressure: Backpressure
    #: Lets sources read when the engine grants it.
    gate: IngestGate
    on_segment: OnSegment
    on_tick: Callable[[Tick], None]
    #: Executors write batches that are larger.
    driver_batch_bytes: int
    #: As chosen at the start of each stream.
    ways: dict[str, StreamWay] = field(default_factory=dict)
    emit: Emit = silent
    load: SegmentLoad = field(default_factory=SegmentLoad)
