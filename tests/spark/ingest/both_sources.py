"""The rows of a source, read directly and by a StreamingQuery."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.intake import Intake
from daybreak.spark.ingest.stream_source import read_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The modification time of the first file of a folder, in s; each other one is a second younger.
START_S = 1_767_225_600


def found(folder: Path, pattern: str = "*") -> list[FoundFile]:
    """The files of a folder by name, each with a time of its own in that order."""
    files = []
    paths = (p for p in folder.rglob(pattern) if p.is_file() and p.name[0] not in "._")
    for at, path in enumerate(sorted(paths)):
        os.utime(path, (START_S + at, START_S + at))
        files.append(FoundFile(str(path), (START_S + at) * 1000, path.stat().st_size))
    return files


def streamed(frame: DataFrame, checkpoint: Path) -> pa.Table:
    """All that is there now, as a StreamingQuery hands it over, one micro-batch after the other."""
    tables: list[pa.Table] = []

    def take(batch: DataFrame, _number: int) -> None:
        tables.append(batch.toArrow())

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    schemas = [table.schema for table in tables]
    assert all(schema.equals(schemas[0], check_metadata=True) for schema in schemas)
    return pa.concat_tables(tables)


def frame_of(
    spark: SparkSession, folder: Path, form: str, schema: str | None, options: dict[str, str]
) -> DataFrame:
    """The streaming frame of a declared folder."""
    given = {"path": str(folder), **options}
    spec = StreamSpec(name="s", format=form, schema=schema, options=given)
    return read_stream(spark, spec, folder)


def compare(
    spark: SparkSession,
    folder: Path,
    form: str,
    schema: str | None,
    options: dict[str, str],
    tmp: Path,
) -> pa.Table:
    """The rows of a folder's files; fails unless each way of reading gives the same."""
    files = found(folder)
    one_by_one = {"maxFilesPerTrigger": "1", **options}
    frame = frame_of(spark, folder, form, schema, one_by_one)
    intake = Intake(spark, frame, tmp / "source")
    try:
        direct = intake.read_files(files)
        assert_same(streamed(frame, tmp / "checkpoint"), direct)
        assert_same(direct, pa.concat_tables(intake.read_files([one]) for one in files))
        tables = [intake.frame_of_files([one]).toArrow() for one in files]
        assert_same(direct, pa.concat_tables(tables))
    finally:
        intake.stop()
    return direct


def assert_same(expected: pa.Table, given: pa.Table) -> None:
    assert given.schema.equals(expected.schema, check_metadata=True), (
        f"{given.schema}\n---\n{expected.schema}"
    )
    assert rows(given) == rows(expected)


def rows(table: pa.Table) -> Sequence[str]:
    """Rows as texts, NaN and all; strings as the bytes that they are, which need not be UTF-8."""
    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            columns.append(column.cast(pa.large_binary()).to_pylist())
        else:
            columns.append(column.to_pylist())
    return [repr(row) for row in zip(*columns, strict=True)]
