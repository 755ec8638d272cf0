"""Writes staged files of a sink where the rows are: in the tasks of a Spark job.

A writer travels to executors, so it holds names and functions alone. Only what a task reports, and
the commit then lists, is a result: what other attempts of the task have written is swept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol, runtime_checkable
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.log.durable import file_name, make_folder, write_durably
from daybreak.spark.sinks.partitioning import partitions
from daybreak.spark.sinks.sink import Writer


class Wrote(NamedTuple):
    """A file that a task has written, durably."""

    path: str
    rows: int


@dataclass(frozen=True)
class TaskWriter:
    """Writes rows of one query as files of one job: ``<job>-<query>-<random>.<ext>``."""

    query: str
    job: str
    folder: Path
    suffix: str
    write: Writer
    partition_by: tuple[str, ...] = ()
    #: Kept with the rows, where the format has a place for it.
    metadata: tuple[tuple[bytes, bytes], ...] = ()

    def __call__(self, table: pa.Table) -> Iterator[Wrote]:
        if not table.num_rows:
            return
        for part in partitions(table, self.partition_by):
            name = f"{self.job}-{file_name(self.query)}-{uuid4().hex[:12]}{self.suffix}"
            path = make_folder(self.folder / part.folder) / name
            rows = part.rows
            if self.metadata:
                rows = rows.replace_schema_metadata(dict(self.metadata))
            write_durably(path, partial(self._put, rows))
            yield Wrote(str(path), part.rows.num_rows)

    def _put(self, rows: pa.Table, out: BinaryIO) -> None:
        self.write(rows, out)


@runtime_checkable
class WritesInTasks(Protocol):
    """A sink whose results executors can stage."""

    def task_writer(self, job: str, arrival_ns: int) -> TaskWriter:
        """``arrival_ns``: when the oldest tuple had arrived that the results answer."""


def handover(query: str, job: str, folder: Path) -> TaskWriter:
    """For a sink that takes rows from the driver alone, which reads these files."""
    return TaskWriter(query, job, folder, ".parquet", write_parquet)


def write_parquet(table: pa.Table, out: BinaryIO) -> None:
    pq.write_table(table, out)
