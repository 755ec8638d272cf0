"""Commits the results of a job: staged, then listed in one transaction, then delivered."""

from __future__ import annotations

from collections.abc import Sequence

from daybreak.engine.events import Failure
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import LeaseLost, failure_of
from daybreak.spark.jobs.executor_jobs import Result, Written, sweep_attempts
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile, Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.delivery import bring
from daybreak.spark.sinks.file_sync import FileSyncer


class Committer:
    """Of one worker, whose jobs come one after the other."""

    def __init__(self, store: SegmentStore, log: CommitLog, syncer: FileSyncer) -> None:
        self._store = store
        self._log = log
        self._syncer = syncer
        #: The number of the present job, once executors stage under it.
        self._job: str | None = None

    def begin(self) -> None:
        """A job begins."""
        self._job = None

    def number(self) -> str:
        """Of the present job, under which executors stage."""
        if self._job is None:
            self._store.confirm_folder()
            self._job = self._log.new_job()
        return self._job

    def abandon(self) -> None:
        """The job failed: what executors have staged may go, unless it is committed."""
        if self._job is not None:
            self._log.abandon(self._job)

    def commit(
        self,
        queries: Sequence[Runnable],
        results: Sequence[Result],
        moves: Sequence[Sequence[Move]],
    ) -> tuple[int, dict[str, Failure]]:
        """Stages, commits and delivers; returns when it was committed, and whose sink failed.

        Once committed the job has succeeded, even if a sink then fails: the result is listed,
        and the next start delivers it.
        """
        job = self._job or self._log.new_job()
        self._store.confirm_folder()  # of the log the commit waits for
        self._count_passed(queries, results)
        try:
            staged = [
                r.files if isinstance(r, Written) else q.sink.stage(job, r)
                for q, r in zip(queries, results, strict=True)
            ]
            every = [move for moved in moves for move in moved]
            files = self._log.commit(job, every, [file for some in staged for file in some])
        except BaseException:
            self._log.abandon(job)
            raise
        committed_at = CLOCK.now_ns()
        self._job = None  # what executors have staged is decided on, whatever fails now
        sweep_attempts(job, queries, results)
        return committed_at, self._deliver(queries, files)

    def _deliver(
        self, queries: Sequence[Runnable], files: Sequence[CommittedFile]
    ) -> dict[str, Failure]:
        sinks = {q.name: q.sink for q in queries}
        failed: dict[str, Failure] = {}
        for file in files:
            if file.query in failed:
                continue  # in order: it is delivered again after those before it
            try:
                self._store.confirm()
                bring(sinks[file.query], file)
                self._syncer.add(file)
            except LeaseLost:
                raise  # the driver that took over delivers it
            except Exception as error:
                failed[file.query] = failure_of(error)
        return failed

    def _count_passed(self, queries: Sequence[Runnable], results: Sequence[Result]) -> None:
        """Of results, those that are in the driver's memory."""
        pairs = zip(queries, results, strict=True)
        rows = {q.name: r.num_rows for q, r in pairs if not isinstance(r, Written)}
        self._store.driver_rows.of_queries(rows)
