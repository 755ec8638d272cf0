"""Sources: Structured Streaming reads, and every micro-batch becomes one durable segment.

One StreamingQuery per stream, with a trigger of its own. Its ``foreachBatch`` stamps the
arrival and makes the segment durable before Spark commits the source's offset, so a batch that
Spark repeats after a crash finds its segment and changes nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError
from daybreak.model.secrets import without_secrets
from daybreak.model.specs import StreamSpec
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import LogUnavailable, disk_is_full, one_line, one_line_of_java
from daybreak.spark.ingest.dead_letters import (
    MALFORMED,
    parted,
    reads_malformed,
    with_malformed,
)
from daybreak.spark.ingest.kafka_source import KafkaPosition, check_source, kafka_frame
from daybreak.spark.ingest.large_batches import (
    BatchSizes,
    can_be_files,
    write_files,
    write_malformed,
)
from daybreak.spark.ingest.parts import IngestParts
from daybreak.spark.ingest.pieces import finely_parted, in_pieces
from daybreak.spark.ingest.source_failure import SourceFailure
from daybreak.spark.kafka.options import FORMAT as KAFKA
from daybreak.spark.kafka.outage import explained, passes
from daybreak.spark.log.durable import remove_unfinished
from daybreak.spark.log.rows import Part
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.session import cloned

#: Types that PySpark turns into structs of fields that must not be NULL, and fails at a NULL.
_COMPOSED = ("variant", "geometry", "geography")


class StreamSource:
    """One stream read by Structured Streaming."""

    def __init__(
        self,
        spark: SparkSession,
        spec: StreamSpec,
        folder: Path,
        rundir: RunDirectory,
        parts: IngestParts,
    ) -> None:
        self.name = spec.name
        self._spec = spec
        self._store = parts.store
        self._on_segment = parts.on_segment
        self._dead = parts.dead_letters
        self._backpressure = parts.backpressure
        self._gate = parts.gate
        self._most_bytes = parts.driver_batch_bytes
        self._sizes = BatchSizes(spec.format)
        self._stopping = threading.Event()
        self._checkpoint = rundir.checkpoint(spec.name)
        self._frame = read_stream(spark, spec, folder)
        #: How far a Kafka source has read; None for other sources.
        self.position = KafkaPosition.of(spec, self._checkpoint)
        self._query: StreamingQuery | None = None
        #: What the newest micro-batch has raised here; Spark knows only the text of it.
        self._raised: Exception | None = None

    def start(self) -> None:
        remove_unfinished(self._checkpoint)
        writer = (
            self._frame.writeStream.foreachBatch(self._batch)
            .trigger(processingTime=self._spec.trigger)
            .option("checkpointLocation", str(self._checkpoint))
            .queryName(f"daybreak-{self.name}")
        )
        try:
            self._query = writer.start()
        except (PySparkException, Py4JError) as error:
            if disk_is_full(str(error)):
                raise LogUnavailable(one_line(error)) from None
            raise ConfigError(
                f"stream {self.name!r}",
                f"Spark does not start it from {self._checkpoint}: {_first_line(error)}",
                "restore the checkpoint, or choose a new run directory",
            ) from None

    def stop(self) -> None:
        self._stopping.set()
        if self._query is not None:
            self._query.stop()

    def failure(self) -> SourceFailure | None:
        """Why the source has stopped by itself, or None while it is well."""
        query = self._query
        if query is None or self._stopping.is_set() or query.isActive:
            return None
        failure = query.exception()
        if failure is None:
            return None
        if self._raised is not None:
            found = SourceFailure.of(self._raised)
        else:
            wrapped = query._jsq.exception().get()  # it adds nothing but the query's ids
            found = SourceFailure(one_line_of_java(wrapped.getCause() or wrapped))
        whole = without_secrets(str(failure))
        if passes(whole):
            where = found.why if self.position is None else explained(whole, self.position.servers)
            return SourceFailure(where, "outage")
        return SourceFailure(found.why, "storage") if disk_is_full(whole) else found

    def drain(self) -> None:
        """Waits until everything that is there has been read (for bounded input)."""
        if self._query is not None and self._query.isActive:
            with suppress(PySparkException):  # failure() tells
                self._query.processAllAvailable()

    def _batch(self, frame: DataFrame, batch_id: int) -> None:
        self._raised = None
        self._backpressure.shows(self.name)
        try:
            self._ingest(frame, batch_id)
        except Exception as error:
            self._raised = error
            raise
        finally:
            self._backpressure.is_empty(self.name, listening=True)

    def _ingest(self, frame: DataFrame, batch_id: int) -> None:
        shown_ns = CLOCK.now_ns()
        self._backpressure.wait(self._stopping)
        self._store.wait()
        offsets = self._offsets(batch_id)
        records = None if self.position is None else self.position.records_to(offsets)
        expected, stated = self._sizes.expected(frame, records)
        # A micro-batch is not cut: Spark has planned it.
        with self._gate.step(self.name, expected, shown_ns, self._stopping) as step:
            if expected > self._most_bytes and can_be_files(frame.schema):
                took, rows = self._write(in_pieces(frame, step, expected), batch_id, offsets)
            else:
                took, rows = self._collect(frame, batch_id, offsets)
                step.took = took
        self._sizes.learn(took, rows, stated, records)
        if self.position is not None and offsets:
            self.position.read_to(offsets[0])

    def _collect(self, frame: DataFrame, batch_id: int, offsets: list[Any]) -> tuple[int, int]:
        """Through the driver; gives the bytes and rows of the batch."""
        table, malformed = parted(frame.toArrow())
        if malformed:
            self._store.confirm()  # a driver that was replaced must not add to them
        self._dead.keep(self.name, batch_id, malformed, CLOCK.now_ns())
        self._store.append(
            self.name,
            self._checkpoint_id(),
            batch_id,
            offsets,
            table,
            CLOCK.now_ns(),
            listed=self._on_segment,
        )
        return table.nbytes, table.num_rows

    def _write(
        self, pieces: Iterable[DataFrame], batch_id: int, offsets: list[Any]
    ) -> tuple[int, int]:
        """Past the driver; gives the bytes and rows of the batch."""
        arrival_ns, took, rows = CLOCK.now_ns(), 0, 0

        def write(folder: Path, time_column: str | None) -> tuple[Part, ...]:
            nonlocal took, rows
            written = write_files(pieces, folder, time_column, self._sizes.file_rows)
            took, rows = written.footers.bytes, written.footers.rows
            if written.malformed:
                self._store.confirm()
                self._dead.keep_files(
                    self.name, batch_id, written.malformed,
                    lambda aside: write_malformed(written.suspects, aside, arrival_ns),
                )  # fmt: skip
            return written.footers.parts

        self._store.append_files(
            self.name,
            self._checkpoint_id(),
            batch_id,
            offsets,
            write,
            arrival_ns,
            listed=self._on_segment,
        )
        return took, rows

    def _checkpoint_id(self) -> str:
        text = (self._checkpoint / "metadata").read_text(encoding="utf-8")
        return str(json.loads(text)["id"])

    def _offsets(self, batch_id: int) -> list[Any]:
        """The offsets Spark wrote ahead of this batch; the lines before them are not ours."""
        text = (self._checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8")
        return text.splitlines()[2:]


def source_session(spark: SparkSession) -> SparkSession:
    """Gives a source a session of its own, in which files are divided for short tasks."""
    return finely_parted(cloned(spark))


def read_stream(spark: SparkSession, spec: StreamSpec, folder: Path) -> DataFrame:
    """The streaming frame of a declared source; ``ConfigError`` if Spark will not have it."""
    place = f"stream {spec.name!r}"
    if spec.format is None:
        raise ConfigError(place, "has no format", 'give one, such as format = "json"')
    options = resolved(spec.options, place)
    declared, path = options.pop("path", None), source_path(spec, folder)
    if spec.format == KAFKA and path is not None:
        raise ConfigError(place, "a Kafka stream has no path", 'name its topic: subscribe = "..."')
    if path is not None and "://" not in path and not Path(path).exists():
        raise ConfigError(place, f"path {declared!r} does not exist", "create it, or correct it")
    try:
        schema = spec.schema
        if spec.format == KAFKA:
            return kafka_frame(spark, schema, options, place)
        if schema is not None and reads_malformed(spec.format, schema, options):
            schema, options = with_malformed(schema, options)
        reader = spark.readStream.format(spec.format).options(**options)
        if schema is not None:
            reader = reader.schema(schema)
        return reader.load(path) if path is not None else reader.load()
    except (PySparkException, Py4JError) as error:  # not all of Spark's errors have a class here
        raise ConfigError(place, f"Spark refuses it: {_first_line(error)}", "correct it") from None


def source_path(spec: StreamSpec, folder: Path) -> str | None:
    """The path of a source as Spark is given it, if it has one: a URI, or an absolute one."""
    path = resolved(spec.options, f"stream {spec.name!r}").get("path")
    return path if path is None or "://" in path else str((folder / path).resolve())


def stream_schema(spark: SparkSession, spec: StreamSpec, folder: Path) -> StructType:
    """The columns of a stream, as declared or as its source has them.

    All may be NULL: what a source promises, its rows need not keep.
    """
    if spec.format == KAFKA:
        check_source(spec)
    columns = read_stream(spark, spec, folder).schema
    schema = StructType([_nullable(f) for f in columns.fields if f.name != MALFORMED])
    place = f"stream {spec.name!r}"
    if spec.time is not None and spec.time not in schema.names:
        raise ConfigError(
            place,
            f"time = {spec.time!r} is not one of its columns",
            f"choose from {', '.join(schema.names)}",
        )
    for field in schema.fields:
        if not _fits_arrow(field.dataType):
            raise ConfigError(
                place,
                f"column {field.name!r} is of type {field.dataType.simpleString()}, which a "
                "segment cannot hold",
                "declare it as a STRING, or leave it out of the schema",
            )
    return schema


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, _all_nullable(field.dataType), True, field.metadata)


def _all_nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([_nullable(field) for field in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_all_nullable(kind.elementType), True)
    if isinstance(kind, MapType):
        return MapType(_all_nullable(kind.keyType), _all_nullable(kind.valueType), True)
    return kind


def _fits_arrow(kind: DataType) -> bool:
    """Whether PySpark can hand over such values, NULL among them, as Arrow."""
    if isinstance(kind, StructType):
        return all(_fits_arrow(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _fits_arrow(kind.elementType)
    if isinstance(kind, MapType):
        return _fits_arrow(kind.keyType) and _fits_arrow(kind.valueType)
    if kind.typeName() in _COMPOSED:
        return False
    try:
        to_arrow_type(kind, timezone="UTC")
    except PySparkException:
        return False
    return True


def _first_line(error: Exception) -> str:
    in_java = getattr(error, "java_exception", None)
    text = str(error) if in_java is None else str(in_java.getMessage())
    return text.strip().split("\n")[0]
