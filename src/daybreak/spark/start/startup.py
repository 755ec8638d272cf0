"""The start of a run is accepted: what is declared is compared with what is in its storage.

What may be refused comes before anything is changed; then what earlier processes have left is
recovered, and queries are given their places.
"""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.view import EngineView
from daybreak.model.limits import Limits
from daybreak.model.shedding import SheddingParams
from daybreak.runtime.clock import CLOCK
from daybreak.spark.declared.acceptance import Acceptance
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.declared.registered import recall
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.undeclared import Undeclared, announce_forgotten, refuse_unknown
from daybreak.spark.sinks.delivery import Recovery, recover
from daybreak.spark.sinks.folder_locks import FolderLocks, announce_unlocked
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.upkeep.reporter import Reporter
from daybreak.version import __version__

LIMITS = Limits()


@dataclass(frozen=True)
class Options:
    """How an application is run."""

    workers: int
    #: Workers on top of the others, for the highest class alone.
    express: int = 0
    seed: int = 1
    #: Queries that restart at the next segment.
    reset: tuple[str, ...] = ()
    #: Queries that are no longer declared and whose places are given up.
    forget: tuple[str, ...] = ()
    #: How much queries that run along may delay the one asked for.
    rider_bound_s: float = 0.1
    limits: Limits = LIMITS
    shedding: SheddingParams | None = None
    #: Whether a parked query is a Python warning.
    warns: bool = True


@dataclass(frozen=True)
class Accepted:
    """A start that was compared with the run directory, and what it found there."""

    catalog: Catalog
    start: Acceptance
    clocks: EventClocks
    late: LateRows
    recovered: Recovery
    undeclared: Undeclared
    #: Queries whose places were given up now, with the reason.
    forgotten: dict[str, str]
    emit: Reporter
    folders: FolderLocks


def accept(catalog: Catalog, storage: Storage, options: Options, files: ExitStack) -> Accepted:
    """Recovers what earlier processes have left, and gives queries their places."""
    rundir, log, store = storage.rundir, storage.log, storage.store
    refuse_unknown(log, catalog.application.checked, options.forget)
    recall(catalog, log, rundir, options.forget)
    application = catalog.application
    for name, schema in application.schemas.items():
        store.read_as(name, to_arrow_schema(schema, timezone="UTC"))
    clocks = EventClocks(store, application.streams, application.windows(), time.monotonic_ns())
    late_folder = rundir.store.late
    start = Acceptance(application, log, store, late_folder, options.reset)
    start.refuse()
    folders = FolderLocks(log.id, rundir.root)
    files.callback(folders.close)
    places = {name: spec.place for name, spec in application.specs.items() if spec.place}
    unlocked = folders.take_all(catalog.sinks, places)
    # Up to here nothing has changed: a start that is refused costs nothing.
    for view in catalog.views():
        view.bind(store)  # nobody listens: inboxes are filled from the store
    recovered = recover(log, catalog.sinks)
    storage.dead_letters.recover()
    emit = Reporter(storage.event_log, catalog, options.warns)
    undeclared, forgotten = start.accept(options.forget, options.limits, emit)
    announce_unlocked(emit, unlocked)
    _catch_up(catalog, log)
    late = clocks.open_late(late_folder, log)
    return Accepted(catalog, start, clocks, late, recovered, undeclared, forgotten, emit, folders)


def _catch_up(catalog: Catalog, log: CommitLog) -> None:
    """The streams of views are as far as their queries."""
    progress = log.progress()
    for view in catalog.views():
        if view.query in progress:
            view.closed(progress[view.query].closed_us, CLOCK.now_ns())


def announce_start(accepted: Accepted, view: EngineView) -> None:
    application, emit = accepted.catalog.application, accepted.emit
    policy = application.policy.name
    emit(
        "started",
        f"{application.name}: {len(application.checked)} queries under {policy}",
        pipeline=application.name,
        policy=policy,
        workers=view.workers,
        express=view.express,
        version=__version__,
    )
    if accepted.recovered.delivered:
        results = len(accepted.recovered.delivered)
        emit("recovered", f"delivered {results} committed results", results=results)
    for file in accepted.recovered.missing:
        emit(
            "result-missing",
            f"lost a result of {file.rows} rows: {file.path} is gone and was not delivered",
            level=logging.ERROR, query=file.query, rows=file.rows, job=file.job,
            path=str(file.path),
        )  # fmt: skip
    for name, why in accepted.forgotten.items():
        announce_forgotten(emit, name, why)
    accepted.undeclared.announce()
