"""Puts a run together, each part from parts that are complete.

``startup`` comes first. The loop runs before sources and operators can reach it. What was started
is stopped in the reverse order.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Delivered, Event, Pause
from daybreak.engine.inbox import Tick
from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.control import ControlServer
from daybreak.runtime.eventlog import Emit
from daybreak.runtime.processor import processor_use
from daybreak.spark.control.admission import Admission
from daybreak.spark.control.controller import Controller
from daybreak.spark.control.protocol import Protocol
from daybreak.spark.control.registration import Registration
from daybreak.spark.control.status import StatusReader
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.failures import LeaseLost, LogUnavailable, failure_of
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.inflow import Inflow, SourceFactory
from daybreak.spark.ingest.kafka_watch import KafkaWatch
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.ingest.rates import StreamRates
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.loop.driver import Driver
from daybreak.spark.loop.driver_hooks import Hooks
from daybreak.spark.sinks.delivery import Recovery, publish
from daybreak.spark.sinks.delivery import close as close_sinks
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.start.startup import (
    Accepted,
    Options,
    Storage,
    accept,
    announce_start,
    open_storage,
)
from daybreak.spark.stateful.stateful_queries import StatefulQueries
from daybreak.spark.tasks.prepared.cells import warm_cells
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.prepared.warmup import WarmUp
from daybreak.spark.upkeep.changes import ChangeLog
from daybreak.spark.upkeep.health import Health
from daybreak.spark.upkeep.maintenance import (
    Maintenance,
    PeriodicTask,
    PeriodicTasks,
    prune,
    redeliver,
)
from daybreak.spark.upkeep.record import Figures, Manifest, RunRecord
from daybreak.spark.upkeep.retention import Retention


@dataclass(frozen=True)
class RunParts:
    """The parts of a run that was started. Nothing but ``Run`` takes all of them."""

    rundir: RunDirectory
    log: CommitLog
    store: SegmentStore
    catalog: Catalog
    #: What earlier processes had left.
    recovered: Recovery
    figures: Figures
    runners: RunnerFactory
    #: Plans by which small trains run without Spark jobs, and what prepares them.
    plans: Plans
    warmup: WarmUp
    driver: Driver
    arrivals: Arrivals
    inflow: Inflow
    retention: Retention
    record: RunRecord
    changes: ChangeLog
    health: Health
    controller: Controller
    status: StatusReader
    protocol: Protocol
    control: ControlServer
    emit: Emit
    #: Stops sources, then the loop, then the workers.
    threads: ExitStack
    #: Closes the files, once the threads have ended.
    files: ExitStack


@dataclass(frozen=True)
class Arrivals:
    """Announces what sources and views have added to the log, once it is listed there."""

    late: LateRows
    driver: Driver

    def on_segment(self, segment: Segment) -> None:
        self.late.look(segment)
        self.driver.on_segment(segment)

    def on_tick(self, tick: Tick) -> None:
        self.driver.on_tick(tick)


@dataclass(frozen=True)
class RunnerFactory:
    """Makes the runner of a worker's jobs."""

    application: CheckedApplication
    storage: Storage
    syncer: FileSyncer
    plans: Plans
    stateful: StatefulQueries

    def tagged(self, tag: str) -> JobRunner:
        """For the thread that calls; its jobs can be cancelled by the tag."""
        self.application.spark.sparkContext.addJobTag(tag)
        return self.named(tag)

    def named(self, name: str) -> JobRunner:
        application, storage = self.application, self.storage
        return JobRunner(
            application.spark, application.schemas, storage.store, storage.log, storage.partials,
            self.syncer, storage.rundir.scratch / name, self.plans.worker(name),
            application.tables, self.stateful,
        )  # fmt: skip


def assemble(application: CheckedApplication, run_dir: Path, options: Options) -> RunParts:
    """Starts a run; ``ConfigError`` if it may not start, and then nothing has changed."""
    try:
        return _assemble(application, run_dir, options)
    except LogUnavailable as error:
        remedy = "see to it and start again; nothing is lost"
        raise ConfigError(application.name, f"cannot start now: {error}", remedy) from error


