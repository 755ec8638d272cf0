"""The books of a run and its housekeeping: what it measures, records, removes and holds back."""

from __future__ import annotations

from dataclasses import dataclass

from daybreak.engine.engine import Engine
from daybreak.runtime.journal_file import JournalRecorder
from daybreak.runtime.standing import ChangeLog
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.parts import StreamWay
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.startup import Accepted, Options
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.upkeep.maintenance import Maintenance
from daybreak.spark.upkeep.record import Figures, Manifest, RunRecord
from daybreak.spark.upkeep.retention import Retention


@dataclass(frozen=True)
class Keeping:
    """The books of a run, and what keeps its storage from growing without bound."""

    figures: Figures
    changes: ChangeLog
    record: RunRecord
    #: Makes the sources wait for room.
    backpressure: Backpressure
    #: Who reads each stream that is read.
    ways: dict[str, StreamWay]
    retention: Retention
    maintenance: Maintenance


def make_keeping(
    accepted: Accepted,
    storage: Storage,
    figures: Figures,
    engine: Engine,
    plans: Plans,
    options: Options,
) -> Keeping:
    """Makes these parts; none of them has a thread."""
    catalog, log, limits = accepted.catalog, storage.log, options.limits
    changes = ChangeLog(figures.start_ns, accepted.emit)
    backpressure = Backpressure()
    ways: dict[str, StreamWay] = {}
    manifest = Manifest(
        catalog, engine, log, storage.dead_letters, accepted.late, changes, options.shedding, plans,
        figures.monitor, figures.start_ns, storage.store.driver_rows, backpressure,
        ways,
    )  # fmt: skip
    record = RunRecord(
        storage.rundir.record, limits.record_max_bytes, figures, manifest,
        JournalRecorder(engine.journal, figures.start_ns),
    )  # fmt: skip
    retention = Retention(
        catalog, engine, log, storage.store, accepted.undeclared, accepted.clocks, accepted.late,
        backpressure, limits.log_max_bytes, accepted.emit,
    )  # fmt: skip
    maintenance = Maintenance(retention, accepted.clocks, backpressure, record)
    return Keeping(figures, changes, record, backpressure, ways, retention, maintenance)
