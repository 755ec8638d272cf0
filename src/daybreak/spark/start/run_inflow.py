"""The sources of a run are made and started here, once somebody takes what they bring."""

from __future__ import annotations

from contextlib import ExitStack

from daybreak.model.limits import Limits
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.direct.choice import DirectStreams
from daybreak.spark.ingest.gate import IngestGate
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.parts import IngestParts, StreamWay
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.ingest.source_factory import SourceFactory
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.start.run_scheduling import Arrivals
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.startup import Accepted


def start_inflow(
    accepted: Accepted,
    storage: Storage,
    arrivals: Arrivals,
    backpressure: Backpressure,
    ways: dict[str, StreamWay],
    gate: IngestGate,
    limits: Limits,
    threads: ExitStack,
) -> Inflow:
    """Starts the sources that a query reads; ``threads`` stops them.

    ``gate`` lets them read when the engine grants it. ``ways``: kept up to date.
    """
    application, emit = accepted.catalog.application, accepted.emit
    parts = IngestParts(
        storage.store, storage.dead_letters, backpressure, gate, arrivals.on_segment,
        arrivals.on_tick, limits.driver_batch_bytes, ways, emit,
    )  # fmt: skip
    direct = DirectStreams(
        application.spark, application.folder, storage.rundir, storage.log, parts
    )
    make_source = SourceFactory(
        application.spark, application.folder, application.streams, storage.rundir, parts, direct
    )
    sources = Sources(make_source, limits, emit, storage.trouble, backpressure)
    inflow = Inflow(
        application.streams, storage.store, sources, KafkaWatch(sources.positions, emit),
        accepted.clocks, accepted.late, storage.dead_letters, backpressure, StreamRates(),
        ways, gate,
    )  # fmt: skip
    threads.callback(direct.close)
    threads.callback(inflow.stop)
    inflow.start(accepted.catalog.sources())
    return inflow