def _assemble(application: CheckedApplication, run_dir: Path, options: Options) -> RunParts:
    limits = options.limits
    # Refused before the run directory is locked.
    sinks = application.sinks(run_dir, limits.job_timeout_s)
    with ExitStack() as files, ExitStack() as threads:
        files.enter_context(CLOCK.held())
        storage, event_log = open_storage(application, run_dir, limits.lease_s, files)
        accepted = accept(Catalog(application, sinks), storage, event_log, options, files)
        log, store, dead_letters = storage.log, storage.store, storage.dead_letters
        catalog, clocks, late = accepted.catalog, accepted.clocks, accepted.late
        undeclared, emit = accepted.undeclared, accepted.emit
        application = catalog.application  # with the queries registered in earlier runs

        figures = Figures(accepted.state)
        plans = Plans(application.spark, application.tables)
        engine = _engine(accepted, storage, plans, options)
        changes = ChangeLog(figures.start_ns, emit)
        backpressure = Backpressure()
        manifest = Manifest(
            catalog, engine, log, dead_letters, late, changes, options.shedding, plans,
            figures.monitor, figures.start_ns, store.driver_rows, backpressure,
        )  # fmt: skip
        record = RunRecord(storage.rundir.record, limits.record_max_bytes, figures, manifest)
        retention = Retention(
            catalog, engine, log, store, undeclared, clocks, backpressure, limits.log_max_bytes,
            emit,
        )  # fmt: skip
        maintenance = Maintenance(retention, clocks, backpressure, record)
        syncer = FileSyncer(log, catalog.sinks)
        threads.callback(syncer.close)
        threads.callback(close_sinks, catalog.sinks)
        runners = _runners(application, storage, syncer, plans, threads)
        driver = _driver(catalog, engine, figures, runners, retention, maintenance, limits, emit)
        threads.callback(driver.join)
        arrivals = Arrivals(late, driver)
        for view in catalog.views():
            view.bind(store, arrivals.on_segment, arrivals.on_tick)
        announce_start(accepted)
        warmup = WarmUp(plans, emit)
        threads.callback(warmup.close)
        every = range(len(catalog.runnables))
        warm_cells(warmup, engine, catalog.runnables, application.schemas, every)
        log.database.on_lost(lambda error: _halt(driver, emit, error))
        driver.start(*_held(catalog, log, accepted.recovered))
        threads.callback(driver.stop)

        make_source = SourceFactory(
            application.spark, application.folder, application.streams, storage.rundir, store,
            dead_letters, backpressure, arrivals.on_segment, limits.driver_batch_bytes,
        )  # fmt: skip
        sources = Sources(make_source, limits, emit, storage.trouble, backpressure)
        inflow = Inflow(
            application.streams, store, sources, KafkaWatch(sources.positions, emit), clocks, late,
            dead_letters, backpressure, StreamRates(),
        )  # fmt: skip
        threads.callback(inflow.stop)
        inflow.start(catalog.sources())
        tasks = _start_tasks(
            driver, storage, catalog, syncer, inflow, record, runners.stateful, emit
        )
        for periodic in tasks:
            threads.callback(periodic.stop)

        health = Health(application.name, driver, syncer, sources)
        status = StatusReader(
            catalog, driver, figures, log, inflow, undeclared, changes, maintenance, tasks,
            limits.log_max_bytes, warmup.status,
        )  # fmt: skip
        registration = Registration(catalog, engine, log, inflow, figures.monitor, plans, warmup)
        admission = Admission(
            application.spark, engine, store, inflow.rates, limits, plans, runners.named
        )
        controller = Controller(
            catalog, driver, log, storage.rundir, undeclared, registration, admission, changes,
            health, accepted.folders, emit,
        )  # fmt: skip
        protocol = Protocol(controller, status, emit)
        control = ControlServer(storage.rundir.root, protocol.handle)
        threads.callback(control.close)
        return RunParts(
            storage.rundir, log, store, catalog, accepted.recovered, figures, runners, plans,
            warmup, driver, arrivals, inflow, retention, record, changes, health, controller,
            status, protocol, control, emit, threads.pop_all(), files.pop_all(),
        )  # fmt: skip


