"""When each row became visible in its sink, read afterwards from the files' own change times.

Renaming a file sets its change time (``ctime``), so a file that is written aside and renamed
into place carries the moment it appeared; nothing has to poll while the sides are measured.
Structured Streaming's file sink writes files in place, and a reader counts those that
``_spark_metadata`` lists: there the moment is the change time of the entry that lists the file.
The kernel stamps in steps of at most 10 ms.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pyarrow.parquet as pq
from benchmarks.versus.workload import Filter
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class Delivered:
    """All rows that have arrived, by query; ``look`` takes in what is new."""

    def __init__(self, output: Path, queries: Sequence[Filter]) -> None:
        self._output = output
        self._queries = queries
        self._seen: set[Path] = set()
        self._parts: dict[str, list[tuple[Ints, Ints, Ints]]] = {q.name: [] for q in queries}
        self.rows = 0
        #: When the last of them became visible.
        self.last_us = 0

    def look(self) -> int:
        """Reads files that have appeared since; returns how many rows there are in all."""
        for query in self._queries:
            for path, at_us in visible_files(self._output / query.name).items():
                if path not in self._seen:
                    self._seen.add(path)
                    self._read(query.name, path, at_us)
        return self.rows

    @property
    def files(self) -> int:
        return len(self._seen)

    def of(self, query: str) -> tuple[Ints, Ints, Ints]:
        """Ids, creation and visibility (µs) of a query's rows, in order of visibility."""
        parts = self._parts[query]
        if not parts:
            none = np.zeros(0, dtype=np.int64)
            return none, none, none
        ids, created, seen = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(seen, kind="stable")
        return ids[order], created[order], seen[order]

    def _read(self, query: str, path: Path, at_us: int) -> None:
        table = pq.ParquetFile(path).read(columns=["id", "created_us"])
        ids, created = table["id"].to_numpy(), table["created_us"].to_numpy()
        self._parts[query].append((ids, created, np.full(len(ids), at_us, dtype=np.int64)))
        self.rows += len(ids)
        self.last_us = max(self.last_us, at_us)


def visible_files(folder: Path) -> dict[Path, int]:
    """Result files of a sink and since when (µs) a reader sees each."""
    log = folder / "_spark_metadata"
    if log.is_dir():
        return _listed(log)
    if not folder.is_dir():
        return {}
    return {
        path: path.stat().st_ctime_ns // 1000
        for path in folder.glob("*.parquet")
        if not path.name.startswith(("_", "."))
    }


def _listed(log: Path) -> dict[Path, int]:
    """Files by the first entry that lists them; compacted entries repeat older ones."""
    found: dict[Path, int] = {}
    entries = [path for path in log.iterdir() if path.name.split(".")[0].isdigit()]
    for entry in sorted(entries, key=lambda path: int(path.name.split(".")[0])):
        at_us = entry.stat().st_ctime_ns // 1000
        for line in entry.read_text(encoding="utf-8").splitlines()[1:]:
            path = Path(unquote(urlparse(json.loads(line)["path"]).path))
            found.setdefault(path, at_us)
    return found
