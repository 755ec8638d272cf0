"""The feed: committed segments as Parquet files, for the streaming queries that read them.

A stream is ingested once, however many queries read it: ``feed/STREAM/SEQ-ROW.parquet`` is written
when the first of them takes those rows and removed when the last has passed them. A large segment
is taken in several pieces; each has a file, named by its first row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.durable import file_name, make_folder, write_durably
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL

#: Files that nobody needs are removed this often.
TIDY_S = 1.0


class Feed:
    """The files of one run. Methods may be called from any thread."""

    def __init__(self, folder: Path, store: SegmentStore) -> None:
        self.folder = folder
        self._store = store
        #: Held while a query has chosen files and no step names them yet: ``tidy`` must not come
        #: between.
        self.choosing = threading.RLock()
        self._tidied_s = 0.0

    def files(self, taken: Sequence[Waiting]) -> dict[str, list[str]]:
        """The files of what was taken, written where they are not there yet, by stream."""
        found: dict[str, list[str]] = {}
        for item in taken:
            path = self._path(item)
            with self.choosing:
                if not path.exists():
                    self._write(path, item)
            found.setdefault(item.stream, []).append(str(path))
        return found

    def _write(self, path: Path, item: Waiting) -> None:
        make_folder(path.parent)
        rows = self._store.read([item]).drop_columns([ARRIVAL])
        write_durably(path, lambda out: pq.write_table(rows, out))

    def _path(self, item: Waiting) -> Path:
        name = f"{item.seq:012d}-{item.row:012d}.parquet"
        return self.folder / file_name(item.stream) / name

    def is_untidy(self) -> bool:
        """Whether it is time to look for files that nobody needs; True for one caller."""
        with self.choosing:
            due = time.monotonic() >= self._tidied_s + TIDY_S
            if due:
                self._tidied_s = time.monotonic()
            return due

    def tidy(self, needed_from: Mapping[str, int], named: Iterable[str]) -> None:
        """Removes files before the first segment that is needed and that no step names."""
        kept = set(named)
        first = {file_name(stream): seq for stream, seq in needed_from.items()}
        with self.choosing:
            for path in self.folder.glob("*/*.parquet"):
                seq = first.get(path.parent.name)
                passed = seq is None or path.name < f"{seq:012d}"
                if passed and str(path) not in kept:
                    with suppress(OSError):
                        path.unlink()
