"""From a segment through a Spark job to a sink, and back by Spark's own readers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.ranges import read

from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.make import make_sink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS: list[dict[str, Any]] = [
    {"station": "a", "at": datetime(2026, 1, 1, 12, 0, 0, 5, UTC), "tags": ["x", None], "t": 41},
    {"station": None, "at": None, "tags": None, "t": 38},
    {"station": "", "at": datetime(2026, 1, 2, tzinfo=UTC), "tags": [], "t": 12},
]
SCHEMA = pa.schema(
    [
        ("station", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("t", pa.int32()),
    ]
)


@pytest.mark.parametrize("format", ["parquet", "json", "csv"])
def test_spark_reads_what_a_sink_has_delivered_and_nothing_that_is_staged(
    tmp_path: Path,
    spark: SparkSession,
    format: str,  # noqa: A002
) -> None:
    with RunDirectory.open(tmp_path / "run", "fires") as rundir:
        log = CommitLog(rundir.state_db)
        store = SegmentStore(rundir, log)
        store.append("r", "cp", 0, {}, pa.Table.from_pylist(ROWS, SCHEMA), 7)
        log.register_query("hot", "1", {"r": Cursor(0, 0)})
        spec = SinkSpec(format=format, path="out")
        sink = make_sink("hot", spec, tmp_path, rundir.staging)
        train, end = read(store, "r", Cursor(0, 0))
        spark.createDataFrame(train).createOrReplaceTempView("r")
        result = spark.sql(f"SELECT * EXCEPT ({ARRIVAL}) FROM r WHERE t > 35").toArrow()
        spark.catalog.dropTempView("r")

        job = log.new_job()
        staged = sink.stage(job, result)
        [file] = log.commit(job, [CursorMove("hot", "r", Cursor(0, 0), end)], staged)
        sink.deliver(file)
        sink.stage(log.new_job(), result)
        log.close()

    kinds = "station STRING, at TIMESTAMP, tags ARRAY<STRING>, t INT"
    if format == "csv":  # nested values are JSON texts there
        kinds = kinds.replace("ARRAY<STRING>", "STRING")
    options = {"header": "true", "escape": '"', "nullValue": "", "emptyValue": ""}
    reader = spark.read.schema(kinds).options(**(options if format == "csv" else {}))
    found = reader.format(format).load(str(tmp_path / "out")).toArrow().to_pylist()
    expected = [dict(row) for row in ROWS[:2]]
    if format == "csv":
        expected[0]["tags"] = '["x", null]'
    assert sorted(found, key=lambda row: -row["t"]) == expected
