"""Where the rows of segments are: in the commit log, in a file, in a folder of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from daybreak.model import ConfigError
from daybreak.spark.log import large_segments as large
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.data_store import DataStore
from daybreak.spark.log.durable import make_folder, write_durably
from daybreak.spark.log.rows import Part, SegmentRow
from daybreak.spark.log.tables import ARRIVAL

#: Given a fresh folder and the column with the event time, writes the files of a segment.
WriteParts = Callable[[Path, str | None], tuple[Part, ...]]

T = TypeVar("T")


class SegmentFiles:
    """Reads and writes the rows of segments, and finds what is damaged."""

    def __init__(self, folder: Path, data: DataStore, log: CommitLog) -> None:
        self.folder = folder
        self._data = data
        self._log = log

    def check(self, segments: Iterable[SegmentRow]) -> None:
        """Nothing is begun on a log with a hole in it; what the log does not list is removed."""
        listed = set()
        for segment in segments:
            listed.add(segment.file.rstrip("/"))
            finding = self._finding(segment)
            if finding is not None:
                path = str(self.folder / segment.file)
                raise ConfigError(path, finding, "restore it, or choose a new run directory")
        self._remove_others(listed)

    def _finding(self, segment: SegmentRow) -> str | None:
        """What is wrong with the files of a segment."""
        if segment.file.endswith("/"):
            return large.check_files(self.folder, segment)
        if not segment.file:
            return None
        path = self.folder / segment.file
        if not path.is_file():
            return "is missing"
        found = path.stat().st_size
        return None if found == segment.bytes else f"has {found} bytes, not {segment.bytes}"

    def _remove_others(self, listed: set[str]) -> None:
        """A crash between a file and its row in the log leaves the file; its batch comes again."""
        found = list(self.folder.glob("*/*"))
        if found and self._log.run == 1:
            raise ConfigError(
                str(self.folder),
                "holds segments, but the commit log is new: state.db was removed or replaced",
                "restore it, or choose a new run directory",
            )
        for path in found:
            if path.relative_to(self.folder).as_posix() not in listed:
                large.remove(path)

    def write(self, file: str, table: pa.Table) -> int:
        """Its size. Waits for a store that is out of reach."""
        path = self.folder / file
        while True:
            self._data.wait()
            try:
                make_folder(path.parent)
                return write_durably(path, lambda out: write_segment(table, out))
            except OSError:
                if self._data.trouble() is None:
                    raise

    def write_parts(self, file: str, write: WriteParts, time: str | None) -> tuple[Part, ...]:
        """The files of a large segment; without any, its folder is removed."""
        folder = self.folder / file
        self._data.wait()
        make_folder(folder.parent)
        parts: tuple[Part, ...] = ()
        try:
            parts = write(folder, time)
        finally:
            if not parts:
                large.remove(folder)
        return parts

    def read(self, segment: SegmentRow) -> pa.Table:
        """``ConfigError`` if what was made durable cannot be read as it was."""
        table = self.readable(segment, self._load)
        if table.num_rows != segment.rows or ARRIVAL not in table.column_names:
            raise _damaged(segment, f"{table.num_rows} rows, not {segment.rows}")
        return table

    def schema(self, segment: SegmentRow) -> pa.Schema:
        """Of its rows; ``ConfigError`` if it cannot be read."""
        return self.readable(segment, self._schema_of)

    def readable(self, segment: SegmentRow, read: Callable[[SegmentRow], T]) -> T:
        """What ``read`` gives; ``ConfigError`` if the segment is damaged."""
        try:
            return read(segment)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _damaged(segment, str(error).splitlines()[0]) from error

    def remove(self, file: str) -> None:
        large.remove(self.folder / file)

    def _load(self, segment: SegmentRow) -> pa.Table:
        if segment.parts:
            return large.load(self.folder, segment)
        if not segment.file:
            return pa.ipc.open_stream(self._log.segment_content(segment)).read_all()
        return pq.read_table(self.folder / segment.file, partitioning=None)

    def _schema_of(self, segment: SegmentRow) -> pa.Schema:
        if not segment.file:
            return pa.ipc.open_stream(self._log.segment_content(segment)).schema
        if segment.parts:
            return large.tail(self.folder, segment).schema
        return pq.read_schema(self.folder / segment.file)


def write_segment(table: pa.Table, out: BinaryIO) -> None:
    """Segments are short-lived and read as a whole: what makes files smaller costs more here.

    With one exception. Differences between whole numbers are packed into the bits they need, which
    takes less time than compressing the numbers themselves (benchmarks/segments.py).
    """
    packed = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if _is_packed(f)}
    pq.write_table(
        table, out, use_dictionary=False, write_statistics=False, column_encoding=packed or None
    )


def _is_packed(field: pa.Field) -> bool:
    """Of a name with a dot, it is not clear which column is meant."""
    numbers = kinds.is_integer, kinds.is_timestamp, kinds.is_date32
    return "." not in field.name and any(is_one(field.type) for is_one in numbers)


def _damaged(segment: SegmentRow, finding: str) -> ConfigError:
    return ConfigError(
        f"stream {segment.stream!r}",
        f"segment {segment.seq} is damaged ({finding})",
        "restore it, or choose a new run directory",
    )
