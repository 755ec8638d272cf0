"""Puts a run together, each group of parts from groups that are complete.

A new part belongs to one of three groups, each a type and a module:

- ``run_storage``: what is opened first and closed last.
- ``run_scheduling``: engine, loop and workers, with ``runners`` (what jobs need) and ``keeping``
  (what is measured, recorded and removed).
- ``run_control``: requests, status, periodic tasks.

``startup`` comes between storage and scheduling: it compares and recovers. The loop runs before
sources (``run_inflow``) and operators can reach it. What was started stops in the reverse order.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from daybreak.model.errors import ConfigError
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.report import RunReport
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.sinks.delivery import sweep
from daybreak.spark.start.keeping import Keeping, make_keeping
from daybreak.spark.start.run_control import Control, start_control
from daybreak.spark.start.run_inflow import start_inflow
from daybreak.spark.start.run_scheduling import Scheduling, make_engine, start_scheduling
from daybreak.spark.start.run_storage import Storage, open_storage
from daybreak.spark.start.runners import make_runners
from daybreak.spark.start.startup import Accepted, Options, accept
from daybreak.spark.upkeep.record import Figures


@dataclass(frozen=True)
class RunParts:
    """The parts of a run that was started. Nothing but ``Run`` takes all of them."""

    storage: Storage
    #: What is declared and registered, and what earlier processes had left of it.
    accepted: Accepted
    scheduling: Scheduling
    keeping: Keeping
    inflow: Inflow
    control: Control
    #: Stops sources, then the loop, then the workers.
    threads: ExitStack
    #: Closes the files, once the threads have ended.
    files: ExitStack

    def stop(self) -> RunReport:
        """Ends threads, then writes the report and closes the files."""
        storage, emit, record = self.storage, self.accepted.emit, self.keeping.record
        storage.log.database.stop_waiting()
        storage.rundir.store.stop_waiting()
        self.threads.close()
        with self.files:  # closed also where there is no room for a report
            with suppress(LogUnavailable, LeaseLost, OSError):  # else the next start does it
                sweep(storage.log, self.accepted.catalog.sinks)
                storage.dead_letters.place()
            report = record.finish()
            if record.incomplete is not None:
                why = f"the end of the record was not written: {record.incomplete}"
                emit("record-incomplete", why, level=logging.WARNING)
            results = report.overall().count
            emit("stopped", f"{results} tuples were answered", answered=results)
        return report


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
        storage = open_storage(application, run_dir, limits.lease_s, files)
        accepted = accept(Catalog(application, sinks), storage, options, files)
        runners = make_runners(accepted, storage, threads)
        engine = make_engine(accepted, storage, runners.plans, options)
        accepted.emit.follow(engine)
        figures = Figures(engine)
        keeping = make_keeping(accepted, storage, figures, engine, runners.plans, options)
        scheduling = start_scheduling(
            accepted, storage, engine, runners, keeping, limits.job_timeout_s, threads
        )
        inflow = start_inflow(
            accepted, storage, scheduling.arrivals, keeping.backpressure, keeping.ways,
            scheduling.driver.gate, limits, threads,
        )  # fmt: skip
        control = start_control(accepted, storage, scheduling, keeping, inflow, limits, threads)
        return RunParts(
            storage, accepted, scheduling, keeping, inflow, control, threads.pop_all(),
            files.pop_all(),
        )  # fmt: skip
