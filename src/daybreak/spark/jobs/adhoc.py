"""Ad-hoc queries: one batch over what an application still keeps of its streams.

Reads the commit log and the segments without locking them, so it works beside a run. Any SELECT
over streams, views and static tables is allowed: it is one batch, so nothing about it depends on
how rows were cut.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.model.errors import ConfigError
from daybreak.model.storage import LogUrl
from daybreak.model.texts import refuse_surrogates
from daybreak.spark.failures import one_line
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.log.migration import refuse_newer_log
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.log.widening import SchemaChanged, widened
from daybreak.spark.session import cloned
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.leaves import refuse_moving_rows
from daybreak.spark.sql.lexer import without_semicolons
from daybreak.spark.sql.parser import (
    analysed_frame,
    explaining,
    parsed_query,
)
from daybreak.spark.sql.plan_rules import Analysed
from daybreak.spark.tasks.segment_frames import widened_frame

#: A run may remove segments while they are listed; then they are listed again.
TRIES = 5


@dataclass(frozen=True)
class Kept:
    """Where an application keeps its streams."""

    run_dir: Path
    application: str = ""
    #: The database of its log, and its store; None: in the run directory.
    log: LogUrl | None = None
    store: Path | None = None

    @property
    def segments(self) -> Path:
        return (self.store or self.run_dir) / "segments"

    def listed(self, stream: str) -> list[tuple[str, bytes | None]]:
        """File or content of every segment."""
        if self.log is None:
            return _listed(self.run_dir, stream)
        from daybreak.spark.log.postgres_connection import listed

        return listed(self.log, self.application, stream)


def retained(kept: Kept, stream: str) -> tuple[list[pa.Table], list[list[Path]]]:
    """The segments of a stream that are kept, oldest first; of large ones, their files."""
    for attempt in range(TRIES):
        try:
            listed = kept.listed(stream)
            small = [_loaded(kept, *one) for one in listed if not one[0].endswith("/")]
            return small, [_files(kept, *one) for one in listed if one[0].endswith("/")]
        except FileNotFoundError:
            if attempt == TRIES - 1:
                raise
    return [], []


def _loaded(kept: Kept, file: str, content: bytes | None) -> pa.Table:
    return _ipc(content) if content is not None else _parquet(kept.segments / file)


def _files(kept: Kept, folder: str, content: bytes | None) -> list[Path]:
    return [kept.segments / folder / part[0] for part in json.loads(bytes(content or b"[]"))]


def ad_hoc(
    spark: SparkSession, place: Kept, schemas: Mapping[str, StructType], sql: str
) -> pa.Table:
    """The result of one SELECT over the retained rows of the streams, by their names."""
    session = cloned(spark)
    for stream, schema in schemas.items():
        # Spark would stop reading at the first empty batch.
        small, large = retained(place, stream)
        kept = [table.drop_columns([ARRIVAL]) for table in small if table.num_rows]
        columns = to_arrow_schema(schema, timezone="UTC")
        data: Any = _joined(stream, kept, columns) if kept else []
        frame = session.createDataFrame(data, schema)
        for files in large:
            frame = frame.union(_frame(session, stream, files, schema))
        frame.createOrReplaceTempView(quoted(stream))
    catalyst = Catalyst(session)
    with explaining("query", schemas):
        refuse_surrogates(sql, "query", "its SQL")
        parsed = parsed_query(session, catalyst, without_semicolons(session, sql))
        frame = analysed_frame(session, catalyst, parsed)
        analysed = Analysed.of(frame)
        streams = {name.lower(): name for name in schemas}
        refuse_moving_rows(analysed.plans, analysed.trees, streams)
    try:
        return frame.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        raise ConfigError("query", f"fails: {one_line(error)}", "correct the SQL") from None


def _frame(
    session: SparkSession, stream: str, files: Sequence[Path], schema: StructType
) -> DataFrame:
    """The rows of a large segment; the result alone passes the driver."""
    columns = to_arrow_schema(schema, timezone="UTC")
    _joined(stream, [pq.read_schema(files[0]).empty_table()], columns)
    return widened_frame(session.read.parquet(*map(to_read, files)), schema)


def _joined(stream: str, kept: Sequence[pa.Table], columns: pa.Schema) -> pa.Table:
    """Rows of older schemas as the present one; ``ConfigError`` where they cannot be."""
    try:
        return pa.concat_tables(widened(t, columns) for t in kept)
    except SchemaChanged as changed:
        raise ConfigError(
            f"stream {stream!r}",
            f"retains rows of another schema: {changed}",
            "declare the old schema, or wait until they are removed",
        ) from None


def _ipc(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


def _parquet(path: Path) -> pa.Table:
    return pq.read_table(path, partitioning=None)


def _listed(run_dir: Path, stream: str) -> list[tuple[str, bytes | None]]:
    """File or content of every segment."""
    path = run_dir / "state.db"
    if not path.exists():
        raise ConfigError(
            str(run_dir), "is no run directory", "give the one of a run with --run-dir"
        )
    db = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        refuse_newer_log(db, run_dir)
        return db.execute(
            "SELECT file, content FROM segments WHERE stream = ? ORDER BY seq", (stream,)
        ).fetchall()
    finally:
        db.close()
