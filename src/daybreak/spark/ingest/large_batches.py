"""Micro-batches too large for the driver: executors write them, the log names their files.

Which ones those are is decided before a row is read: by what the source states about the batch
(sizes of files, Kafka's offsets) and by how much earlier batches took in memory of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import (
    ArrayType,
    AtomicType,
    DataType,
    DayTimeIntervalType,
    MapType,
    StructType,
    YearMonthIntervalType,
)

from daybreak.spark.ingest.dead_letters import MALFORMED
from daybreak.spark.log.hadoop_names import to_write
from daybreak.spark.log.large_segments import Footers, make_durable, read_footers
from daybreak.spark.log.rows import Part
from daybreak.spark.log.tables import ARRIVAL

#: Rows of a file, before it is known how long rows are, and its size in memory later.
FILE_ROWS, FILE_BYTES = 200_000, 2**26
#: What Spark's writer holds in memory, and what several tasks can share of a file.
ROW_GROUP_BYTES = 2**24
#: A source that states no size is taken to state this.
_UNKNOWN = 2**62
#: Bytes in memory for each in a file, until it is known.
_COMPRESSED = {"parquet": 4.0, "orc": 4.0, "avro": 2.0}
#: Bytes of a record whose number is all that is known.
_RECORD_BYTES = 512
#: Weight of the newest batch in what is learned.
_NEWEST = 0.5


class BatchSizes:
    """How large micro-batches of one source are. Used by the source's thread."""

    def __init__(self, form: str | None) -> None:
        self._ratio = _COMPRESSED.get(form or "", 1.0)
        self._record_bytes = float(_RECORD_BYTES)
        self._row_bytes: float | None = None
        self._last = 0

    def expected(self, frame: DataFrame, records: int | None) -> tuple[int, int | None]:
        """Bytes that a batch will take in memory, and those that its source states, if it does.

        ``records``: how many its source counts, where it counts them.
        """
        if records is not None:
            return self.expected_of(None, records), None
        plan = frame._jdf.queryExecution().optimizedPlan()
        stated = int(str(plan.stats().sizeInBytes()))
        known = None if stated >= _UNKNOWN else stated
        return self.expected_of(known, None), known

    def expected_of(self, stated: int | None, records: int | None) -> int:
        """Bytes that a batch will take in memory, by what its source states or counts."""
        if records is not None:
            return round(records * self._record_bytes)
        if stated is None:
            return self._last  # such sources rarely send much more than before
        return round(stated * self._ratio)

    def stated_of(self, took: int) -> int:
        """What a source states of a batch that will take so many bytes in memory."""
        return round(took / self._ratio)

    def learn(self, took: int, rows: int, stated: int | None, records: int | None) -> None:
        """A batch has been read."""
        self._last = took
        if not rows:
            return
        if stated:
            self._ratio += (took / stated - self._ratio) * _NEWEST
        if records:
            self._record_bytes += (took / records - self._record_bytes) * _NEWEST
        self._row_bytes = took / rows

    @property
    def file_rows(self) -> int:
        """Rows of a file that is not much larger than ``FILE_BYTES``."""
        if self._row_bytes is None:
            return FILE_ROWS
        return max(1000, round(FILE_BYTES / self._row_bytes))


def can_be_files(schema: StructType) -> bool:
    """Whether Parquet files hold such rows as they are, for Spark and for Arrow."""
    return ARRIVAL not in schema.names and all(_fits(field.dataType) for field in schema.fields)


def _fits(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return bool(kind.fields) and all(_fits(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _fits(kind.elementType)
    if isinstance(kind, MapType):
        return _fits(kind.keyType) and _fits(kind.valueType)
    known = isinstance(kind, AtomicType) and kind.typeName() in _PLAIN
    return known and not isinstance(kind, DayTimeIntervalType | YearMonthIntervalType)


_PLAIN = (
    "string", "binary", "boolean", "byte", "tinyint", "short", "smallint", "integer", "int",
    "long", "bigint", "float", "double", "decimal", "date", "timestamp", "timestamp_ntz",
)  # fmt: skip


class RowsDiffer(Exception):
    """The files hold another number of rows than the batch had; the batch is repeated."""


class WrittenFiles(NamedTuple):
    """What executors wrote of a batch."""

    footers: Footers
    #: How many malformed records they left out, and the pieces that have some.
    malformed: int
    suspects: tuple[DataFrame, ...]


def write_files(
    pieces: Iterable[DataFrame], folder: Path, time: str | None, file_rows: int
) -> WrittenFiles:
    """Lets executors write a batch into a fresh folder, piece by piece; durable when it returns.

    Malformed records are left out. Files are as tasks that succeeded left them: a job's committer
    moves no others into the folder.
    """
    footers, malformed, suspects = Footers((), 0, 0), 0, []
    for piece in pieces:
        found, bad = _write_piece(piece, folder, time, file_rows, footers.parts)
        footers = footers.with_those_of(found)
        malformed += bad
        suspects += [piece] if bad else []
    make_durable(folder, footers.parts)
    return WrittenFiles(footers, malformed, tuple(suspects))


def _write_piece(
    frame: DataFrame, folder: Path, time: str | None, file_rows: int, before: Sequence[Part]
) -> tuple[Footers, int]:
    """Gives what was written beside the files that were there ``before``, and what was left out."""
    conf = frame.sparkSession.conf  # of the source's own session
    conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    conf.set("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
    seen = Observation()
    malformed = F.count(MALFORMED) if MALFORMED in frame.columns else F.lit(0)
    rows = frame.observe(seen, F.count(F.lit(1)).alias("all"), malformed.alias("malformed"))
    if MALFORMED in frame.columns:
        rows = rows.where(F.col(MALFORMED).isNull()).drop(MALFORMED)
    options = {
        "maxRecordsPerFile": str(file_rows),
        "parquet.block.size": str(ROW_GROUP_BYTES),
        "compression": "snappy",
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    }
    rows.write.options(**options).mode("append").parquet(to_write(folder))
    found, counted = read_footers(folder, time, {part.name for part in before}), seen.get
    if found.rows + counted["malformed"] != counted["all"]:
        raise RowsDiffer(f"{found.rows} rows in {folder}, of {counted}")
    return found, counted["malformed"]


def write_malformed(pieces: Iterable[DataFrame], folder: Path, arrival_ns: int) -> None:
    """Lets executors write the malformed records of a batch into a fresh folder."""
    marks = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    for piece in pieces:
        texts = piece.where(F.col(MALFORMED).isNotNull()).select(
            # Spark passes on what it read: bytes that need not be UTF-8.
            F.make_valid_utf8(MALFORMED).alias("record"),
            F.lit(arrival_ns).cast("long").alias("arrival_ns"),
        )
        texts.write.options(**marks).mode("append").parquet(to_write(folder))
