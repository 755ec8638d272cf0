"""Runs queries over a range of their streams: read, compute on Spark, commit, deliver.

Queries that run together are one plan and one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.engine.events import WAYS, Ran
from daybreak.engine.inbox import Waiting
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import JobTimeout
from daybreak.spark.jobs.committer import (
    Commits,
    Committer,
    JobInput,
    Permit,
    StatefulJobs,
    Stepped,
)
from daybreak.spark.jobs.row_jobs import RowJobs
from daybreak.spark.jobs.window_jobs import WindowJobs
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import ANCHORS
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sql.forms import OverRetained, OverState, OverWindows
from daybreak.spark.sql.static_tables import StaticTables
from daybreak.spark.tasks.engines import worker_engines
from daybreak.spark.tasks.prepared.plans import PlanRunner
from daybreak.spark.tasks.segment_frames import SegmentFrames
from daybreak.spark.tasks.shapes import of_query
from daybreak.spark.tasks.task import Leaves, Runnable, Since
from daybreak.spark.tasks.worker_session import WorkerSession


class JobRunner:
    """Runs jobs of one worker thread, in a session of its own."""

    def __init__(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        store: SegmentStore,
        log: CommitLog,
        partials: Partials,
        syncer: FileSyncer,
        scratch: Path,
        prepared: PlanRunner | None = None,
        tables: StaticTables | None = None,
        stateful: StatefulJobs | None = None,
    ) -> None:
        """``scratch``: a folder of its own that executors can read too.

        ``prepared``: runs small trains without a Spark job; left out: every job is a Spark job.
        ``tables``: static ones, of which every job sees one version. ``stateful``: runs the jobs of
        stateful queries.
        """
        session = self._session = WorkerSession(spark, schemas, scratch, tables)
        self._prepared = prepared
        self._stateful = stateful
        self._committer = Committer(store, log, syncer)
        frames = SegmentFrames(session.spark, schemas, store)
        self.engines = worker_engines(session, frames, prepared, self._committer.number)
        self._rows = RowJobs(schemas, self.engines, store, log)
        self._windows = WindowJobs(schemas, self.engines, store, log, partials)

    def run(
        self,
        queries: Sequence[Runnable],
        taken: Sequence[Waiting],
        cell: Sequence[Runnable],
        permit: Permit,
    ) -> Ran:
        """One job for queries that are at the same place of the same streams.

        ``cell``: the queries to plan together, of which these are some. If several fail together,
        the first runs by itself, and what is returned is about it alone. Raises whatever Spark, a
        sink or ``permit`` raised; then nothing has moved.
        """
        job = JobInput(queries, taken, cell)
        try:
            return self._attempt(job, permit)
        except JobTimeout:
            raise
        except Exception:
            if len(queries) == 1 or permit.cancelled:
                raise
            return self._attempt(job.first_alone(), permit)

    def _attempt(self, job: JobInput, permit: Permit) -> Ran:
        self._committer.begin()
        self.engines.begin(lambda: permit.cancelled)
        commits = Commits(self._committer, job, permit)
        began_ns, started_ns = CLOCK.now_ns(), time.perf_counter_ns()
        try:
            self._session.take_tables()
            since, stepped = self._carry_out(job, commits)
        except BaseException:
            self._committer.abandon()
            raise
        read = job.taken if stepped is None else stepped.read
        ways = self.engines.ways
        return Ran(
            rows=tuple(commits.rows),
            work_ns=max(0, time.perf_counter_ns() - started_ns - commits.took_ns),
            commit_ns=commits.took_ns,
            committed_at_ns=commits.committed_at_ns,
            began_ns=began_ns,
            undelivered=commits.undelivered,
            stale_since_ns=_first_possible(commits.rows, read) if since is None else tuple(since),
            way=next((way for way in WAYS if way in ways), None),
            computed=bool(ways),
            read=None if stepped is None else stepped.read,
            left=() if stepped is None else stepped.left,
            cold_ns=self.engines.cold_ns,
            disk_ns=self._committer.disk_ns,
        )

    def _carry_out(self, job: JobInput, commits: Commits) -> tuple[Since, Stepped | None]:
        """Computes and commits.

        Gives when the first tuple that gave a row had arrived, where that is known, and what was
        read, where only a source decides that.
        """
        first = job.queries[0]
        match first.checked.form:
            case OverState():
                assert self._stateful is not None
                self.engines.ways.add("micro-batch")
                tag = self._session.scratch.name
                return None, self._stateful.run(first, job.taken, commits, tag)
            case OverWindows():
                made = self._windows.compute(job)
            case OverRetained():
                made = self._rows.over_retained(job)
            case _:
                made = self._rows.compute(job)
        commits(made.results, made.moves)
        return made.since, None

    def trial(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of a query over given rows of its streams, which is not committed."""
        self._session.take_tables()
        task = of_query(query, self._session.schemas)
        names = {name: name.removeprefix(ANCHORS) for name in task.leaves}
        rows = {name: tables[stream] for name, stream in names.items()}
        self.engines.begin()
        [result] = self.engines.compute([task], Leaves.of(rows)).results
        return result

    def close(self) -> None:
        """Ends what it has running, and removes its folder."""
        if self._prepared is not None:
            self._prepared.close()
        self._session.close()


def _first_possible(rows: Sequence[int], read: Sequence[Waiting]) -> tuple[int | None, ...]:
    """For results that do not tell which tuples gave them: it may have been the first."""
    first = min((item.arrival_ns for item in read), default=None)
    return tuple(first if n else None for n in rows)
