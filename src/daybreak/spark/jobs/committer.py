"""Commits the results of a job: encoded, then listed in one transaction, then delivered.

The order is the guarantee: one transaction moves the cursors and lists the results, which it holds
or which were written durably before it, and only then do files appear at their places.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from daybreak.engine.events import Failure
from daybreak.engine.inbox import Waiting
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import LeaseLost, failure_of
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile, Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.delivery import bring
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.views import advance, stamped
from daybreak.spark.tasks.executors import sweep_attempts
from daybreak.spark.tasks.task import Result, Runnable, Since, Written


class Committer:
    """Of one worker, whose jobs come one after the other."""

    def __init__(self, store: SegmentStore, log: CommitLog, syncer: FileSyncer) -> None:
        self._store = store
        self._log = log
        self._syncer = syncer
        #: The number of the present job, once executors stage under it.
        self._job: str | None = None
        #: What the log has taken for the commits of the present job.
        self.disk_ns = 0

    def begin(self) -> None:
        """A job begins."""
        self._job, self.disk_ns = None, 0

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
            began_ns = time.perf_counter_ns()
            files = self._log.commit(job, every, [file for some in staged for file in some])
            self.disk_ns += time.perf_counter_ns() - began_ns
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


class JobInput(NamedTuple):
    """The queries of a job, and what it takes for them."""

    #: They are at the same place of the same streams.
    queries: Sequence[Runnable]
    taken: Sequence[Waiting]
    #: The queries to plan together, of which these are some.
    cell: Sequence[Runnable]

    def first_alone(self) -> JobInput:
        """The first query by itself."""
        return self._replace(queries=self.queries[:1], cell=self.queries[:1])


class JobResult(NamedTuple):
    """The results of a job, and how its queries move on."""

    results: Sequence[Result]
    #: Of each query.
    moves: Sequence[Sequence[Move]]
    since: Since = None


class Permit(Protocol):
    """The right of a job to commit, which it loses when its time is over."""

    @property
    def cancelled(self) -> bool:
        """True once the job is being ended on Spark."""

    def commit(self) -> None:
        """Raises if the job was given up; after this it cannot be."""


class Commits:
    """The commits of one job: one, or one for each micro-batch of a stateful query."""

    def __init__(self, committer: Committer, job: JobInput, permit: Permit) -> None:
        self._committer = committer
        self._queries = job.queries
        self._taken = job.taken
        self._permit = permit
        #: Result rows of each query, and the time that commits and deliveries took.
        self.rows = [0] * len(job.queries)
        self.took_ns = 0
        self.committed_at_ns = CLOCK.now_ns()
        #: Whose sinks would not take what is committed, and why.
        self.undelivered: dict[str, Failure] = {}

    def __call__(self, results: Sequence[Result], moves: Sequence[Sequence[Move]]) -> None:
        """Commits a result and the moves of each query; raises if the job was given up."""
        self._permit.commit()
        began_ns = time.perf_counter_ns()
        made = stamped(self._queries, results, self._taken)
        self.committed_at_ns, failed = self._committer.commit(self._queries, made, moves)
        for query, moved in zip(self._queries, moves, strict=True):
            if query.name not in failed:
                advance(query.sink, moved, self.committed_at_ns)
        self.undelivered |= failed
        self.rows = [n + result.num_rows for n, result in zip(self.rows, made, strict=True)]
        self.took_ns += time.perf_counter_ns() - began_ns


class Stepped(NamedTuple):
    """The rows that a job of a stateful query read of those it was given, and those it left."""

    read: tuple[Waiting, ...]
    left: tuple[Waiting, ...] = ()


class StatefulJobs(Protocol):
    """Runs the jobs of stateful queries, which Spark runs as streaming queries."""

    def run(self, query: Runnable, taken: Sequence[Waiting], commits: Commits, tag: str) -> Stepped:
        """One micro-batch of what was taken, and those that follow from it; tagged."""
