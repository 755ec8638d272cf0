"""Streams as they are declared: their schemas and event times, found with Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from daybreak.model.errors import Findings
from daybreak.model.specs import StreamSpec, ViewSpec
from daybreak.spark.ingest.generator import FORMAT as GENERATOR
from daybreak.spark.ingest.generator import generator_schema
from daybreak.spark.ingest.stream_source import stream_schema
from daybreak.spark.log.durable import refuse_long_name
from daybreak.spark.log.event_time import duration_us
from daybreak.spark.sinks.views import box_name
from daybreak.spark.sql.windows.check import event_times


def read_streams(
    spark: SparkSession,
    streams: Mapping[str, StreamSpec],
    views: Iterable[ViewSpec],
    folder: Path,
    found: Findings,
) -> tuple[dict[str, StructType], dict[str, str]]:
    """Schemas and event times of the streams that can be read."""
    schemas: dict[str, StructType] = {}
    times: dict[str, str] = {}
    for name, spec in streams.items():
        place = f"stream {name!r}"
        with found.gathering():
            duration_us(spec.trigger, place, "trigger")
        with found.gathering():
            refuse_long_name(name, place)
            schemas[name] = _schema(spark, spec, folder)
        if name in schemas:
            with found.gathering():
                times |= event_times({name: spec}, schemas)
    for view in views:
        with found.gathering():
            refuse_long_name(box_name(view.name), view.place)
    return schemas, times


def _schema(spark: SparkSession, spec: StreamSpec, folder: Path) -> StructType:
    if spec.format == GENERATOR:
        return generator_schema(spec)
    return stream_schema(spark, spec, folder)
