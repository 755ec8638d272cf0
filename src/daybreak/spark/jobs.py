"""Runs a query over a range of its streams: read, compute on Spark, stage, commit, deliver.

The order is the guarantee: rows are durable in staging before the one transaction that moves
the cursors and lists the file, and only then does the file move to its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.spark.check import CheckedQuery
from daybreak.spark.commitlog import CommitLog, Cursor, CursorMove
from daybreak.spark.inbox import Waiting
from daybreak.spark.segments import ARRIVAL, SegmentStore
from daybreak.spark.sinks import Sink

#: A query given as a Python function over one DataFrame per stream.
Function = Callable[..., DataFrame]


@dataclass(frozen=True)
class Runnable:
    """A checked query with all it takes to run it."""

    checked: CheckedQuery
    sink: Sink
    function: Function | None = None

    @property
    def name(self) -> str:
        return self.checked.name


@dataclass(frozen=True, slots=True)
class Ran:
    """What one job did."""

    query: str
    taken: tuple[Waiting, ...]
    rows: int
    #: Time on Spark, and time to make the result durable.
    work_ns: int
    commit_ns: int
    committed_at_ns: int


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
    ) -> None:
        # A clone, not newSession(): it keeps the user's temporary views and functions.
        self._session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self._schemas = schemas
        self._store = store
        self._log = log
        self._cursors = cursors

    def run(self, query: Runnable, taken: list[Waiting]) -> Ran:
        """One job for one query. Raises whatever Spark or the sink raised; nothing is moved."""
        started = time.perf_counter_ns()
        tables, moves = self._read(query, taken)
        result = self._compute(query, tables)
        computed = time.perf_counter_ns()
        job = self._log.new_job()
        staged = query.sink.stage(job, result)
        files = self._log.commit(job, moves, [] if staged is None else [staged])
        committed_at = time.time_ns()
        for move in moves:
            self._cursors[move.query, move.stream] = move.new
        for file in files:
            query.sink.deliver(file)
        self._log.mark_delivered([file.id for file in files])
        return Ran(
            query=query.name,
            taken=tuple(taken),
            rows=result.num_rows,
            work_ns=computed - started,
            commit_ns=time.perf_counter_ns() - computed,
            committed_at_ns=committed_at,
        )

    def _read(
        self, query: Runnable, taken: list[Waiting]
    ) -> tuple[dict[str, pa.Table], list[CursorMove]]:
        tables: dict[str, pa.Table] = {}
        moves: list[CursorMove] = []
        for stream in query.checked.reads:
            tuples = sum(w.tuples for w in taken if w.stream == stream)
            old = self._cursors[query.name, stream]
            if tuples:
                table, new = self._store.rows(stream, old, tuples)
                moves.append(CursorMove(query.name, stream, old, new))
                tables[stream] = table.drop_columns([ARRIVAL])
            else:
                tables[stream] = self._empty(stream)
        return tables, moves

    def _empty(self, stream: str) -> pa.Table:
        frame = self._session.createDataFrame([], self._schemas[stream])
        return frame.toArrow()

    def _compute(self, query: Runnable, tables: Mapping[str, pa.Table]) -> pa.Table:
        frames = {s: self._frame(s, table) for s, table in tables.items()}
        if query.function is not None:
            result = query.function(*(frames[s] for s in query.checked.reads))
        else:
            for stream, frame in frames.items():
                frame.createOrReplaceTempView(_quoted(stream))
            result = self._session.sql(query.checked.sql or "")
        return result.toArrow()

    def _frame(self, stream: str, table: pa.Table) -> DataFrame:
        data: Any = table
        return self._session.createDataFrame(data, self._schemas[stream])


def _quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
