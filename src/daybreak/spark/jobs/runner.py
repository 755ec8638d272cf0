"""Runs queries over a range of their streams: read, compute on Spark, stage, commit, deliver.

The order is the guarantee: rows are written to staging before the one transaction that moves the
cursors and lists the files, and only then do the files move to their places. Queries that run
together are one Spark job and one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.engine.events import WAYS, Failure, Ran
from daybreak.engine.inbox import Waiting
from daybreak.runtime.clock import CLOCK
from daybreak.spark.jobs.committer import Committer
from daybreak.spark.jobs.compiler import Compiler
from daybreak.spark.jobs.executor_jobs import Result
from daybreak.spark.jobs.on_executors import OnExecutors
from daybreak.spark.jobs.prepared.plans import PlanRunner
from daybreak.spark.jobs.retained import Retained
from daybreak.spark.jobs.row_jobs import RowJobs, Since
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.stepped import StatefulJobs
from daybreak.spark.jobs.window_jobs import WindowJobs
from daybreak.spark.jobs.windows import with_anchors
from daybreak.spark.jobs.worker_session import WorkerSession
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import CursorMove, Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.views import advance, stamped
from daybreak.spark.sql.forms import Composable, OverRetained, OverState, OverWindows
from daybreak.spark.sql.static_tables import StaticTables


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

        ``prepared``: runs small trains without a Spark job; left out: every job is ordinary.
        ``tables``: static ones, of which every job sees one version. ``stateful``: runs the jobs of
        stateful queries.
        """
        session = WorkerSession(spark, schemas, scratch, prepared, tables)
        self._session = session
        self._store = store
        self._log = log
        self._stateful = stateful
        self._committer = Committer(store, log, syncer)
        self._compiler = Compiler(session)
        self._rows = RowJobs(session, self._compiler)
        self._on_executors = OnExecutors(session, self._compiler, store, self._committer.number)
        self.windows = WindowJobs(
            session, self._compiler, self._rows, self._on_executors, store, log, partials
        )

    def run(
        self,
        queries: Sequence[Runnable],
        taken: Sequence[Waiting],
        cell: Sequence[Runnable] = (),
        may_commit: Callable[[], None] = lambda: None,
    ) -> Ran:
        """One job for queries that are at the same place of the same streams.

        ``cell``: the queries to compile together, of which these are some; left out: these.
        Raises whatever Spark, a sink or ``may_commit`` raised; then nothing has moved.
        """
        self._committer.begin()
        try:
            if isinstance(queries[0].checked.form, OverState):
                return self._step(queries[0], taken, may_commit)
            return self._run(queries, taken, cell or queries, may_commit)
        except BaseException:
            self._committer.abandon()
            raise

    def _run(
        self,
        queries: Sequence[Runnable],
        taken: Sequence[Waiting],
        cell: Sequence[Runnable],
        may_commit: Callable[[], None],
    ) -> Ran:
        began_ns, started = CLOCK.now_ns(), time.perf_counter_ns()
        ways = self._session.ways
        ways.clear()
        self._session.take_tables()
        results, moves, since = self._compute(queries, taken, cell)
        results = stamped(queries, results, taken)
        computed = time.perf_counter_ns()
        may_commit()
        committed_at, undelivered = self._committer.commit(queries, results, moves)
        for query, moved in zip(queries, moves, strict=True):
            if query.name not in undelivered:
                advance(query.sink, moved, committed_at)
        return Ran(
            rows=tuple(result.num_rows for result in results),
            work_ns=computed - started,
            commit_ns=time.perf_counter_ns() - computed,
            committed_at_ns=committed_at,
            began_ns=began_ns,
            undelivered=undelivered,
            stale_since_ns=_first_possible(results, taken) if since is None else tuple(since),
            way=next((way for way in WAYS if way in ways), None),
            computed=bool(ways),
        )

    def _compute(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting], cell: Sequence[Runnable]
    ) -> tuple[Sequence[Result], list[list[Move]], Since]:
        """The results and moves of the queries, in their order."""
        form = queries[0].checked.form
        if isinstance(form, OverWindows):
            return *self.windows.compute(queries, taken, cell), None
        if isinstance(form, OverRetained):
            return *self._compute_retained(queries[0], taken), None
        if taken[0].whole:
            moves = self._moves(queries, taken)
            return self._on_executors.rows(queries, cell, taken), moves, None
        tables = self._read(queries[0], taken)
        moves = self._moves(queries, taken)
        stamps = {stream: table.column(ARRIVAL).to_numpy() for stream, table in tables.items()}
        tables = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
        if isinstance(form, Composable):
            results, since = self._rows.compute_together(queries, cell, tables, stamps)
            return results, moves, since
        return [self._rows.compute(queries[0], tables)], moves, None

    def _compute_retained(
        self, query: Runnable, taken: Sequence[Waiting]
    ) -> tuple[list[pa.Table], list[list[Move]]]:
        """One batch over all that its streams retain."""
        places = self._log.places(query.name)
        retained = Retained(query.name, self._store, self._session.schemas, places, taken)
        if retained.large:
            frames = {
                stream: self._on_executors.all_rows(stream, rows, retained.large.get(stream, ()))
                for stream, rows in retained.tables.items()
            }
            result = self._compiler.result(query, frames).toArrow().cast(query.schema)
        else:
            result = self._rows.ordinary(query, retained.tables)
        return [retained.marked(result)], [retained.moves]

    def _step(
        self, query: Runnable, taken: Sequence[Waiting], may_commit: Callable[[], None]
    ) -> Ran:
        """A job of a stateful query, which commits from within its micro-batches."""
        assert self._stateful is not None
        began_ns, started = CLOCK.now_ns(), time.perf_counter_ns()

        def commit(rows: pa.Table, moves: Sequence[Move]) -> tuple[int, dict[str, Failure]]:
            may_commit()
            return self._committer.commit([query], [rows], [moves])

        done = self._stateful.run(query, taken, commit, self._session.scratch.name)
        first = min((item.arrival_ns for item in done.read), default=None)
        return Ran(
            rows=(done.rows,),
            work_ns=max(0, time.perf_counter_ns() - started - done.commit_ns),
            commit_ns=done.commit_ns,
            committed_at_ns=done.committed_at_ns,
            began_ns=began_ns,
            undelivered=done.undelivered,
            stale_since_ns=(first if done.rows else None,),
            way="executors",
            read=done.read,
            left=done.left,
        )

    def _moves(self, queries: Sequence[Runnable], taken: Sequence[Waiting]) -> list[list[Move]]:
        read = self._store.passed(taken)
        return [[CursorMove(q.name, s, *at) for s, at in read.items()] for q in queries]

    def _read(self, query: Runnable, taken: Sequence[Waiting]) -> dict[str, pa.Table]:
        tables: dict[str, pa.Table] = {}
        for stream in query.checked.reads:
            mine = [item for item in taken if item.stream == stream]
            if mine:
                tables[stream] = self._store.read(mine)
            else:
                schema = self._session.schemas[stream]
                empty = to_arrow_schema(schema, timezone="UTC").empty_table()
                stamp = pa.field(ARRIVAL, pa.int64(), nullable=False)
                tables[stream] = empty.append_column(stamp, pa.array([], pa.int64()))
        return tables

    def trial(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Runs a query over given rows, for its cost alone."""
        self._session.take_tables()
        rows = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
        if query.checked.is_whole:
            return self._rows.ordinary(query, rows)
        return self._rows.compute(query, with_anchors(query.checked.windows, rows))

    def close(self) -> None:
        self._session.close()


def _first_possible(results: Sequence[Result], taken: Sequence[Waiting]) -> tuple[int | None, ...]:
    """For results that do not tell which tuples gave them: it may have been the first."""
    first = min((item.arrival_ns for item in taken), default=None)
    return tuple(first if result.num_rows else None for result in results)
