"""The source of a stream, by its declaration and by the way that is recorded for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from daybreak.model.errors import ConfigError
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.direct.choice import DirectStreams
from daybreak.spark.ingest.direct.intake import NoIntake
from daybreak.spark.ingest.generator import FORMAT as GENERATOR
from daybreak.spark.ingest.generator import GeneratorSource
from daybreak.spark.ingest.parts import IngestParts, StreamWay
from daybreak.spark.ingest.sources import Source
from daybreak.spark.ingest.stream_source import StreamSource
from daybreak.spark.log.rundir import RunDirectory


@dataclass(frozen=True)
class SourceFactory:
    """Makes the source of a stream: once at the start, and again when it has failed."""

    spark: SparkSession
    folder: Path
    streams: Mapping[str, StreamSpec]
    rundir: RunDirectory
    parts: IngestParts
    direct: DirectStreams

    def __call__(self, stream: str) -> Source:
        spec = self.streams[stream]
        if spec.format == GENERATOR:
            return GeneratorSource(
                spec, self.parts.store, self.parts.on_segment, self.parts.backpressure
            )
        known = self.parts.ways.get(stream)
        if known is None and spec.ingest == "spark":
            known = StreamWay("spark", 'ingest = "spark"')
        if known is None or known.way != "spark":
            try:
                source = self.direct.make(spec)
            except NoIntake as reason:
                known = self._without_intake(spec, str(reason))
            else:
                self.parts.ways.setdefault(stream, StreamWay("direct"))
                return source
        self.parts.ways[stream] = known
        self.direct.to_spark(stream)
        return StreamSource(self.spark, spec, self.folder, self.rundir, self.parts)

    def _without_intake(self, spec: StreamSpec, reason: str) -> StreamWay:
        """The way of a stream that cannot be read directly, where that is allowed."""
        place = f"stream {spec.name!r}"
        if spec.name in self.parts.ways:  # at the start it could: no reason to change the way
            raise ConfigError(place, f"cannot be read any more: {reason}", "correct it")
        if spec.ingest == "direct":
            remedy = 'correct it, or declare ingest = "auto"'
            raise ConfigError(place, f"cannot be read directly: {reason}", remedy)
        why = f"a StreamingQuery reads it: {reason}"
        self.parts.emit("ingest-by-spark", why, stream=spec.name)
        return StreamWay("spark", reason)
