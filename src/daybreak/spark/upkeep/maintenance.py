"""Maintenance: what a run does now and then, so that nothing grows without bound.

Some of it belongs between two decisions, on the loop's thread (``Maintenance.tidy``); what waits
for a disk or for Spark is a periodic task on a thread of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from daybreak.engine.events import Failure
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.failures import LogUnavailable, failure_of, one_line
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.loop.driver import Driver
from daybreak.spark.loop.driver_hooks import Loop
from daybreak.spark.sinks.delivery import bring, forgo, sweep
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.upkeep.record import RunRecord
from daybreak.spark.upkeep.retention import Retention

#: What was recorded goes to disk this often.
PART_S = 10.0
#: Commits are remembered for so long after they were delivered.
COMMITS_KEPT_NS = 60 * 10**9


class PeriodicTask(NamedTuple):
    """Something to do every so many seconds; its name is what ``troubles`` call it."""

    name: str
    every_s: float
    call: Callable[[], None]


class PeriodicTasks:
    """Calls tasks on a thread of its own; a task that fails is called again next time."""

    def __init__(self, tasks: Sequence[PeriodicTask], emit: Emit = silent) -> None:
        self._tasks = tasks
        self._emit = emit
        #: The error of the last call of each task that failed, by its name.
        self.troubles: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="daybreak-tasks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        due = [time.monotonic() + task.every_s for task in self._tasks]
        while not self._stopping.wait(max(0.0, min(due) - time.monotonic())):
            for i, task in enumerate(self._tasks):
                if time.monotonic() >= due[i]:
                    self._call(task)
                    due[i] = time.monotonic() + task.every_s

    def _call(self, task: PeriodicTask) -> None:
        name = task.name
        try:
            task.call()
            if self.troubles.pop(name, None) is not None:
                self._emit("trouble-over", f"{name} works again", task=name)
        except Exception as error:  # a full disk, perhaps: it may succeed next time
            if name not in self.troubles:
                self._emit("trouble", one_line(error), level=logging.WARNING, task=name)
            self.troubles[name] = one_line(error)


class Maintenance:
    """What the loop's thread does between two decisions."""

    def __init__(
        self,
        retention: Retention,
        clocks: EventClocks,
        backpressure: Backpressure,
        record: RunRecord,
    ) -> None:
        self._retention = retention
        self._clocks = clocks
        self._backpressure = backpressure
        self._record = record
        #: What could not be done lately, and why.
        self.troubles: dict[str, str] = {}

    def tidy(self, loop: Loop) -> None:
        """Removes segments that every query has passed, and makes room if the log is full."""
        with self._forgiving("tidy"):
            if self._retention.is_due():
                self._retention.make_room(loop)
            now_ns, monotonic_ns = CLOCK.now_ns(), time.monotonic_ns()
            blocked, failing = self._backpressure.is_blocked, self._backpressure.failing
            for tick in self._clocks.silences(
                now_ns, monotonic_ns, blocked=blocked, failing=failing
            ):
                loop.on_tick(tick)
        self._record.take_if_older(PART_S)

    def note_trouble(self, what: str, why: str | None) -> None:
        """Something could not be done, and why; or it could."""
        if why is None:
            self.troubles.pop(what, None)
        else:
            self.troubles[what] = why

    @contextmanager
    def _forgiving(self, what: str) -> Iterator[None]:
        """A disk that takes nothing now is no reason for the loop to end: there is a next time."""
        try:
            yield
            self.note_trouble(what, None)
        except (LogUnavailable, OSError) as error:
            self.note_trouble(what, one_line(error))


def redeliver(
    driver: Driver,
    log: CommitLog,
    sinks: Mapping[str, Sink],
    syncer: FileSyncer,
    confirm: Callable[[], None],
    emit: Emit = silent,
) -> None:
    """Brings committed results to sinks that would not take them before, in order.

    One that is refused again is given up where an operator has asked for that, but not in an
    outage. ``confirm`` raises if this driver may not deliver, or not now.
    """
    while not driver.redeliveries.empty():
        asked = driver.redeliveries.get()
        name = driver.engine.view.facts[asked.box].name
        failure: Failure | None = None
        skipped = 0
        held = syncer.held()  # before the log is asked: what it lists then is synced or held
        try:
            for file in log.undelivered():
                if file.query != name or file.id in held:
                    continue
                confirm()
                try:
                    bring(sinks[name], file)
                except Exception as error:
                    if not asked.skip or skipped or failure_of(error).ours:
                        raise
                    forgo(log, sinks[name], file, error, emit)
                    skipped = file.rows
                else:
                    syncer.add(file)
        except Exception as error:
            failure = failure_of(error)
        driver.on_delivered(asked, failure, skipped)


def prune(log: CommitLog, catalog: Catalog) -> None:
    """Forgets commits that are over and done with, and what never came to a commit."""
    log.prune(CLOCK.now_ns() - COMMITS_KEPT_NS)
    log.settle()
    sweep(log, catalog.sinks)
