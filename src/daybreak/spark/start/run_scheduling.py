"""The scheduling of a run: the engine, the loop that drives it, and the workers.

What decides, what the loop's thread does between two decisions, and what announces new rows to the
loop belongs here. What the loop keeps and measures is in ``keeping``, what a job needs in
``runners``.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Delivered, Event, Pause
from daybreak.engine.inbox import Tick
from daybreak.engine.state import JobState
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.processor import processor_use
from daybreak.runtime.why.book import WaitBook
from daybreak.spark.failures import LeaseLost, failure_of
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.log.segments import Segment
from daybreak.spark.loop.driver import Driver
from daybreak.spark.loop.driver_hooks import Hooks
from daybreak.spark.start.keeping import Keeping
from daybreak.spark.start.run_storage import Storage
from daybreak.spark.start.runners import RunnerFactory
from daybreak.spark.start.startup import Accepted, Options, announce_start
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.prepared.warmup import WarmUp, warm_cells


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
class Scheduling:
    """A loop that runs, with its workers."""

    driver: Driver
    runners: RunnerFactory
    #: Prepares plans before rows arrive.
    warmup: WarmUp
    arrivals: Arrivals


def make_engine(accepted: Accepted, storage: Storage, plans: Plans, options: Options) -> Engine:
    """An engine whose inboxes hold what was ingested before this start and not yet answered."""
    catalog, inboxes = accepted.catalog, accepted.start.inboxes()
    specs = catalog.application.specs
    network = catalog.application.network
    return Engine(
        JobState(network, options.workers, express=options.express),
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


def start_scheduling(
    accepted: Accepted,
    storage: Storage,
    engine: Engine,
    runners: RunnerFactory,
    keeping: Keeping,
    job_timeout_s: float,
    threads: ExitStack,
) -> Scheduling:
    """Starts the loop and the workers; ``threads`` stops them."""
    catalog, emit = accepted.catalog, accepted.emit
    figures, hooks = keeping.figures, _hooks(accepted, runners, keeping)
    figures.waits = WaitBook(engine, figures.start_ns)
    accounts = Accounts(
        engine, figures.monitor, figures.recorder, figures.history, figures.start_ns,
        figures.waits,
    )  # fmt: skip
    driver = Driver(engine, accounts, catalog.runnables, hooks, job_timeout_s)
    threads.callback(driver.join)
    arrivals = Arrivals(accepted.late, driver)
    for view in catalog.views():
        view.bind(storage.store, arrivals.on_segment, arrivals.on_tick)
    announce_start(accepted, engine.view)
    warmup = WarmUp(runners.plans, emit)
    threads.callback(warmup.close)
    every = range(len(catalog.runnables))
    warm_cells(warmup, engine, catalog.runnables, catalog.application.schemas, every)

    def halt(error: LeaseLost) -> None:
        """Another driver works now: this one ends by itself."""
        emit("lease-lost", str(error), level=logging.ERROR)
        driver.halt(error)

    storage.log.database.on_lost(halt)
    driver.start(*_held(accepted, storage))
    threads.callback(driver.stop)
    return Scheduling(driver, runners, warmup, arrivals)


def _hooks(accepted: Accepted, runners: RunnerFactory, keeping: Keeping) -> Hooks:
    hooks = Hooks(
        runners.tagged, runners.plans.cancel, keeping.maintenance.tidy, keeping.retention.give_up,
        keeping.maintenance.note_trouble, accepted.emit,
    )  # fmt: skip
    if (accepted.catalog.application.spark.sparkContext.master or "").startswith("local"):
        hooks = hooks._replace(processor=processor_use)  # jobs run on this machine's cores
    return hooks


def _held(accepted: Accepted, storage: Storage) -> list[Event]:
    """Queries that were paused, and those whose sink will not take what they had committed."""
    index, refused = accepted.catalog.network.query_index, accepted.recovered.refused
    return [
        *(Delivered(index[name], failure_of(why)) for name, why in refused.items()),
        *(Pause(index[name]) for name in sorted(storage.log.paused() & index.keys())),
    ]
