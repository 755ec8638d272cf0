"""Runs queries over a range of their streams: read, compute on Spark, stage, commit, deliver.

The order is the guarantee: rows are written to staging before the one transaction that moves the
cursors and lists the files, and only then do the files move to their places. Queries that run
together are one Spark job and one transaction.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.engine.events import WAYS, Failure, Ran, Way
from daybreak.engine.inbox import Waiting
from daybreak.spark.event_time import ANCHORS
from daybreak.spark.failures import LeaseLost, failure_of
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.jobs.executor_jobs import ExecutorJobs, Written, sweep_attempts
from daybreak.spark.jobs.on_executors import OnExecutors, Result
from daybreak.spark.jobs.panes import compute as compute_panes
from daybreak.spark.jobs.prepared.planner import Recipe
from daybreak.spark.jobs.prepared.plans import Computed, PlanRunner
from daybreak.spark.jobs.prepared.recipes import (
    ROWS,
    of_composite,
    of_fill,
    of_merge,
    of_query,
    of_together,
)
from daybreak.spark.jobs.retained import Retained
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.stepped import StatefulJobs
from daybreak.spark.jobs.windows import compute, with_anchors
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import file_name, make_folder
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import CursorMove, Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.delivery import bring
from daybreak.spark.sinks.file_sync import FileSyncer
from daybreak.spark.sinks.views import advance, stamped
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.check import CheckedQuery
from daybreak.spark.sql.composite import Composite, Cutter, quoted
from daybreak.spark.sql.forms import (
    Composable,
    Form,
    FunctionBody,
    OverRetained,
    OverState,
    OverWindows,
    PanedAggregate,
    SqlBody,
    aggregates_of,
    panes_in,
    parts_of,
)
from daybreak.spark.sql.static_tables import NO_TABLES, SessionTables, StaticTables
from daybreak.spark.sql.windows.pane_plans import Fill, Merge, merged_rows, merged_schema
from daybreak.spark.sql.windows.together import Together

#: Of the sessions that jobs run in.
SETTINGS = {
    # An expression that occurs twice is computed first, even where AND or OR guards it.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
}
#: Sets of queries whose common plan is kept.
MOST_COMPILED = 200
#: Beyond so many rows a job is faster if the executors read them from a file.
FEW_ROWS = 8000

#: When the first tuple that gave a row had arrived, by query; None where that is not known.
Since = Sequence[int | None] | None


class CannotShare(Exception):
    """Queries that were to run together cannot; the one that was asked runs alone then."""


class JobRunner:
    """Runs jobs of one worker thread, in a session of its own.

    A session per worker: two workers may hold different rows under one stream's name.
    """

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
        # A clone, not newSession(): it keeps the user's temporary views and functions.
        self._session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for key, value in SETTINGS.items():
            self._session.conf.set(key, value)
        self._schemas = schemas
        self._store = store
        self._log = log
        self._partials = partials
        self._syncer = syncer
        self._scratch = scratch
        self._catalyst = Catalyst(self._session)
        self._prepared = prepared
        self._tables = tables
        self._stateful = stateful
        self._session_tables = SessionTables(self._session, self._catalyst)
        jobs = ExecutorJobs(self._session, schemas, store, scratch)
        self._on_executors = OnExecutors(self, jobs, store, log)
        #: The versions of static tables that the present job sees.
        self._versions = NO_TABLES
        #: How the plans of the present job ran.
        self._ways: set[Way] = set()
        #: What queries run together are compiled to, by kind of plan and queries.
        self._compiled: dict[tuple[object, ...], Any] = {}

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
        self._on_executors.begin()
        try:
            return self._run(queries, taken, cell, may_commit)
        except BaseException:
            self._on_executors.abandon()
            raise

    def _run(
        self,
        queries: Sequence[Runnable],
        taken: Sequence[Waiting],
        cell: Sequence[Runnable],
        may_commit: Callable[[], None],
    ) -> Ran:
        began_ns, started = time.time_ns(), time.perf_counter_ns()
        self._ways.clear()
        form = queries[0].checked.form
        if isinstance(form, OverState):
            return self._step(queries[0], taken, may_commit)
        self._take_tables()
        since: Since = None
        results: Sequence[Result]
        if isinstance(form, OverWindows):
            results, moves = self._compute_windows(queries, taken, cell)
        elif isinstance(form, OverRetained):
            results, moves = self._compute_retained(queries[0], taken)
        elif taken[0].whole:
            moves = self._moves(queries, taken)
            self._ways.add("executors")
            results = self._on_executors.rows(queries, cell or queries, taken)
        else:
            tables = self._read(queries[0], taken)
            moves = self._moves(queries, taken)
            stamps = {stream: table.column(ARRIVAL).to_numpy() for stream, table in tables.items()}
            tables = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
            if isinstance(form, Composable):
                results, since = self._compute_together(queries, cell or queries, tables, stamps)
            else:
                results = [self._compute(queries[0], tables)]
        results = stamped(queries, results, taken)
        computed = time.perf_counter_ns()
        may_commit()
        committed_at, undelivered = self._commit(queries, results, moves)
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
            way=next((way for way in WAYS if way in self._ways), None),
            computed=bool(self._ways),
        )

    def _step(
        self, query: Runnable, taken: Sequence[Waiting], may_commit: Callable[[], None]
    ) -> Ran:
        """A job of a stateful query, which commits from within its micro-batches."""
        assert self._stateful is not None
        began_ns, started = time.time_ns(), time.perf_counter_ns()

        def commit(rows: pa.Table, moves: Sequence[Move]) -> tuple[int, dict[str, Failure]]:
            may_commit()
            return self._commit([query], [rows], [moves])

        done = self._stateful.run(query, taken, commit, self._scratch.name)
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

    def _take_tables(self) -> None:
        """From now on the job's static tables stay as they are."""
        self._versions = NO_TABLES if self._tables is None else self._tables.current
        self._session_tables.use(self._versions)

    def _read(self, query: Runnable, taken: Sequence[Waiting]) -> dict[str, pa.Table]:
        tables: dict[str, pa.Table] = {}
        for stream in query.checked.reads:
            mine = [item for item in taken if item.stream == stream]
            if mine:
                tables[stream] = self._store.read(mine)
            else:
                empty = to_arrow_schema(self._schemas[stream], timezone="UTC").empty_table()
                stamp = pa.field(ARRIVAL, pa.int64(), nullable=False)
                tables[stream] = empty.append_column(stamp, pa.array([], pa.int64()))
        return tables

    def _compute(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """One query by itself."""
        if isinstance(query.checked.body, SqlBody):
            found = self._run_prepared(of_query(query.checked, self._schemas), tables)
            if found is not None:
                return found.table.cast(query.schema)
        return self._ordinary(query, tables)

    def _ordinary(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """One query as a Spark job; rows in memory, and in a file if it fails on those.

        Over rows in memory Spark's optimizer computes expressions by itself, and may compute one
        that a condition guards. The regular job over a file is authoritative.
        """
        try:
            return self._computed(query, tables)
        except (PySparkException, Py4JError):
            if all(table.num_rows > FEW_ROWS for table in tables.values()):
                raise
            return self._computed(query, tables, in_memory=False)

    def _computed(
        self, query: Runnable, tables: Mapping[str, pa.Table], *, in_memory: bool = True
    ) -> pa.Table:
        few_rows = FEW_ROWS if in_memory else -1
        gathers = isinstance(query.checked.form, OverWindows | OverRetained)
        frames = {
            stream: self._frame(stream, table, gathers, few_rows)
            for stream, table in tables.items()
        }
        return self.result_frame(query, frames).toArrow().cast(query.schema)

    def result_frame(self, query: Runnable, frames: Mapping[str, DataFrame]) -> DataFrame:
        """One query by itself over these rows of its streams."""
        checked, body = query.checked, query.checked.body
        for stream, frame in frames.items():
            frame.createOrReplaceTempView(quoted(stream))
        if isinstance(body, FunctionBody):
            result = body.function(*(self._session.table(quoted(s)) for s in checked.reads))
            assert body.repeatable is not None
            body.repeatable.confirm(self._catalyst, result)
        else:
            for view, parsed in body.through:
                self._catalyst.frame(parsed, self._session).createOrReplaceTempView(quoted(view))
            result = self._catalyst.frame(body.parsed, self._session)
        return result

    def _compute_retained(
        self, query: Runnable, taken: Sequence[Waiting]
    ) -> tuple[list[pa.Table], list[list[Move]]]:
        """One batch over all that its streams retain."""
        places = self._log.places(query.name)
        retained = Retained(query.name, self._store, self._schemas, places, taken)
        if retained.large:
            self._ways.add("executors")
            frames = {
                stream: self._on_executors.all_rows(stream, rows, retained.large.get(stream, ()))
                for stream, rows in retained.tables.items()
            }
            result = self.result_frame(query, frames).toArrow().cast(query.schema)
        else:
            result = self._ordinary(query, retained.tables)
        return [retained.marked(result)], [retained.moves]

    def _compute_windows(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting], cell: Sequence[Runnable]
    ) -> tuple[list[Result], list[list[Move]]]:
        """Of the queries in the order of their cell: another order would be another plan."""
        place = {query.name: at for at, query in enumerate(cell)}
        order = sorted(range(len(queries)), key=lambda at: place.get(queries[at].name, at))
        results, moves = self._compute_ordered([queries[at] for at in order], taken)
        back = {at: number for number, at in enumerate(order)}
        each = range(len(queries))
        return [results[back[at]] for at in each], [moves[back[at]] for at in each]

    def _compute_ordered(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> tuple[list[Result], list[list[Move]]]:
        first = queries[0]
        # What open windows still need of each stream; only jobs of these queries move it.
        places = self._log.places(first.name)
        if any(self._log.places(query.name) != places for query in queries[1:]):
            raise CannotShare(f"{', '.join(q.name for q in queries)} are not at the same place")
        forms = [form for form in _forms(queries) if isinstance(form, OverWindows)]
        paned = [form for form in forms if isinstance(form, PanedAggregate)]
        if paned:
            return compute_panes(queries, paned, taken, self._store, self._partials, places, self)

        def run(tables: Mapping[str, pa.Table]) -> list[pa.Table]:
            if len(queries) == 1:
                return [self._compute(first, tables)]
            [(stream, rows)] = tables.items()
            schemas = [query.schema for query in queries]
            found = self._run_prepared(of_together(_checked(queries), self._schemas), {ROWS: rows})
            if found is not None:
                return list(found.made.cut(found.table, schemas))
            together = self.together(queries)
            result = self._run_plan(together.over, rows, self._schemas[stream])
            return list(together.cut(result, schemas))

        windowings = [form.windowing for form in forms]
        if self._on_executors.reads_large(places):
            self._ways.add("executors")
            return self._on_executors.windows(queries, windowings, taken, places)
        return compute(queries, windowings, taken, self._store, places, run)

    def together(self, queries: Sequence[Runnable]) -> Together:
        """Aggregates over the same windows as one plan, made once."""
        made: Together = self._known(
            Together, queries, lambda: Together(self._catalyst, aggregates_of(_forms(queries)))
        )
        return made

    def fill_large(
        self, queries: Sequence[Runnable], segments: Sequence[Segment]
    ) -> list[pa.Table]:
        """Partials of all rows of large segments; see ``panes.PaneJobs``."""
        self._ways.add("executors")
        return self._on_executors.fill(queries, segments)

    def filling(self, queries: Sequence[Runnable]) -> Fill:
        """The plan that makes partials of rows, made once."""
        aggregates = aggregates_of(_forms(queries))
        made: Fill = self._known(Fill, queries, lambda: Fill(self._catalyst, aggregates))
        return made

    def fill(self, queries: Sequence[Runnable], rows: pa.Table) -> list[pa.Table]:
        """Partials of rows; see ``panes.PaneJobs``."""
        found = self._run_prepared(of_fill(_checked(queries)), {ROWS: rows})
        if found is not None:
            partials: list[pa.Table] = found.made.cut(found.table)
            return partials
        fill, schema = self.filling(queries), panes_in(_forms(queries))[0].paned_schema
        return fill.cut(self._run_plan(fill.over, rows, schema))

    def merge(self, queries: Sequence[Runnable], partials: Sequence[pa.Table]) -> list[pa.Table]:
        """Windows of partials; see ``panes.PaneJobs``."""
        panes = panes_in(_forms(queries))
        rows, schemas = merged_rows(panes, partials), [query.schema for query in queries]
        found = self._run_prepared(of_merge(_checked(queries)), {ROWS: rows})
        if found is not None:
            return list(found.made.cut(found.table, schemas))
        merge: Merge = self._known(Merge, queries, lambda: Merge(self._catalyst, panes))
        result = self._run_plan(merge.over, rows, merged_schema(panes))
        return list(merge.cut(result, schemas))

    def _run_prepared(self, recipe: Recipe, tables: Mapping[str, pa.Table]) -> Computed | None:
        """The result without a Spark job; None where it takes one."""
        found = (
            None if self._prepared is None else self._prepared.run(recipe, tables, self._versions)
        )
        if found is not None:
            self._ways.add("prepared")
        return found

    def _run_plan(
        self, over: Callable[[Plan], Plan], rows: pa.Table, schema: StructType
    ) -> pa.Table:
        def run(few_rows: int) -> pa.Table:
            frame = self._frame_as("rows", rows, schema, gathers=True, few_rows=few_rows)
            plan = over(frame._jdf.queryExecution().analyzed())
            return self._catalyst.frame(plan, self._session).toArrow()

        try:
            return run(FEW_ROWS)
        except (PySparkException, Py4JError):
            if rows.num_rows > FEW_ROWS:
                raise
            return run(-1)  # see ``_compute``

    def _known(self, kind: object, queries: Sequence[Runnable], make: Callable[[], Any]) -> Any:
        """What these queries are compiled to, made once."""
        # A name may come back with other SQL.
        key = (kind, *((q.name, q.checked.body) for q in queries))
        if key not in self._compiled:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            self._compiled[key] = make()
        return self._compiled[key]

    def trial(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Runs a query over given rows, for its cost alone."""
        self._take_tables()
        rows = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
        if query.checked.is_whole:
            return self._ordinary(query, rows)
        return self._compute(query, with_anchors(query.checked.windows, rows))

    def _compute_together(
        self,
        queries: Sequence[Runnable],
        cell: Sequence[Runnable],
        tables: Mapping[str, pa.Table],
        stamps: Mapping[str, NDArray[np.int64]],
    ) -> tuple[list[pa.Table], Since]:
        [(stream, table)] = tables.items()
        found = self._run_prepared(of_composite(_checked(cell), self._schemas), tables)
        if found is not None:
            composite: Composite = found.made
            result = composite.complete(found.table, table)
        elif len(queries) == 1:
            alone = self._ordinary if len(cell) == 1 else self._compute
            return [alone(queries[0], tables)], None
        else:
            composite = self._composite(cell)
            result = self._run_composite(composite, table)
        # One row for each, in their order; but what executors read from a file may lose it, and a
        # join gives others.
        one_each = composite.source.parsed is None
        in_order = one_each and (found is not None or table.num_rows <= FEW_ROWS)
        of = {query.name: at for at, query in enumerate(cell)}
        places = {of[q.name]: q.schema for q in queries}
        since = composite.cutter.earliest(result, stamps[stream], places) if in_order else None
        return composite.cutter.cut(result, places), since

    def _run_composite(self, composite: Composite, table: pa.Table) -> pa.Table:
        """The composite as a job."""
        return self._composited(composite, self._frame(composite.stream, table)).toArrow()

    def composite_frame(
        self, cell: Sequence[Runnable], frame: DataFrame
    ) -> tuple[DataFrame, Cutter]:
        """A cell over these rows of its stream, and which columns belong to which query."""
        composite = self._composite(cell)
        return self._composited(composite, frame), composite.cutter

    def planned(self, plan: Plan) -> DataFrame:
        """The rows of a plan."""
        return self._catalyst.frame(plan, self._session)

    def frame_of(self, name: str, table: pa.Table) -> DataFrame:
        """Rows in memory, for Spark."""
        return self._frame(name, table)

    def _composited(self, composite: Composite, frame: DataFrame) -> DataFrame:
        source = composite.source
        if source.parsed is not None:  # resolved here: a static table may have other rows by now
            frame.createOrReplaceTempView(quoted(composite.stream))
            frame = self._catalyst.frame(source.parsed, self._session)
        plan = frame._jdf.queryExecution().analyzed()
        if source.schema and plan.schema().json() != source.schema:
            raise CannotShare("a static table has other columns than when the queries were checked")
        return self._catalyst.frame(composite.over(plan), self._session)

    def _composite(self, cell: Sequence[Runnable]) -> Composite:
        """The composite of a cell, made once."""
        parts = parts_of(_forms(cell))
        made: Composite = self._known(Composite, cell, lambda: Composite(parts, self._catalyst))
        return made

    def close(self) -> None:
        if self._prepared is not None:
            self._prepared.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _commit(
        self,
        queries: Sequence[Runnable],
        results: Sequence[Result],
        moves: Sequence[Sequence[Move]],
    ) -> tuple[int, dict[str, Failure]]:
        """Stages, commits and delivers; returns when it was committed.

        Once committed the job has succeeded, even if a sink then fails: the result is listed,
        and the next start delivers it.
        """
        job = self._on_executors.job or self._log.new_job()
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
        committed_at = time.time_ns()
        self._on_executors.committed()
        sweep_attempts(job, queries, results)
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
        return committed_at, failed

    def _count_passed(self, queries: Sequence[Runnable], results: Sequence[Result]) -> None:
        """Of results, those that are in the driver's memory."""
        pairs = zip(queries, results, strict=True)
        rows = {q.name: r.num_rows for q, r in pairs if not isinstance(r, Written)}
        self._store.driver_rows.of_queries(rows)

    def _frame(
        self, stream: str, table: pa.Table, gathers: bool = False, few_rows: int = FEW_ROWS
    ) -> DataFrame:
        schema = self._schemas[stream.removeprefix(ANCHORS)]
        return self._frame_as(stream, table, schema, gathers, few_rows)

    def _frame_as(
        self,
        name: str,
        table: pa.Table,
        schema: StructType,
        gathers: bool,
        few_rows: int = FEW_ROWS,
    ) -> DataFrame:
        """The rows for Spark: in memory where they are few, for the executors to read else.

        Spark's optimizer works on rows in memory by itself, in the driver, one after the other.
        Where they are to be gathered by some key, which it leaves to a job, few rows are one
        partition: nothing has to be exchanged then.
        """
        self._ways.add("ordinary" if table.num_rows <= few_rows else "executors")
        if table.num_rows <= few_rows:
            # Of several batches Spark reads those before the first empty one, and says nothing.
            data: Any = table.combine_chunks() if table.num_columns else []
            frame = self._session.createDataFrame(data, schema)
            return frame.coalesce(1) if gathers else frame
        # Spark takes a name that begins with _ or . for a hidden file, and reads nothing.
        path = make_folder(self._scratch) / f"rows-{file_name(name)}.parquet"
        pq.write_table(table, path)
        return self._session.read.schema(schema).parquet(to_read(path))


def _checked(queries: Sequence[Runnable]) -> list[CheckedQuery]:
    return [query.checked for query in queries]


def _forms(queries: Sequence[Runnable]) -> list[Form]:
    return [query.checked.form for query in queries]


def _first_possible(results: Sequence[Result], taken: Sequence[Waiting]) -> tuple[int | None, ...]:
    """For results that do not tell which tuples gave them: it may have been the first."""
    first = min((item.arrival_ns for item in taken), default=None)
    return tuple(first if result.num_rows else None for result in results)
