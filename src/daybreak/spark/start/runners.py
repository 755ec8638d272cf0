"""The runners of a run's workers, and what all of them share."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.sinks.delivery import close as close_sinks
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.startup import Accepted
from daybreak.spark.stateful.stateful_queries import StatefulQueries
from daybreak.spark.tasks.prepared.plans import Plans


@dataclass(frozen=True)
class RunnerFactory:
    """Makes the runner of a worker's jobs."""

    application: CheckedApplication
    storage: Storage
    #: Makes results durable that were delivered.
    syncer: FileSyncer
    #: Plans by which small trains run without Spark jobs.
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


def make_runners(accepted: Accepted, storage: Storage, threads: ExitStack) -> RunnerFactory:
    """A factory whose sinks, files and stateful queries ``threads`` closes."""
    catalog = accepted.catalog
    application = catalog.application
    syncer = FileSyncer(storage.log, catalog.sinks)
    threads.callback(syncer.close)
    threads.callback(close_sinks, catalog.sinks)
    stateful = StatefulQueries(
        application.spark, application.schemas, storage.rundir, storage.store, storage.log,
        application.tables,
    )  # fmt: skip
    threads.callback(stateful.close)
    plans = Plans(application.spark, application.tables)
    return RunnerFactory(application, storage, syncer, plans, stateful)
