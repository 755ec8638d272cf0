"""Topics as streams: Spark's own Kafka source, with the records' values as columns.

A stream with a schema is read as JSON: one object a record, and what does not fit goes to the dead
letters. Without a schema its columns are Kafka's: key, value, topic, partition, offset, timestamp.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import StringType, StructField, StructType

from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.dead_letters import MALFORMED
from daybreak.spark.kafka.cluster import check_topics, need_jars
from daybreak.spark.kafka.options import FORMAT, servers, shown_servers, topics

#: Rows of one micro-batch, unless the declaration gives another number: what has piled up while
#: nobody read is taken in pieces that the driver can hold.
ROWS_PER_TRIGGER = "100000"
#: Columns that a schema may name beside those of the value, and what they are in Kafka.
_RECORD = {
    "_key": "key",
    "_topic": "topic",
    "_partition": "partition",
    "_offset": "offset",
    "_timestamp": "timestamp",
}
_JSON = "json."

Positions = dict[str, dict[int, int]]


def kafka_frame(
    spark: SparkSession, schema: str | None, options: Mapping[str, str], place: str
) -> DataFrame:
    """The streaming frame of a topic. Asks no broker; ``ConfigError`` for what it need not ask."""
    servers(options, place)
    topics(options, place)
    need_jars(place)
    given = {"maxOffsetsPerTrigger": ROWS_PER_TRIGGER, **options}
    reading = {k.removeprefix(_JSON): given.pop(k) for k in list(given) if k.startswith(_JSON)}
    frame = spark.readStream.format("kafka").options(**given).load()
    if schema is None:
        return frame
    columns = StructType.fromDDL(schema)
    if not isinstance(columns, StructType):
        raise ConfigError(place, f"schema {schema!r} names no columns", 'give "NAME TYPE, ..."')
    return _parsed(frame, columns, reading)


def check_source(spec: StreamSpec) -> None:
    """``ConfigError`` unless a broker answers and has the stream's topics."""
    place = f"stream {spec.name!r}"
    options = resolved(spec.options, place)
    check_topics(options, topics(options, place), place)


def _parsed(frame: DataFrame, columns: StructType, options: dict[str, str]) -> DataFrame:
    own = [field for field in columns.fields if field.name not in _RECORD]
    fields = StructType([*own, StructField(MALFORMED, StringType())])
    value = F.col("value").cast("string")
    parsed = F.from_json(
        value, fields, {**options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    )
    record = F.struct(*(F.col(name) for name in _RECORD.values()))
    both = frame.select(parsed.alias("value"), record.alias("record"))
    # A record without a value (a tombstone) holds no row: it is kept aside as an empty text.
    malformed = F.when(F.col("value").isNull(), F.lit("")).otherwise(F.col("value")[MALFORMED])
    return both.select(*(_column(field) for field in columns.fields), malformed.alias(MALFORMED))


def _column(field: StructField) -> Column:
    if field.name in _RECORD:
        column = F.col("record")[_RECORD[field.name]].cast(field.dataType)
    else:
        column = F.col("value")[field.name]
    return column.alias(field.name)


def positions(offsets: str) -> Positions:
    """Kafka's offsets as Spark writes them: up to where each partition was read."""
    return {
        topic: {int(partition): int(at) for partition, at in partitions.items()}
        for topic, partitions in json.loads(offsets).items()
    }


class KafkaPosition:
    """How far a source has read. Written by the source's thread, read by any."""

    def __init__(self, options: Mapping[str, str], read: Positions) -> None:
        self.options = options
        self.read = read

    @classmethod
    def of(cls, spec: StreamSpec, checkpoint: Path) -> KafkaPosition | None:
        """None if the stream is not read from Kafka."""
        if spec.format != FORMAT:
            return None
        options = resolved(spec.options, f"stream {spec.name!r}")
        return cls(options, _last_positions(checkpoint))

    @property
    def servers(self) -> str:
        return shown_servers(self.options)

    def records_to(self, offsets: Sequence[str]) -> int:
        """How many records lie between here and the end of a micro-batch."""
        ends = positions(offsets[0]) if offsets else {}
        return sum(
            max(0, end - self.read.get(topic, {}).get(partition, 0))
            for topic, partitions in ends.items()
            for partition, end in partitions.items()
            # From where on the first batch reads a partition, nobody has recorded.
            if partition in self.read.get(topic, {})
        )

    def read_to(self, offsets: str) -> None:
        """Notes a micro-batch; ``offsets`` as Spark wrote them ahead of it."""
        self.read = positions(offsets)


def _last_positions(checkpoint: Path) -> Positions:
    """Up to where an earlier start has read; empty before the first micro-batch."""
    commits = checkpoint / "commits"
    done = [int(p.name) for p in commits.iterdir() if p.name.isdigit()] if commits.is_dir() else []
    if not done:
        return {}
    text = (checkpoint / "offsets" / str(max(done))).read_text(encoding="utf-8")
    return positions(text.splitlines()[2])
