"""The sources of a run are made and started here, once somebody takes what they bring."""

from __future__ import annotations

from contextlib import ExitStack

from daybreak.model.limits import Limits
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.ingest.inflow import Inflow, SourceFactory
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.log.segments import OnSegment
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.startup import Accepted


def start_inflow(
    accepted: Accepted,
    storage: Storage,
    on_segment: OnSegment,
    backpressure: Backpressure,
    gate: IngestGate,
    limits: Limits,
    threads: ExitStack,
) -> Inflow:
    """Starts the sources that a query reads; ``threads`` stops them.

    ``gate`` lets them read when the engine grants it.
    """
    application, emit = accepted.catalog.application, accepted.emit
    make_source = SourceFactory(
        application.spark, application.folder, application.streams, storage.rundir, storage.store,
        storage.dead_letters, backpressure, gate, on_segment, limits.driver_batch_bytes,
    )  # fmt: skip
    sources = Sources(make_source, limits, emit, storage.trouble, backpressure)
    inflow = Inflow(
        application.streams, storage.store, sources, KafkaWatch(sources.positions, emit),
        accepted.clocks, accepted.late, storage.dead_letters, backpressure, StreamRates(),
    )  # fmt: skip
    threads.callback(inflow.stop)
    inflow.start(accepted.catalog.sources())
    return inflow
