"""Runs queries over a range of their streams: read, compute on Spark, stage, commit, deliver.

The order is the guarantee: rows are written to staging before the one transaction that moves the
cursors and lists the files, and only then do the files move to their places. Queries that run
together are one Spark job and one transaction.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.runtime.inbox import Waiting
from daybreak.spark.check import CheckedQuery
from daybreak.spark.commitlog import CommitLog
from daybreak.spark.composite import Composite, plain_schema, quoted
from daybreak.spark.direct import MOST_ROWS, Direct, Projection
from daybreak.spark.durable import file_name, make_folder
from daybreak.spark.logrows import Cursor, CursorMove
from daybreak.spark.recovery import bring
from daybreak.spark.segments import ARRIVAL, SegmentStore
from daybreak.spark.settle import Settler
from daybreak.spark.sinks import Sink
from daybreak.spark.windows.panes import compute as compute_panes
from daybreak.spark.windows.runner import CLOSED, Ranges, compute, with_anchors
from daybreak.spark.windows.times import ANCHORS
from daybreak.spark.windows.together import Together
from daybreak.spark.windows.views import advance, stamped

#: Sets of queries whose common text is kept.
MOST_COMPOSITES = 200
#: Beyond so many rows a job is faster if the executors read them from a file.
FEW_ROWS = 8000

#: When the first tuple that gave a row had arrived, by query; None where that is not known.
Since = Sequence[int | None] | None

#: A query given as a Python function over one DataFrame per stream.
Function = Callable[..., DataFrame]


@dataclass(frozen=True)
class Runnable:
    """A checked query with all it takes to run it."""

    checked: CheckedQuery
    sink: Sink
    function: Function | None = None
    #: What its result looks like as Arrow.
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        arrow = to_arrow_schema(self.checked.schema, timezone="UTC")
        object.__setattr__(self, "schema", plain_schema(arrow))

    @property
    def name(self) -> str:
        return self.checked.name


@dataclass(frozen=True, slots=True)
class Ran:
    """What one job did."""

    #: Result rows of each of its queries.
    rows: tuple[int, ...]
    #: Time on Spark, and time to make the results durable.
    work_ns: int
    commit_ns: int
    committed_at_ns: int
    #: When it began, on the clock of the arrivals.
    began_ns: int
    #: Queries whose sink would not take a result that is committed: it stays staged.
    undelivered: Mapping[str, Exception]
    #: Of each query, when the first tuple that gave a row had arrived; None where none did.
    stale_since_ns: tuple[int | None, ...]


class Apart(Exception):
    """Queries that were to run together cannot; the one that was asked runs alone then."""


@dataclass
class _Compiled:
    """A composite, and how to evaluate it without a job where that is possible."""

    composite: Composite
    projection: Projection | None


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
        cursors: dict[tuple[str, str], Cursor],
        settler: Settler,
        scratch: Path,
    ) -> None:
        """``scratch``: a folder of its own that executors can read too."""
        # A clone, not newSession(): it keeps the user's temporary views and functions.
        self._session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self._schemas = schemas
        self._store = store
        self._log = log
        self._cursors = cursors
        self._settler = settler
        self._scratch = scratch
        self._direct = Direct(self._session, schemas)
        self._composites: dict[tuple[tuple[str, str | None], ...], _Compiled] = {}

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
        began_ns, started = time.time_ns(), time.perf_counter_ns()
        since: Since = None
        if queries[0].checked.windowing is not None:
            results, ranges = self._compute_windows(queries, taken)
        else:
            tables, read = self._read(queries[0], taken)
            ranges = [read] * len(queries)
            stamps = {stream: table.column(ARRIVAL).to_numpy() for stream, table in tables.items()}
            tables = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
            if queries[0].checked.parts is not None:
                results, since = self._compute_together(queries, cell or queries, tables, stamps)
            else:
                results = [self._compute(queries[0], tables)]
        results = stamped(queries, results, taken)
        computed = time.perf_counter_ns()
        may_commit()
        committed_at, undelivered = self._commit(queries, results, ranges)
        for query, moved in zip(queries, ranges, strict=True):
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
        )

    def _read(
        self, query: Runnable, taken: Sequence[Waiting]
    ) -> tuple[dict[str, pa.Table], dict[str, tuple[Cursor, Cursor]]]:
        tables: dict[str, pa.Table] = {}
        ranges: dict[str, tuple[Cursor, Cursor]] = {}
        for stream in query.checked.reads:
            tuples = sum(w.tuples for w in taken if w.stream == stream)
            if tuples:
                old = self._cursors[query.name, stream]
                table, new = self._store.rows(stream, old, tuples)
                ranges[stream] = (old, new)
                tables[stream] = table
            else:
                frame = self._session.createDataFrame([], self._schemas[stream])
                stamp = pa.field(ARRIVAL, pa.int64(), nullable=False)
                tables[stream] = frame.toArrow().append_column(stamp, pa.array([], pa.int64()))
        return tables, ranges

    def _compute(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        gathers = query.checked.windowing is not None
        frames = {stream: self._frame(stream, table, gathers) for stream, table in tables.items()}
        if query.function is not None:
            result = query.function(*(frames[s] for s in query.checked.reads))
        else:
            for stream, frame in frames.items():
                frame.createOrReplaceTempView(quoted(stream))
            result = self._session.sql(query.checked.sql or "")
        return result.toArrow().cast(query.schema)

    def _compute_windows(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> tuple[list[pa.Table], list[Ranges]]:
        first, cursors = queries[0], self._cursors
        places = {
            tuple(cursors[query.name, s] for s in (CLOSED, *first.checked.reads))
            for query in queries
        }
        if len(places) > 1:
            raise Apart(f"{', '.join(q.name for q in queries)} are not at the same place")
        if first.checked.panes is not None:
            return compute_panes(queries, taken, self._store, cursors, self._run_text)

        def run(tables: Mapping[str, pa.Table]) -> list[pa.Table]:
            if len(queries) == 1:
                return [self._compute(first, tables)]
            parts = [q.checked.aggregate for q in queries if q.checked.aggregate is not None]
            together = Together(parts)
            rows = tables[together.stream], self._schemas[together.stream]
            result = self._run_text(together.sql, {together.stream: rows})
            return together.cut(result, [query.schema for query in queries])

        return compute(queries, taken, self._store, cursors, run)

    def _run_text(self, text: str, tables: Mapping[str, tuple[pa.Table, StructType]]) -> pa.Table:
        for name, (table, schema) in tables.items():
            frame = self._frame_as(name, table, schema, gathers=True)
            frame.createOrReplaceTempView(quoted(name))
        return self._session.sql(text).toArrow()

    def trial(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Runs a query over given rows, for its cost alone."""
        rows = {stream: table.drop_columns([ARRIVAL]) for stream, table in tables.items()}
        return self._compute(query, with_anchors(query.checked.windowing, rows))

    def _compute_together(
        self,
        queries: Sequence[Runnable],
        cell: Sequence[Runnable],
        tables: Mapping[str, pa.Table],
        stamps: Mapping[str, NDArray[np.int64]],
    ) -> tuple[list[pa.Table], Since]:
        compiled = self.compile(cell)
        [(stream, table)] = tables.items()
        result = self._project(compiled, table)
        # One row for each, in their order; but what executors read from a file may lose it, and a
        # join gives others.
        one_each = compiled.composite.source is None
        in_order = result is not None or (one_each and table.num_rows <= FEW_ROWS)
        if result is None:
            if len(queries) == 1:
                return [self._compute(queries[0], tables)], None
            self._frame(stream, table).createOrReplaceTempView(quoted(stream))
            result = self._session.sql(compiled.composite.sql).toArrow()
        of = {query.name: at for at, query in enumerate(cell)}
        places = {of[q.name]: q.schema for q in queries}
        since = compiled.composite.earliest(result, stamps[stream], places) if in_order else None
        return compiled.composite.cut(result, places), since

    def compile(self, cell: Sequence[Runnable]) -> _Compiled:
        """The composite of a cell, made once."""
        key = tuple((q.name, q.checked.sql) for q in cell)  # a name may come back with other SQL
        if key not in self._composites:
            if len(self._composites) >= MOST_COMPOSITES:
                self._composites.clear()
            composite = Composite([q.checked.parts for q in cell if q.checked.parts is not None])
            beside = composite.sql_beside
            projection = self._direct.compile(beside, composite.stream) if beside else None
            self._composites[key] = _Compiled(composite, projection)
        return self._composites[key]

    def _project(self, compiled: _Compiled, table: pa.Table) -> pa.Table | None:
        """The result for a few rows, without a job; None where it takes one."""
        if compiled.projection is None or not 0 < table.num_rows <= MOST_ROWS:
            return None
        result = self._direct.apply(compiled.projection, table)
        if result is not None:
            result = compiled.composite.beside(result, table)
        if result is None:
            compiled.projection = None  # the ordinary way tells what is wrong, and goes on
        return result

    def close(self) -> None:
        self._direct.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _commit(
        self,
        queries: Sequence[Runnable],
        results: Sequence[pa.Table],
        ranges: Sequence[Ranges],
    ) -> tuple[int, dict[str, Exception]]:
        """Stages, commits and delivers; returns when it was committed.

        Once committed the job has succeeded, even if a sink then fails: the result is listed,
        and the next start delivers it.
        """
        job = self._log.new_job()
        try:
            staged = [q.sink.stage(job, r) for q, r in zip(queries, results, strict=True)]
            moves = [
                CursorMove(q.name, stream, old, new)
                for q, moved in zip(queries, ranges, strict=True)
                for stream, (old, new) in moved.items()
            ]
            files = self._log.commit(job, moves, [s for s in staged if s is not None])
        except BaseException:
            self._log.abandon(job)
            raise
        committed_at = time.time_ns()
        for move in moves:
            self._cursors[move.query, move.stream] = move.new
        sinks = {q.name: q.sink for q in queries}
        failed: dict[str, Exception] = {}
        for file in files:
            try:
                bring(sinks[file.query], file)
                self._settler.add(file)
            except Exception as error:
                failed[file.query] = error
        return committed_at, failed

    def _frame(self, stream: str, table: pa.Table, gathers: bool = False) -> DataFrame:
        schema = self._schemas[stream.removeprefix(ANCHORS)]
        return self._frame_as(stream, table, schema, gathers)

    def _frame_as(self, name: str, table: pa.Table, schema: StructType, gathers: bool) -> DataFrame:
        """The rows for Spark: in memory where they are few, for the executors to read else.

        Spark's optimizer works on rows in memory by itself, in the driver, one after the other.
        Where they are to be gathered by some key, which it leaves to a job, few rows are one
        partition: nothing has to be exchanged then.
        """
        if table.num_rows <= FEW_ROWS:
            # Of several batches Spark reads those before the first empty one, and says nothing.
            data: Any = table.combine_chunks() if table.num_columns else []
            frame = self._session.createDataFrame(data, schema)
            return frame.coalesce(1) if gathers else frame
        # Spark takes a name that begins with _ or . for a hidden file, and reads nothing.
        path = make_folder(self._scratch) / f"rows-{file_name(name)}.parquet"
        pq.write_table(table, path)
        return self._session.read.schema(schema).parquet(str(path))


def _first_possible(
    results: Sequence[pa.Table], taken: Sequence[Waiting]
) -> tuple[int | None, ...]:
    """For results that do not tell which tuples gave them: it may have been the first."""
    first = min((item.arrival_ns for item in taken), default=None)
    return tuple(first if result.num_rows else None for result in results)
