"""The feed: committed segments as Parquet files, for the streaming queries that read them.

A stream is ingested once, however many queries read it: ``feed/STREAM/SEQ.parquet`` is written when
the first of them takes the segment and removed when the last has passed it.
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
        self._guard = threading.Lock()
        self._tidied_s = 0.0

    def files(self, taken: Sequence[Waiting]) -> dict[str, list[str]]:
        """The files of whole segments, written where they are not there yet, by stream."""
        found: dict[str, list[str]] = {}
        for item in taken:
            path = self._path(item.stream, item.seq)
            with self._guard:
                if not path.exists():
                    self._write(path, item)
            found.setdefault(item.stream, []).append(str(path))
        return found

    def _write(self, path: Path, item: Waiting) -> None:
        make_folder(path.parent)
        rows = self._store.read([item]).drop_columns([ARRIVAL])
        write_durably(path, lambda out: pq.write_table(rows, out))

    def _path(self, stream: str, seq: int) -> Path:
        return self.folder / file_name(stream) / f"{seq:012d}.parquet"

    def is_untidy(self) -> bool:
        """Whether it is time to look for files that nobody needs; True for one caller."""
        with self._guard:
            due = time.monotonic() >= self._tidied_s + TIDY_S
            if due:
                self._tidied_s = time.monotonic()
            return due

    def tidy(self, needed_from: Mapping[str, int], named: Iterable[str]) -> None:
        """Removes files before the first segment that is needed and that no step names."""
        kept = set(named)
        first = {file_name(stream): seq for stream, seq in needed_from.items()}
        with self._guard:
            for path in self.folder.glob("*/*.parquet"):
                seq = first.get(path.parent.name)
                passed = seq is None or path.name < f"{seq:012d}.parquet"
                if passed and str(path) not in kept:
                    with suppress(OSError):
                        path.unlink()
