"""The Spark session of one worker: its jobs' static tables, and frames over rows in memory."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.spark.log.durable import file_name, make_folder
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.session import cloned
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.static_tables import NO_TABLES, SessionTables, StaticTables
from daybreak.spark.tasks.task import Planning

#: Beyond so many rows a job is faster if the executors read them from a file.
FEW_ROWS = 8000


class WorkerSession:
    """A session per worker: two workers may hold different rows under one stream's name."""

    def __init__(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        scratch: Path,
        tables: StaticTables | None = None,
    ) -> None:
        """``scratch``: a folder of its own that executors can read too.

        ``tables``: static ones, of which every job sees one version.
        """
        self.spark = cloned(spark)
        self.schemas = schemas
        self.scratch = scratch
        catalyst = Catalyst(self.spark)
        self.planning = Planning(self.spark, catalyst)
        self._tables = tables
        self._session_tables = SessionTables(self.spark, catalyst)
        #: The versions of static tables that the present job sees.
        self.versions = NO_TABLES

    def take_tables(self) -> None:
        """From now on the job's static tables stay as they are."""
        self.versions = NO_TABLES if self._tables is None else self._tables.current
        self._session_tables.use(self.versions)

    def in_memory(self, table: pa.Table, schema: StructType, *, gathers: bool) -> DataFrame:
        """Rows for Spark's optimizer, which works on them in the driver, one after the other.

        Where they are to be gathered by some key, which it leaves to a job, they are one
        partition: nothing has to be exchanged then.
        """
        # Of several batches Spark reads those before the first empty one, and says nothing.
        data: Any = table.combine_chunks() if table.num_columns else []
        frame = self.spark.createDataFrame(data, schema)
        return frame.coalesce(1) if gathers else frame

    def in_file(self, name: str, table: pa.Table, schema: StructType) -> DataFrame:
        """Rows in a file of this worker's, for executors to read; the next of its name goes
        over it."""
        # Spark takes a name that begins with _ or . for a hidden file, and reads nothing.
        path = make_folder(self.scratch) / f"rows-{file_name(name)}.parquet"
        pq.write_table(table, path)
        return self.spark.read.schema(schema).parquet(to_read(path))

    def close(self) -> None:
        """Removes its folder. The session itself goes with its last frame."""
        shutil.rmtree(self.scratch, ignore_errors=True)


def is_few(table: pa.Table) -> bool:
    """Tells whether a job takes these rows from memory."""
    return bool(table.num_rows <= FEW_ROWS)
