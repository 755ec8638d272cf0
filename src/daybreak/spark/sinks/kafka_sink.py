"""Topics as sinks: a row is a record, its value one JSON object. At least once.

After a crash the records of the last deliveries may come again. Their headers identify the row,
the job and the query, the same both times; and unless the declaration chooses a
column, so does the record's key, so that a compacted topic ends up with each row once.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark import SparkContext

from daybreak.model.errors import ConfigError, suggestion
from daybreak.spark.kafka.cluster import check_topics
from daybreak.spark.kafka.options import client_options, servers
from daybreak.spark.sinks.kafka_producer import Producer, Record
from daybreak.spark.sinks.refusals import refuse_no_text, refuse_null_keys
from daybreak.spark.sinks.text_formats import plain_rows, write_json_lines

#: Settings of ours: without them a row could be lost or not be recognised.
_FIXED = ("key.serializer", "value.serializer", "transactional.id")

_guard = threading.Lock()
#: Sinks with the same options share a producer, also those of later runs of this process.
_producers: dict[tuple[tuple[str, str], ...], Producer] = {}


def kafka_writer(
    options: Mapping[str, str], place: str, columns: Sequence[str] = ()
) -> Callable[[pa.Table, str], None]:
    """What brings the rows of a job to a topic. ``ConfigError`` unless it can be written to.

    ``columns``: those of the query, where they are known.
    """
    topic, key = options.get("topic", "").strip(), options.get("key")
    if not topic:
        raise ConfigError(place, "sink: option topic is missing", 'give it: topic = "alerts"')
    for name in client_options(options):
        if name in _FIXED:
            raise ConfigError(place, f"sink: kafka.{name} is not yours to set", "leave it out")
    if key is not None and columns and key not in columns:
        raise ConfigError(
            place, f"sink: key {key!r} is not one of its columns", suggestion(key, columns)
        )
    servers(options, place)
    if SparkContext._active_spark_context is not None:
        check_topics(options, [topic], place)
    producer = _shared(options, place)

    def write(table: pa.Table, delivery: str) -> None:
        job, _, query = delivery.partition("/")
        producer.send(topic, records(table, delivery, key), query, job)

    return write


def refuse_unsendable(rows: pa.Table, key: Sequence[str]) -> None:
    """``ValueError`` if a row can be no record; ``key``: the column by which records replace."""
    refuse_null_keys(rows, key)
    refuse_no_text(rows)


def records(table: pa.Table, delivery: str, key: str | None) -> list[Record]:
    """The rows of a delivery as records; ``key`` names the column that becomes their key."""
    lines = io.BytesIO()
    write_json_lines(table, lines)
    values = lines.getvalue().splitlines()
    if key is None:
        keys: list[bytes | None] = [f"{delivery}/{row}".encode() for row in range(len(values))]
    else:
        keys = [_text(row[key]) for row in plain_rows(table.select([key]))]
    return [Record(key, value) for key, value in zip(keys, values, strict=True)]


def _text(value: object) -> bytes | None:
    """As the record's value writes it, without quotes."""
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def _shared(options: Mapping[str, str], place: str) -> Producer:
    which = tuple(sorted(client_options(options).items()))
    with _guard:
        if which not in _producers:
            _producers[which] = Producer(options, place)
        return _producers[which]
