"""The storage of a run: its directory, its log, and the rows and partial results they name.

What is opened once, before anything is compared or changed, and closed last belongs here: another
table of the log, another folder of the run directory.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from daybreak.runtime.eventlog import EventLog
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.failures import LogUnavailable
from daybreak.spark.ingest.dead_letters import DeadLetters
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.opening import open_log
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.session import jvm_pid


@dataclass(frozen=True)
class Storage:
    """The run directory and what is kept in it."""

    rundir: RunDirectory
    event_log: EventLog
    log: CommitLog
    store: SegmentStore
    partials: Partials
    dead_letters: DeadLetters

    def trouble(self) -> str | None:
        """Why the log or the store takes nothing now; None while they do."""
        return self.log.database.trouble() or self.rundir.store.trouble()

    def check(self) -> None:
        """``LogUnavailable`` while one of them takes nothing."""
        trouble = self.trouble()
        if trouble is not None:
            raise LogUnavailable(trouble)


def open_storage(
    application: CheckedApplication, run_dir: Path, lease_s: float, files: ExitStack
) -> Storage:
    """Opens and locks the run directory; ``files`` closes all of it."""
    rundir = RunDirectory.open(
        run_dir, application.name, application.timezone, store=application.store
    )
    files.callback(rundir.close)
    event_log = EventLog(rundir.root)
    files.callback(event_log.close)
    rundir.name_jvm(jvm_pid(application.spark))

    def waits(message: str) -> None:
        event_log.emit("waiting", message, level=logging.WARNING, fields={})

    log = open_log(application.log, rundir, application.timezone, lease_s, waits)
    files.callback(log.close)
    dead_letters = DeadLetters(rundir.store.dead, log)
    for stream in application.streams:
        dead_letters.count(stream)  # refused now, if they cannot be read, rather than at the end
    store = SegmentStore(rundir, log)
    return Storage(rundir, event_log, log, store, Partials(log), dead_letters)
