"""What tests of sinks share: a table, sinks of each format, and how their files are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from daybreak.model.specs import SinkSpec
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Sink

TABLE = pa.table({"station": ["a", None, ""], "t": pa.array([41, 38, None], pa.int32())})
READERS: dict[str, Callable[[Path], pa.Table]] = {
    "parquet": lambda path: pq.read_table(path, partitioning=None),
    "json": lambda path: pa.Table.from_pylist(
        [json.loads(line) for line in path.read_text().splitlines()], schema=TABLE.schema
    ),
    "csv": lambda path: pa_csv.read_csv(
        path,
        convert_options=pa_csv.ConvertOptions(
            column_types=TABLE.schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        ),
    ),
}


def make(tmp_path: Path, format: str, query: str = "fire", **options: str) -> Sink:  # noqa: A002
    path = f"out/{query}" if format in READERS else None
    spec = SinkSpec(format=format, path=path, options=options)
    return make_sink(query, spec, tmp_path, tmp_path / "staging", callback=lambda table, key: None)


def commit(log: CommitLog, sink: Sink, table: pa.Table = TABLE) -> CommittedFile:
    job = log.new_job()
    [file] = log.commit(job, [], sink.stage(job, table))
    return file


def visible(tmp_path: Path) -> list[Path]:
    return sorted(p for p in (tmp_path / "out" / "fire").glob("*") if p.is_file())
