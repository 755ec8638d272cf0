"""Rows that came after their window had closed: counted, and kept aside.

``RUN/late/QUERY/STREAM-SEGMENT.parquet`` holds the rows of one segment that missed a window of one
query, with their arrival stamp. What a file holds follows from the log, so writing it again after
a crash changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.event_time import NEVER, Windowing
from daybreak.spark.log.durable import file_name, make_folder, rows_kept, write_durably
from daybreak.spark.log.event_clock import instants
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

    def look(self, segment: Segment) -> None:
        """A new segment is listed."""
        for name, windowing in self._queries.items():
            if segment.stream in windowing.times:
                self._look(name, windowing, segment)

    def _look(self, name: str, windowing: Windowing, segment: Segment) -> None:
        low, before = segment.low_us, segment.before_us
        if low is None or before is None or not windowing.late(np.array([low]), before)[0]:
            return
        table = self._store.table(segment)
        at = instants(table[windowing.times[segment.stream]])
        rows = table.filter(pa.array(windowing.late(at, before) & (at > NEVER)))
        path = self.folder / file_name(name) / f"{file_name(segment.stream)}-{segment.seq}.parquet"
        with self._guard:
            if path.exists():
                return
            self._store.sync()  # what is kept of a segment must not outlive it
            make_folder(path.parent)
            write_durably(path, lambda out: pq.write_table(rows, out))
            self.counts[name] += rows.num_rows
