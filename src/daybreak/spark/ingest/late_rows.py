"""Rows that came after their window had closed: counted, and kept aside.

``RUN/late/QUERY/STREAM-SEGMENT.parquet`` holds the rows of one segment that missed a window of one
query, with their arrival stamp. What a file holds follows from the log, so writing it again after
a crash changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.log.durable import file_name, make_folder, rows_kept, write_durably
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import Segment, SegmentStore


class LateRows:
    """The late rows of all window queries of a run. Methods may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        store: SegmentStore,
        queries: Mapping[str, Windowing],
        cursors: Mapping[tuple[str, str], Cursor],
    ) -> None:
        """Looks through what is kept of the log: a crash may have come before the files."""
        self.folder = folder
        self._store = store
        self._queries = dict(queries)
        self._guard = threading.Lock()
        self.counts = {name: rows_kept(folder / file_name(name)) for name in queries}
        for name, windowing in queries.items():
            for stream in windowing.times:
                for segment in store.segments(stream):
                    if segment.seq >= cursors[name, stream].seq:
                        self._look(name, windowing, segment)

    def adopt(self, name: str, windowing: Windowing) -> None:
        """One more query over windows, from the next segment on."""
        self.counts[name] = rows_kept(self.folder / file_name(name))
        self._queries = {**self._queries, name: windowing}

    def drop(self, name: str) -> None:
        """A query is gone: nothing is late for it any more. What was stays, and is counted."""
        self._queries = {query: w for query, w in self._queries.items() if query != name}

    def look(self, segment: Segment) -> None:
        """A new segment is listed."""
        for name, windowing in self._queries.items():
            if segment.stream in windowing.times:
                self._look(name, windowing, segment)

    def _look(self, name: str, windowing: Windowing, segment: Segment) -> None:
        low, before = segment.low_us, segment.before_us
        if low is None or before is None or not windowing.late(np.array([low]), before)[0]:
            return
        path = self.folder / file_name(name) / f"{file_name(segment.stream)}-{segment.seq}.parquet"
        with self._guard:
            if path.exists():
                return
            self._store.sync()  # what is kept of a segment must not outlive it
            make_folder(path.parent)
            pieces = self._pieces(windowing, segment, before)
            late = (_late(rows, windowing, segment, before) for rows in pieces)
            self.counts[name] += _write(path, (rows for rows in late if rows.num_rows))

    def _pieces(self, windowing: Windowing, segment: Segment, before_us: int) -> Iterable[pa.Table]:
        """All rows that may be late, a large segment's a piece at a time."""
        if not segment.parts:
            return [self._store.table(segment)]
        lows = [(part, part.low_us) for part in segment.parts if part.low_us is not None]
        late = [part for part, low in lows if windowing.late(np.array([low]), before_us)[0]]
        return self._store.pieces(segment, late)


def _late(table: pa.Table, windowing: Windowing, segment: Segment, before_us: int) -> pa.Table:
    column = table[windowing.times[segment.stream]]
    late = windowing.late(instants(column), before_us)
    return table.filter(pa.array(late & is_timed(column)))


def _write(path: Path, tables: Iterable[pa.Table]) -> int:
    """One file of them all, durable; gives the number of rows."""
    rows = 0

    def write(out: BinaryIO) -> None:
        nonlocal rows
        writer: pq.ParquetWriter | None = None
        for table in tables:
            writer = writer or pq.ParquetWriter(out, table.schema)
            writer.write_table(table)
            rows += table.num_rows
        if writer is not None:
            writer.close()

    write_durably(path, write)
    return rows
