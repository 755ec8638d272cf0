"""Computes tasks over large segments: executors read, compute, cut and stage; the driver commits.

A job here ends in one ``mapInArrow``: each task of Spark's cuts the rows of the queries out of its
share of the common result, writes them to the places where their sinks stage, and returns the names
of the files with their rows. Rows pass the driver only for a sink that takes them nowhere else, and
where the driver needs the result.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from daybreak.spark.log.durable import make_folder
from daybreak.spark.log.rows import StagedFile
from daybreak.spark.log.tables import joined_rows
from daybreak.spark.sinks.task_writers import TaskWriter, WritesInTasks, handover
from daybreak.spark.tasks.segment_frames import SegmentFrames
from daybreak.spark.tasks.task import (
    Cut,
    LeafRows,
    Leaves,
    Result,
    Runnable,
    Task,
    TaskResult,
    Written,
)
from daybreak.spark.tasks.worker_session import WorkerSession, is_few

#: A task writes its files when it holds so much.
FLUSH_BYTES = 2**26
_PARTITIONS = "spark.sql.shuffle.partitions"
_REPORT = "query INT, path STRING, rows BIGINT"


@dataclass(frozen=True)
class WriteTask:
    """Cuts a Spark task's share of a result, and writes each query's rows of it."""

    cut: Cut
    writers: tuple[TaskWriter, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= FLUSH_BYTES:
                yield from self._write(held)
                held, size = [], 0
        yield from self._write(held)

    def _write(self, held: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not held:
            return
        results = self.cut(pa.Table.from_batches(held))
        found = [
            (at, *wrote)
            for at, (rows, writer) in enumerate(zip(results, self.writers, strict=True))
            for wrote in writer(rows)
        ]
        if found:
            places, paths, rows = zip(*found, strict=True)
            yield pa.RecordBatch.from_arrays(
                [pa.array(places, pa.int32()), pa.array(paths), pa.array(rows, pa.int64())],
                names=["query", "path", "rows"],
            )


class Executors:
    """Runs one worker's tasks over large segments."""

    def __init__(
        self, session: WorkerSession, frames: SegmentFrames, number: Callable[[], str]
    ) -> None:
        """``number``: of the present job, under which executors stage."""
        self._session = session
        self._frames = frames
        self._number = number

    def accepts(self, task: Task, leaves: Leaves) -> bool:
        return task.job and leaves.past_driver

    def run(self, task: Task, leaves: Leaves) -> TaskResult:
        frames = {name: self._frame(name, rows, task) for name, rows in leaves.rows.items()}
        built = task.build(self._session.planning, frames)
        cut = task.cut(built.made)
        with self._spread():
            if task.collects:
                return TaskResult(cut(built.frame.toArrow()), "executors")
            return TaskResult(self._write(task, built.frame, cut, leaves.arrival_ns), "executors")

    def _frame(self, name: str, rows: LeafRows, task: Task) -> DataFrame:
        """Rows of large segments, and those in memory."""
        schema, table = task.leaves[name], rows.table
        frames = [make(self._frames) for make in rows.large]
        if table.num_rows:
            frames.append(
                self._session.in_memory(table, schema, gathers=False)
                if is_few(table)
                else self._session.in_file(name, table, schema)
            )
        return self._frames.union(schema, frames)

    @contextmanager
    def _spread(self) -> Iterator[None]:
        """Lets rows be gathered by a key in as many tasks as run at once."""
        conf, tasks = self._session.spark.conf, self._session.spark.sparkContext.defaultParallelism
        usual = conf.get(_PARTITIONS)
        conf.set(_PARTITIONS, str(max(2, tasks)))
        try:
            yield
        finally:
            conf.set(_PARTITIONS, str(usual))

    def _write(self, task: Task, result: DataFrame, cut: Cut, arrival_ns: int) -> Sequence[Result]:
        """Stages each query's rows; a table where the sink wants them on the driver."""
        job, queries = self._number(), task.queries
        aside = self._session.scratch / f"handover-{job}"
        writers = tuple(_writer(job, query, aside, arrival_ns) for query in queries)
        stage = WriteTask(cut, writers)

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return stage(batches)

        report = result.mapInArrow(write, _REPORT).toArrow()
        found: list[list[StagedFile]] = [[] for _ in queries]
        columns = (report[name].to_pylist() for name in report.column_names)
        for at, path, rows in zip(*columns, strict=True):
            found[at].append(StagedFile(queries[at].name, Path(path), rows))
        try:
            return [
                Written(tuple(files), sum(file.rows for file in files))
                if isinstance(query.sink, WritesInTasks)
                else _read_back(query, files)
                for query, files in zip(queries, found, strict=True)
            ]
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _writer(job: str, query: Runnable, aside: Path, arrival_ns: int) -> TaskWriter:
    if isinstance(query.sink, WritesInTasks):
        return query.sink.task_writer(job, arrival_ns)
    return handover(query.name, job, make_folder(aside))


def _read_back(query: Runnable, files: Sequence[StagedFile]) -> pa.Table:
    tables = [pq.read_table(file.path, partitioning=None) for file in files]
    return joined_rows(tables, query.schema)


def sweep_attempts(job: str, queries: Iterable[Runnable], results: Iterable[object]) -> None:
    """Removes what attempts of tasks have staged that did not count.

    What cannot be removed now is at the next start: the job is committed, so nothing fails here.
    """
    for query, result in zip(queries, results, strict=True):
        if isinstance(result, Written):
            listed = {file.path.name for file in result.files}
            with suppress(OSError):
                for path in query.sink.staged():
                    if path.name.startswith(f"{job}-") and path.name not in listed:
                        path.unlink(missing_ok=True)
