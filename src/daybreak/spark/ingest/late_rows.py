"""Rows that came after their window had closed: counted, and kept aside.

``RUN/late/QUERY/STREAM-SEGMENT.parquet`` holds the rows of one segment that missed a window of one
query, with their arrival stamp. What a file holds follows from the log, so it is written later than
its segment, once a second: the log remembers how far that has come, and keeps the segment so long.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import file_name, make_folder, rows_kept, write_durably
from daybreak.spark.log.event_clock import instants, is_timed
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.log.segments import Segment, SegmentStore


class _Late(NamedTuple):
    """A segment with rows that are late for a query."""

    query: str
    windowing: Windowing
    segment: Segment


class LateRows:
    """The late rows of all window queries of a run. Methods may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        store: SegmentStore,
        log: CommitLog,
        queries: Mapping[str, Windowing],
    ) -> None:
        """Looks through what the log keeps: a crash may have come before the files."""
        self.folder = folder
        self._store = store
        self._log = log
        self._queries = dict(queries)
        self._guard = threading.Lock()
        self._writing = threading.Lock()
        #: In order of their segments, by stream.
        self._waiting: deque[_Late] = deque()
        #: Up to where each query's late rows of a stream are written, by the log.
        self._written: dict[tuple[str, str], int] = {}
        self.counts = {name: rows_kept(folder / file_name(name)) for name in queries}
        written, cursors = log.late_rows_written(), log.cursors()
        #: Behind the newest segment of each stream that was looked at.
        self._looked: dict[str, int] = {}
        for name, windowing in queries.items():
            for stream in windowing.times:
                self._looked[stream] = store.end(stream).seq
                begin = written.get((name, stream), cursors[name, stream].seq)
                self._written[name, stream] = begin
                for segment in store.segments(stream):
                    if segment.seq >= begin:
                        self._look(name, windowing, segment)
        self.write()

    def adopt(self, name: str, windowing: Windowing) -> None:
        """One more query over windows, from the next segment on; the log knows it already."""
        self.counts[name] = rows_kept(self.folder / file_name(name))
        begin = {(name, stream): self._store.end(stream).seq for stream in windowing.times}
        self._log.note_late_rows(begin)
        with self._guard:
            self._written |= begin
            self._queries = {**self._queries, name: windowing}

    def drop(self, name: str) -> None:
        """A query is gone: nothing is late for it any more. What was stays, and is counted."""
        with self._guard:
            self._queries = {query: w for query, w in self._queries.items() if query != name}
            self._written = {key: seq for key, seq in self._written.items() if key[0] != name}

    def look(self, segment: Segment) -> None:
        """A new segment is listed. This writes nothing: it is called by the thread of a source."""
        for name, windowing in self._queries.items():
            if segment.stream in windowing.times:
                self._look(name, windowing, segment)
        with self._guard:
            self._looked[segment.stream] = segment.seq + 1

    def needed_from(self, stream: str) -> int | None:
        """The first segment of a stream whose late rows are still to be written; None: no one."""
        with self._guard:
            found = (late.segment.seq for late in self._waiting if late.segment.stream == stream)
            return min(found, default=None)

    def write(self) -> None:
        """Writes what has come so far; what fails is written by the next call."""
        with self._writing:
            with self._guard:
                ends = {key: self._looked.get(key[1], 0) for key in self._written}
            if self._waiting:
                self._store.sync()  # what is kept of a segment must not outlive it
            while self._waiting:
                self._write(self._waiting[0])
                with self._guard:
                    self._waiting.popleft()
            with self._guard:
                moved = {key: seq for key, seq in ends.items() if self._written.get(key, seq) < seq}
                self._written |= moved
            if moved:
                self._log.note_late_rows(moved)

    def _look(self, name: str, windowing: Windowing, segment: Segment) -> None:
        low, before = segment.low_us, segment.before_us
        if low is None or before is None or not windowing.late(np.array([low]), before)[0]:
            return
        with self._guard:
            self._waiting.append(_Late(name, windowing, segment))

    def _write(self, late: _Late) -> None:
        segment, windowing = late.segment, late.windowing
        folder = self.folder / file_name(late.query)
        path = folder / f"{file_name(segment.stream)}-{segment.seq}.parquet"
        if path.exists():
            return
        assert segment.before_us is not None
        make_folder(folder)
        pieces = self._pieces(windowing, segment, segment.before_us)
        rows = (_late(piece, windowing, segment, segment.before_us) for piece in pieces)
        self.counts[late.query] += _write(path, (some for some in rows if some.num_rows))

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
