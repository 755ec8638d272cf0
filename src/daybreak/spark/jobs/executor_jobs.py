"""Jobs over large segments: executors read, compute, cut and stage; the driver commits names.

A job here ends in one ``mapInArrow``: each task cuts the rows of its queries out of its share of
the common result, writes them to the places where their sinks stage, and returns the names of the
files with their rows. Rows pass the driver only for a sink that takes them nowhere else.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import StructType

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.durable import make_folder
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.log.large_segments import FileRows
from daybreak.spark.log.rows import StagedFile
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import joined_rows
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sinks.task_writers import TaskWriter, WritesInTasks, handover
from daybreak.spark.sql.composite import Cutter, quoted
from daybreak.spark.sql.windows.together import cut_results

#: A task writes its files when it holds so much.
FLUSH_BYTES = 2**26
_PARTITIONS = "spark.sql.shuffle.partitions"
_REPORT = "query INT, path STRING, rows BIGINT"

#: Each query's rows of a common result.
Cut = Callable[[pa.Table], Sequence[pa.Table]]


class Answered(Protocol):
    """What is asked of a query."""

    @property
    def name(self) -> str: ...
    @property
    def sink(self) -> Sink: ...
    @property
    def schema(self) -> pa.Schema: ...


@dataclass(frozen=True)
class Written:
    """A result that executors have staged."""

    files: tuple[StagedFile, ...]
    num_rows: int


#: Rows of a query, or where executors have staged them.
Result: TypeAlias = pa.Table | Written


@dataclass(frozen=True)
class CutByMask:
    """The rows of some queries of a composite, by their place."""

    cutter: Cutter
    schemas: Mapping[int, pa.Schema]

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return self.cutter.cut(table, self.schemas)


@dataclass(frozen=True)
class CutOne:
    """The result of one query by itself."""

    schema: pa.Schema

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return [table.cast(self.schema)]


@dataclass(frozen=True)
class CutTogether:
    """The results of several aggregates over the same windows."""

    schemas: tuple[pa.Schema, ...]

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return cut_results(table, self.schemas)


@dataclass(frozen=True)
class WriteTask:
    """What a task does with its share of a result."""

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


class ExecutorJobs:
    """Frames over large segments, and results written by tasks, in one worker's session."""

    def __init__(
        self,
        session: SparkSession,
        schemas: Mapping[str, StructType],
        store: SegmentStore,
        scratch: Path,
    ) -> None:
        self._session = session
        self._schemas = schemas
        self._store = store
        self._scratch = scratch

    @contextmanager
    def spread(self) -> Iterator[None]:
        """What is gathered by a key is gathered in as many tasks as run at once."""
        conf, tasks = self._session.conf, self._session.sparkContext.defaultParallelism
        usual = conf.get(_PARTITIONS)
        conf.set(_PARTITIONS, str(max(2, tasks)))
        try:
            yield
        finally:
            conf.set(_PARTITIONS, str(usual))

    def frames(self, reads: Iterable[str], taken: Sequence[Waiting]) -> dict[str, DataFrame]:
        """The rows that were taken of each stream, for executors to read."""
        return {
            stream: self.frame(stream, [item for item in taken if item.stream == stream])
            for stream in reads
        }

    def frame(self, stream: str, taken: Sequence[Waiting]) -> DataFrame:
        present = [i for i in taken if self._store.is_as_declared(stream, i.seq)]
        older = [i for i in taken if i not in present]
        frames = [self._read(stream, self._store.files(present), declared=True)] if present else []
        frames += [self._read(stream, self._store.files([i]), declared=False) for i in older]
        return self.union(stream, [frame for some in frames for frame in some])

    def union(self, stream: str, frames: Sequence[DataFrame]) -> DataFrame:
        if not frames:
            return self._session.createDataFrame([], self._schemas[stream])
        result = frames[0]
        for frame in frames[1:]:
            result = result.union(frame)
        return result

    def _read(self, stream: str, files: Sequence[FileRows], *, declared: bool) -> list[DataFrame]:
        """Rows of files, those of an older schema as the present one."""
        schema, reader = self._schemas[stream], self._session.read
        if declared:
            reader = reader.schema(schema)
        whole = [to_read(file.path) for file in files if file.whole]
        frames = [reader.parquet(*whole)] if whole else []
        for file in files:
            if not file.whole:
                frame = reader.parquet(to_read(file.path))
                at = frame.metadataColumn("_metadata")["row_index"]
                frames.append(frame.where((at >= file.first) & (at < file.first + file.rows)))
        return frames if declared else [widened_frame(frame, schema) for frame in frames]

    def write(
        self, job: str, queries: Sequence[Answered], result: DataFrame, cut: Cut, arrival_ns: int
    ) -> list[Result]:
        """Stages each query's rows of a result; a table where the sink wants them on the driver."""
        aside = self._scratch / f"handover-{job}"
        writers = tuple(self._writer(job, query, aside, arrival_ns) for query in queries)
        task = WriteTask(cut, writers)

        def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        with self.spread():
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

    def _writer(self, job: str, query: Answered, aside: Path, arrival_ns: int) -> TaskWriter:
        if isinstance(query.sink, WritesInTasks):
            return query.sink.task_writer(job, arrival_ns)
        return handover(query.name, job, make_folder(aside))


def widened_frame(frame: DataFrame, schema: StructType) -> DataFrame:
    """Rows of an older schema as the present one, where that was found to lose nothing."""
    return frame.select(
        *(
            (F.col(quoted(f.name)) if f.name in frame.columns else F.lit(None))
            .cast(f.dataType)
            .alias(f.name)
            for f in schema.fields
        )
    )


def _read_back(query: Answered, files: Sequence[StagedFile]) -> pa.Table:
    tables = [pq.read_table(file.path, partitioning=None) for file in files]
    return joined_rows(tables, query.schema)


def sweep_attempts(job: str, queries: Iterable[Answered], results: Iterable[object]) -> None:
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
