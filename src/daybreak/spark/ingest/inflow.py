"""Everything that brings rows into a run, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from daybreak.engine.inbox import Tick
from daybreak.model.specs import StreamSpec
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.snapshot import StreamRow
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.ingest.parts import StreamWay
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.views import FORMAT as VIEW


@dataclass(frozen=True)
class Inflow:
    """The streams of a run with their sources. Methods may be called from any thread."""

    streams: Mapping[str, StreamSpec]
    store: SegmentStore
    sources: Sources
    kafka: KafkaWatch
    clocks: EventClocks
    late: LateRows
    dead_letters: DeadLetters
    backpressure: Backpressure
    rates: StreamRates
    ways: Mapping[str, StreamWay]
    gate: IngestGate

    def start(self, streams: Iterable[str]) -> None:
        """Starts the sources of these streams that do not run yet."""
        self.sources.start(streams)
        self.kafka.start()

    def stop(self) -> None:
        self.sources.stop()
        self.kafka.close()
        with suppress(LogUnavailable, LeaseLost, OSError):  # the next start writes what is missing
            self.late.write()

    def flush(self, on_tick: Callable[[Tick], None], wait: Callable[[], None]) -> None:
        """The input ends here: closes open windows, those over views after their streams'.

        A stream that has stopped has not ended: its windows stay open, and those over views, which
        may read it.
        """
        stopped = self.sources.stopped()
        for stage in self.clocks.stages:
            ended = [n for n in stage if n not in stopped]
            if stopped:
                ended = [n for n in ended if self.streams[n].format != VIEW]
            for tick in self.clocks.ends(ended, CLOCK.now_ns()):
                on_tick(tick)
            wait()

    def status(self, arrived_rows: Mapping[str, int]) -> tuple[StreamRow, ...]:
        """Every stream: what is kept of it, what was malformed, what is wrong with its source."""
        errors, stopped = {**self.sources.errors(), **self.kafka.troubles}, self.sources.stopped()
        passed = self.store.driver_rows.streams
        rows = []
        for name, spec in self.streams.items():
            kept, steps = self.store.segments(name), self.gate.steps(name)
            rows.append(
                StreamRow(
                    name=name,
                    view=spec.format == VIEW,
                    arrived=arrived_rows.get(name, 0),
                    arrived_per_s=round(self.rates.per_s(name), 1),
                    segments=len(kept),
                    bytes=sum(s.bytes for s in kept),
                    dead_letters=self.dead_letters.count(name),
                    blocked=self.backpressure.full,
                    error=errors.get(name),
                    rows_through_driver=passed.get(name, 0),
                    stopped=name in stopped,
                    ingest=self.ways[name].shown if name in self.ways else "",
                    ingest_work_s=round(steps.work_ns / 1e9, 3),
                    ingest_waited_s=round(steps.waited_ns / 1e9, 3),
                )
            )
        return tuple(rows)
