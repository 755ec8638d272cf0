"""The control of a run: what operators reach, and the periodic tasks whose troubles they see.

A part that answers a request or a question belongs here, and a task that runs now and then on a
thread of its own (``_periodic``).
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from daybreak.model.limits import Limits
from daybreak.runtime.control import ControlServer
from daybreak.runtime.eventlog import Emit
from daybreak.spark.control.admission import Admission
from daybreak.spark.control.controller import Controller
from daybreak.spark.control.protocol import Protocol
from daybreak.spark.control.registration import Registration
from daybreak.spark.control.status import StatusReader
from daybreak.spark.control.waits import WaitReader
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.sinks.delivery import publish
from daybreak.spark.start.keeping import Keeping
from daybreak.spark.start.run_scheduling import Scheduling
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.startup import Accepted
from daybreak.spark.upkeep.health import Health
from daybreak.spark.upkeep.maintenance import PeriodicTask, PeriodicTasks, prune, redeliver


@dataclass(frozen=True)
class Control:
    """The operators' side of a run that has been started."""

    health: Health
    status: StatusReader
    controller: Controller
    protocol: Protocol
    server: ControlServer


def start_control(
    accepted: Accepted,
    storage: Storage,
    scheduling: Scheduling,
    keeping: Keeping,
    inflow: Inflow,
    limits: Limits,
    threads: ExitStack,
) -> Control:
    """Starts the periodic tasks and the control socket; ``threads`` stops them."""
    catalog, emit, driver = accepted.catalog, accepted.emit, scheduling.driver
    runners, warmup, figures = scheduling.runners, scheduling.warmup, keeping.figures
    application, engine, log = catalog.application, driver.engine, storage.log
    tasks = _start_tasks(accepted, storage, scheduling, keeping, inflow)
    for periodic in tasks:
        threads.callback(periodic.stop)
    health = Health(application.name, driver, runners.syncer, inflow.sources)
    status = StatusReader(
        catalog, driver, figures, log, inflow, accepted.undeclared, keeping.changes,
        keeping.maintenance, tasks, limits.log_max_bytes, warmup.status,
    )  # fmt: skip
    registration = Registration(
        catalog, engine, log, inflow, figures.monitor, runners.plans, warmup
    )
    admission = Admission(
        application.spark, driver, storage.store, inflow.rates, limits, runners.plans,
        runners.named,
    )  # fmt: skip
    controller = Controller(
        catalog, driver, log, storage.rundir, accepted.undeclared, registration, admission,
        keeping.changes, health, accepted.folders, emit,
    )  # fmt: skip
    waits = WaitReader(driver, keeping.figures, keeping.record)
    protocol = Protocol(controller, status, emit, waits)
    server = ControlServer(storage.rundir.root, protocol.handle)
    threads.callback(server.close)
    return Control(health, status, controller, protocol, server)


def _start_tasks(
    accepted: Accepted,
    storage: Storage,
    scheduling: Scheduling,
    keeping: Keeping,
    inflow: Inflow,
) -> tuple[PeriodicTasks, ...]:
    """A thread per group: one that may take its time does not hold up the others."""
    catalog, emit = accepted.catalog, accepted.emit
    log, driver, runners = storage.log, scheduling.driver, scheduling.runners
    syncer, confirm = runners.syncer, storage.store.confirm
    tables = catalog.application.tables
    groups = [
        [  # a sink may take its time
            PeriodicTask(
                "redeliver",
                0.2,
                lambda: redeliver(driver, log, catalog.sinks, syncer, confirm, emit),
            )
        ],
        [PeriodicTask("publish", 0.2, lambda: publish(catalog.sinks))],
        [
            PeriodicTask("storage", 0.2, storage.check),
            PeriodicTask("tend", 0.2, inflow.sources.tend),
            PeriodicTask("measure", 0.5, lambda: inflow.rates.note(driver.engine.view)),
            PeriodicTask("write_record", 1.0, keeping.record.write),
            PeriodicTask("place_malformed", 1.0, storage.dead_letters.place),
            PeriodicTask("write_late_rows", 1.0, inflow.late.write),
            PeriodicTask("prune", 10.0, lambda: prune(log, catalog)),
        ],
        # Spark may take its time to stop a query that was dropped.
        [PeriodicTask("tidy_state", 2.0, runners.stateful.tidy)],
    ]
    if tables.refreshes:
        announce = partial(_announce_rows, emit)
        groups.append([PeriodicTask("refresh", 0.2, lambda: tables.refresh(announce))])
    return tuple(PeriodicTasks(tasks, emit) for tasks in groups)


def _announce_rows(emit: Emit, table: str, rows: int) -> None:
    emit("table-refreshed", f"{table} has {rows} rows now", table=table, rows=rows)
