"""Small inputs without a Spark job: how much that saves, and up to how many rows.

The same composite of filters over the same rows: compiled once and applied in the driver's JVM;
as a job over rows in memory; as a job whose executors read a Parquet file.

    python benchmarks/without_a_job.py [--queries 10,100] [--rows 1000,...] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.versus.workload import COLUMNS, SCHEMA, STREAM, filters, readings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.spark.jobs.direct import Direct
from daybreak.spark.session import local_session
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.composite import Composite

#: Beyond, Spark's optimizer takes minutes over rows in memory.
MOST_IN_MEMORY = 32_000
WARM, TIMES = 4, 7


class Ways:
    """Three ways to the same result."""

    def __init__(self, spark: SparkSession, queries: int, table: pa.Table, file: Path) -> None:
        schema = StructType.fromDDL(SCHEMA)
        assert isinstance(schema, StructType)
        checker = Checker(spark, {STREAM: schema})
        columns = ", ".join(COLUMNS)
        checked = [
            checker.sql(f"q{i}", f"SELECT {columns} FROM {STREAM} WHERE {f.condition}")
            for i, f in enumerate(filters(queries))
        ]
        table = table.select(schema.names)  # in the stream's order, as segments are
        self.spark, self.table, self.file = spark, table, file
        self.catalyst = Catalyst(spark)
        self.composite = Composite([c.parts for c in checked if c.parts], self.catalyst)
        self.schema = schema
        self.direct = Direct(spark, {STREAM: schema})
        self.projection = self.direct.compile(self.composite.over, STREAM)
        pq.write_table(table, file)

    def without_a_job(self) -> pa.Table:
        assert self.projection is not None
        found = self.direct.apply(self.projection, self.table)
        assert found is not None
        return found

    def rows_in_memory(self) -> pa.Table:
        data: Any = self.table
        return self._job(self.spark.createDataFrame(data, self.schema))

    def rows_in_a_file(self) -> pa.Table:
        return self._job(self.spark.read.schema(self.schema).parquet(str(self.file)))

    def _job(self, rows: DataFrame) -> pa.Table:
        plan = self.composite.over(rows._jdf.queryExecution().analyzed())
        return self.catalyst.frame(plan, self.spark).toArrow()


def median_ms(way: Callable[[], object]) -> float:
    spent = []
    for i in range(WARM + TIMES):
        began = time.perf_counter()
        way()
        if i >= WARM:
            spent.append(time.perf_counter() - began)
    return float(np.median(spent)) * 1e3


def measure(spark: SparkSession, queries: int, rows: int, file: Path) -> dict[str, Any]:
    ways = Ways(spark, queries, readings(0, rows, 1, np.random.default_rng(1)), file)
    try:
        expected = ways.rows_in_a_file()
        assert ways.without_a_job().cast(expected.schema).sort_by("c0") == expected.sort_by("c0")
        chosen = {"without a job": ways.without_a_job, "job, rows in a file": ways.rows_in_a_file}
        if rows <= MOST_IN_MEMORY:
            chosen["job, rows in memory"] = ways.rows_in_memory
        spent = {name: round(median_ms(way), 2) for name, way in chosen.items()}
        return {"queries": queries, "rows": rows, "ms": spent}
    finally:
        ways.direct.close()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--queries", default="10,100", help="how many filters, a list")
    parser.add_argument("--rows", default="200,2000,8000,32000,128000,512000", help="a list")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    chosen = parser.parse_args()
    spark = local_session("without-a-job")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for queries in map(int, chosen.queries.split(",")):
            for rows in map(int, chosen.rows.split(",")):
                found.append(measure(spark, queries, rows, Path(folder) / "rows.parquet"))
                shown = "  ".join(f"{k} {v:.1f} ms" for k, v in found[-1]["ms"].items())
                print(f"{queries} queries, {rows} rows: {shown}", file=sys.stderr, flush=True)
    if chosen.json:
        print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
