"""Frames over large segments, which executors read from the segments' files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # its usual name
from pyspark.sql.types import StructType

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.hadoop_names import to_read
from daybreak.spark.log.large_segments import FileRows
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sql.composite import quoted


class SegmentFrames:
    """Makes frames in one worker's session."""

    def __init__(
        self, session: SparkSession, schemas: Mapping[str, StructType], store: SegmentStore
    ) -> None:
        self.session = session
        self._schemas = schemas
        self._store = store

    def frame(self, stream: str, taken: Sequence[Waiting]) -> DataFrame:
        """The rows that were taken of a stream."""
        present = [i for i in taken if self._store.is_as_declared(stream, i.seq)]
        older = [i for i in taken if i not in present]
        frames = [self._read(stream, self._store.files(present), declared=True)] if present else []
        frames += [self._read(stream, self._store.files([i]), declared=False) for i in older]
        return self.union(self._schemas[stream], [frame for some in frames for frame in some])

    def union(self, schema: StructType, frames: Sequence[DataFrame]) -> DataFrame:
        """The rows of all frames; an empty one of this schema if there are none."""
        if not frames:
            return self.session.createDataFrame([], schema)
        result = frames[0]
        for frame in frames[1:]:
            result = result.union(frame)
        return result

    def _read(self, stream: str, files: Sequence[FileRows], *, declared: bool) -> list[DataFrame]:
        """Rows of files, those of an older schema as the present one."""
        schema, reader = self._schemas[stream], self.session.read
        if declared:
            reader = reader.schema(schema)
        whole = [to_read(file.path) for file in files if file.whole]
        frames = [reader.parquet(*whole)] if whole else []
        for file in files:
            if not file.whole:
                frame = reader.parquet(to_read(file.path))
                at = frame.metadataColumn("_metadata")["row_index"]
                frames.append(frame.where((at >= file.first) & (at < file.first + file.rows)))
        return frames if declared else [widened_frame(frame, schema) for frame in frames]


def whole(stream: str, taken: Sequence[Waiting]) -> Callable[[SegmentFrames], DataFrame]:
    """Reads, in any worker's session, what was taken of a stream."""
    return lambda frames: frames.frame(stream, taken)


def widened_frame(frame: DataFrame, schema: StructType) -> DataFrame:
    """Rows of an older schema as the present one, where that was found to lose nothing."""
    return frame.select(
        *(
            (F.col(quoted(f.name)) if f.name in frame.columns else F.lit(None))
            .cast(f.dataType)
            .alias(f.name)
            for f in schema.fields
        )
    )