def _runners(
    application: CheckedApplication,
    storage: Storage,
    syncer: FileSyncer,
    plans: Plans,
    threads: ExitStack,
) -> RunnerFactory:
    stateful = StatefulQueries(
        application.spark, application.schemas, storage.rundir, storage.store, storage.log,
        application.tables,
    )  # fmt: skip
    threads.callback(stateful.close)
    return RunnerFactory(application, storage, syncer, plans, stateful)


def _start_tasks(
    driver: Driver,
    storage: Storage,
    catalog: Catalog,
    syncer: FileSyncer,
    inflow: Inflow,
    record: RunRecord,
    stateful: StatefulQueries,
    emit: Emit,
) -> tuple[PeriodicTasks, ...]:
    log = storage.log
    # A sink may take its time, and so has a thread of its own.
    deliveries = [
        PeriodicTask(
            "redeliver",
            0.2,
            lambda: redeliver(driver, log, catalog.sinks, syncer, storage.store.confirm, emit),
        ),
    ]
    chores = [
        PeriodicTask("storage", 0.2, storage.check),
        PeriodicTask("tend", 0.2, inflow.sources.tend),
        PeriodicTask("measure", 0.5, lambda: inflow.rates.note(driver.engine.arrived_rows)),
        PeriodicTask("write_record", 1.0, record.write),
        PeriodicTask("prune", 10.0, lambda: prune(log, catalog)),
    ]
    groups = [deliveries, [PeriodicTask("publish", 0.2, lambda: publish(catalog.sinks))], chores]
    # Spark may take its time to stop a query that was dropped.
    groups.append([PeriodicTask("tidy_state", 2.0, stateful.tidy)])
    tables = catalog.application.tables
    if tables.refreshes:
        groups.append(
            [PeriodicTask("refresh", 0.2, lambda: tables.refresh(partial(_announce_rows, emit)))]
        )
    return tuple(PeriodicTasks(tasks, emit) for tasks in groups)


def _announce_rows(emit: Emit, table: str, rows: int) -> None:
    emit("table-refreshed", f"{table} has {rows} rows now", table=table, rows=rows)


def _engine(accepted: Accepted, storage: Storage, plans: Plans, options: Options) -> Engine:
    """An engine whose inboxes hold what was ingested before this start and not yet answered."""
    catalog, inboxes = accepted.catalog, accepted.start.inboxes()
    specs = catalog.application.specs
    return Engine(
        accepted.state,
        [
            facts_of(query, specs[query.name], prepared=plans.usable)
            for query in catalog.runnables
        ],
        [inboxes[query.name] for query in catalog.runnables],
        catalog.application.policy,
        Settings(
            seed=options.seed, rider_bound_ns=round(options.rider_bound_s * 1e9),
            limits=options.limits, shedding=options.shedding,
        ),
        {stream: storage.store.end(stream).seq for stream in catalog.application.streams},
    )  # fmt: skip


def _driver(
    catalog: Catalog,
    engine: Engine,
    figures: Figures,
    runners: RunnerFactory,
    retention: Retention,
    maintenance: Maintenance,
    limits: Limits,
    emit: Emit,
) -> Driver:
    accounts = Accounts(
        figures.state, engine.queries, figures.monitor, figures.recorder, figures.history,
        figures.start_ns,
    )  # fmt: skip
    hooks = Hooks(
        runners.tagged,
        runners.plans.cancel,
        maintenance.tidy,
        retention.give_up,
        maintenance.note_trouble,
        emit,
    )
    if (catalog.application.spark.sparkContext.master or "").startswith("local"):
        hooks = hooks._replace(processor=processor_use)  # jobs run on this machine's cores
    return Driver(engine, accounts, catalog.runnables, hooks, limits.job_timeout_s)


def _halt(driver: Driver, emit: Emit, error: LeaseLost) -> None:
    """Another driver works now: this one ends by itself."""
    emit("lease-lost", str(error), level=logging.ERROR)
    driver.halt(error)


def _held(catalog: Catalog, log: CommitLog, recovered: Recovery) -> list[Event]:
    """Queries that were paused, and those whose sink will not take what they had committed."""
    index = catalog.network.query_index
    return [
        *(Delivered(index[name], failure_of(why)) for name, why in recovered.refused.items()),
        *(Pause(index[name]) for name in sorted(log.paused() & index.keys())),
    ]
