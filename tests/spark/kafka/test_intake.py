"""A topic read directly: rows and schema are those of a StreamingQuery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from examples.kafka.topics import create, write
from tests.spark.ingest.both_sources import assert_same, streamed

from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.dead_letters import MALFORMED
from daybreak.spark.ingest.direct.intake import Intake, IntakeFailed
from daybreak.spark.ingest.stream_source import read_stream

if TYPE_CHECKING:
    from examples.kafka.broker import Broker
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id INT, at TIMESTAMP, st STRUCT<x: DOUBLE>, _key BINARY, _partition INT, _offset BIGINT"
ROWS = 50


def topic(
    spark: SparkSession, broker: Broker, name: str, schema: str | None, **options: str
) -> DataFrame:
    """The streaming frame of a topic with rows and with records that are none."""
    create(spark, broker.servers, name)
    rows = [json.dumps({"id": n, "at": "2026-03-29T01:30:00", "st": {"x": n / 3}})
            for n in range(ROWS)]  # fmt: skip
    write(spark, broker.servers, name, [*rows, '{"id": "x"', None])
    return frame_of(spark, broker, name, schema, **options)


def frame_of(
    spark: SparkSession, broker: Broker, name: str, schema: str | None, **options: str
) -> DataFrame:
    given = {
        "kafka.bootstrap.servers": broker.servers, "subscribe": name,
        "startingOffsets": "earliest", **options,
    }  # fmt: skip
    spec = StreamSpec(name=name, format="kafka", schema=schema, options=given)
    return read_stream(spark, spec, Path())


def in_order(table: pa.Table) -> pa.Table:
    prefix = "_" if "_offset" in table.column_names else ""
    return table.sort_by([(f"{prefix}partition", "ascending"), (f"{prefix}offset", "ascending")])


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_a_topic(spark: SparkSession, broker: Broker, tmp_path: Path, schema: str | None) -> None:
    name = f"intake-{'json' if schema else 'raw'}"
    frame = topic(spark, broker, name, schema, maxOffsetsPerTrigger="20")
    intake = Intake(spark, frame, tmp_path / "source")
    start = intake.initial()
    tables = []
    while (end := intake.latest(start)) is not None:
        tables.append(intake.read_range(start, end))
        assert_same(tables[-1], intake.frame_of_range(start, end).toArrow())
        intake.commit(end)
        start = end
    assert len(tables) == 3
    direct = pa.concat_tables(tables)
    assert direct.num_rows == ROWS + 2
    if schema:
        assert direct[MALFORMED].null_count == ROWS
    assert_same(in_order(streamed(frame, tmp_path / "checkpoint")), in_order(direct))
    write(spark, broker.servers, name, ['{"id": 77}'])
    later = Intake(spark, frame, tmp_path / "source")
    end = later.latest(start)
    assert end is not None
    assert later.read_range(start, end).num_rows == 1
    intake.stop()
    later.stop()


@pytest.mark.slow
def test_a_topic_starts_where_it_first_did(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """What came while nobody read is read, since the folder of the source has its start."""
    frame = topic(spark, broker, "intake-latest", SCHEMA, startingOffsets="latest")
    first = Intake(spark, frame, tmp_path / "source")
    start = first.initial()
    assert first.latest(start) is None
    first.stop()
    write(spark, broker.servers, "intake-latest", ['{"id": 1}', '{"id": 2}'])
    second = Intake(spark, frame, tmp_path / "source")
    assert second.initial() == start
    end = second.latest(start)
    assert end is not None
    assert sorted(second.read_range(start, end)["id"].to_pylist()) == [1, 2]
    second.stop()


@pytest.mark.slow
def test_records_that_are_gone_fail_as_a_job_does(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    frame = topic(spark, broker, "intake-gone", SCHEMA)
    intake = Intake(spark, frame, tmp_path / "source")
    start = intake.initial()
    found = json.loads(start)
    beyond = {t: dict.fromkeys(parts, 10000) for t, parts in found.items()}
    with pytest.raises(IntakeFailed, match=r"intake-gone"):
        intake.read_range(json.dumps(beyond), json.dumps(beyond).replace("10000", "10001"))
    end = intake.latest(start)
    assert end is not None
    assert intake.read_range(start, end).num_rows == ROWS + 2, "it goes on"
    intake.stop()
