"""The Spark session of one worker: what its jobs see, and how their plans run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.engine.events import Way
from daybreak.spark.event_time import ANCHORS
from daybreak.spark.jobs.prepared.planner import Recipe
from daybreak.spark.jobs.prepared.plans import Computed, PlanRunner
from daybreak.spark.log.durable import file_name, make_folder
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.session import cloned
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.static_tables import NO_TABLES, SessionTables, StaticTables

#: Beyond so many rows a job is faster if the executors read them from a file.
FEW_ROWS = 8000


class WorkerSession:
    """A session per worker: two workers may hold different rows under one stream's name."""

    def __init__(
        self,
        spark: SparkSession,
        schemas: Mapping[str, StructType],
        scratch: Path,
        prepared: PlanRunner | None,
        tables: StaticTables | None,
    ) -> None:
        """``scratch``: a folder of its own that executors can read too."""
        self.spark = cloned(spark)
        self.catalyst = Catalyst(self.spark)
        self.schemas = schemas
        self.scratch = scratch
        self._prepared = prepared
        self._tables = tables
        self._session_tables = SessionTables(self.spark, self.catalyst)
        #: The versions of static tables that the present job sees.
        self._versions = NO_TABLES
        #: How the plans of the present job ran.
        self.ways: set[Way] = set()

    def take_tables(self) -> None:
        """From now on the job's static tables stay as they are."""
        self._versions = NO_TABLES if self._tables is None else self._tables.current
        self._session_tables.use(self._versions)

    def run_prepared(self, recipe: Recipe, tables: Mapping[str, pa.Table]) -> Computed | None:
        """The result without a Spark job; None where it takes one."""
        if self._prepared is None:
            return None
        found = self._prepared.run(recipe, tables, self._versions)
        if found is not None:
            self.ways.add("prepared")
        return found

    def planned(self, plan: Plan) -> DataFrame:
        """The rows of a plan."""
        return self.catalyst.frame(plan, self.spark)

    def frame(
        self,
        name: str,
        table: pa.Table,
        schema: StructType | None = None,
        *,
        gathers: bool = False,
        in_memory: bool = True,
    ) -> DataFrame:
        """The rows for Spark: in memory where they are few, for the executors to read else.

        Spark's optimizer works on rows in memory by itself, in the driver, one after the other.
        Where they are to be gathered by some key, which it leaves to a job, few rows are one
        partition: nothing has to be exchanged then. ``schema``: left out, that of the stream with
        this name. ``in_memory``: False for a file, however few they are.
        """
        in_memory = in_memory and is_few(table)
        self.ways.add("ordinary" if in_memory else "executors")
        schema = schema or self.schemas[name.removeprefix(ANCHORS)]
        if in_memory:
            # Of several batches Spark reads those before the first empty one, and says nothing.
            data: Any = table.combine_chunks() if table.num_columns else []
            frame = self.spark.createDataFrame(data, schema)
            return frame.coalesce(1) if gathers else frame
        # Spark takes a name that begins with _ or . for a hidden file, and reads nothing.
        path = make_folder(self.scratch) / f"rows-{file_name(name)}.parquet"
        pq.write_table(table, path)
        return self.spark.read.schema(schema).parquet(to_read(path))

    def close(self) -> None:
        if self._prepared is not None:
            self._prepared.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


def is_few(table: pa.Table) -> bool:
    """Whether a job takes these rows from memory."""
    return bool(table.num_rows <= FEW_ROWS)
