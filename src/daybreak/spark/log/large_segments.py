"""Large segments: folders of Parquet files that executors wrote and executors read.

The log's row names the folder and its files with their rows: files that are not named are left over
from an attempt that failed. Every attempt has a folder of its own, so nothing is ever renamed or
written twice. Rows have no arrival stamp, which is the segment's.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.durable import file_name, make_folder, sync_files
from daybreak.spark.log.event_clock import as_us
from daybreak.spark.log.rows import Part, SegmentRow
from daybreak.spark.log.tables import ARRIVAL


@dataclass(frozen=True)
class FileRows:
    """Rows of one file: all of it, or some in the middle."""

    path: Path
    first: int
    rows: int
    whole: bool


@dataclass(frozen=True)
class Footers:
    """What the files of a folder hold, by their own account."""

    parts: tuple[Part, ...]
    rows: int
    #: Uncompressed.
    bytes: int

    def with_those_of(self, others: Footers) -> Footers:
        """These files, then others."""
        return Footers(
            self.parts + others.parts, self.rows + others.rows, self.bytes + others.bytes
        )


def new_folder(stream: str, seq: int, run: int) -> str:
    """The name of a folder for one attempt to write a segment."""
    # With the epoch: what a driver that was replaced still writes is nobody's.
    return f"{file_name(stream)}/{seq:012d}-{run:04d}-{uuid4().hex[:8]}/"


def read_footers(folder: Path, time: str | None = None, besides: Collection[str] = ()) -> Footers:
    """Looks at the end of every file; no row is read.

    ``time``: the column with the event time. ``besides``: names of files that are left out.
    """
    parts, size = [], 0
    for path in sorted(path for path in folder.glob("*.parquet") if path.name not in besides):
        metadata = pq.read_metadata(path)
        if not metadata.num_rows:
            continue
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        size += sum(group.total_byte_size for group in groups)
        low, high = (None, None) if time is None else _times(metadata, groups, time)
        parts.append(Part(path.name, metadata.num_rows, path.stat().st_size, low, high))
    return Footers(tuple(parts), sum(part.rows for part in parts), size)


def adopted(path: Path, folder: Path, time: str | None) -> tuple[Part, ...]:
    """A file that is durable elsewhere, as the one part of a segment.

    Under a second name: a crash before the segment is listed leaves the first one.
    """
    make_folder(folder)
    target = folder / "part.parquet"
    try:
        target.hardlink_to(path)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)
    parts = read_footers(folder, time).parts
    make_durable(folder, parts)
    return parts


def make_durable(folder: Path, parts: Sequence[Part]) -> None:
    sync_files([folder / part.name for part in parts])


def _column(metadata: pq.FileMetaData, name: str) -> int:
    schema = metadata.schema
    return next(i for i in range(len(schema)) if schema.column(i).path == name)


def _times(
    metadata: pq.FileMetaData, groups: Sequence[pq.RowGroupMetaData], time: str
) -> tuple[int | None, int | None]:
    """The range of a column of times; None where all are NULL."""
    at = _column(metadata, time)
    kind = metadata.schema.to_arrow_schema().field(time).type
    found: list[int] = []
    for group in groups:
        known = group.column(at).statistics
        if known is not None and known.has_min_max:
            ends = pa.chunked_array([pa.array([known.min, known.max], kind)])
            found += as_us(ends).to_pylist()
        elif known is None or known.null_count != group.num_rows:
            raise ValueError(f"column {time!r} has no statistics")
    return (min(found), max(found)) if found else (None, None)


def check_files(folder: Path, segment: SegmentRow) -> str | None:
    """What is wrong with the files of a large segment; None: nothing."""
    for part in segment.parts:
        path = folder / segment.file / part.name
        found = path.stat().st_size if path.is_file() else None
        if found != part.bytes:
            missing = "is missing" if found is None else f"has {found} bytes, not {part.bytes}"
            return f"{path} {missing}"
    return None if segment.parts else f"the parts of {folder / segment.file} are not listed"


def remove(path: Path) -> None:
    """A segment's file or folder."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def files_of(folder: Path, segment: SegmentRow, item: Waiting) -> Iterator[FileRows]:
    """The files, and the rows in them, that a range of a large segment consists of."""
    begin, end = 0, item.row + item.tuples
    for part in segment.parts:
        first, last = max(begin, item.row), min(begin + part.rows, end)
        if first < last:
            path = folder / segment.file / part.name
            yield FileRows(path, first - begin, last - first, last - first == part.rows)
        begin += part.rows


def load(folder: Path, segment: SegmentRow) -> pa.Table:
    """All rows of a large segment in the driver's memory, stamped."""
    paths = [folder / segment.file / part.name for part in segment.parts]
    return _stamped(segment, [pq.read_table(path, partitioning=None) for path in paths])


def read_rows(folder: Path, segment: SegmentRow, item: Waiting) -> pa.Table:
    """A range of a large segment in the driver's memory, stamped."""
    return _stamped(
        segment,
        [
            pq.read_table(file.path, partitioning=None).slice(file.first, file.rows)
            for file in files_of(folder, segment, item)
        ],
    )


def tail(folder: Path, segment: SegmentRow) -> pa.Table:
    """The last rows of a large segment, stamped: few compared with all of them."""
    file = pq.ParquetFile(folder / segment.file / segment.parts[-1].name)
    with file:
        return _stamped(segment, [file.read_row_group(file.num_row_groups - 1)])


def scan(folder: Path, segment: SegmentRow, parts: Iterable[Part]) -> Iterator[pa.Table]:
    """The rows of parts of a large segment, stamped, a piece at a time."""
    for part in parts:
        with pq.ParquetFile(folder / segment.file / part.name) as file:
            for batch in file.iter_batches():
                yield _stamped(segment, [pa.Table.from_batches([batch])])


def _stamped(segment: SegmentRow, tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
    stamp = pa.repeat(pa.scalar(segment.arrival_ns, pa.int64()), table.num_rows)
    return table.append_column(pa.field(ARRIVAL, pa.int64(), nullable=False), stamp)
