"""The record of a run while it runs: every arrival and every job, in parts of bounded size.

Replays need them beside the report. A series is a folder such as ``outputs.parquet`` with numbered
Parquet files; whatever reads Parquet reads the folder as one table. Small parts are put together
now and then, so there are never many, and the oldest go first.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daybreak.runtime.starts import earlier_starts, keep_earlier_start

ARRIVALS_FILE = "arrivals.parquet"
JOBS_FILE = "jobs.parquet"
JOURNAL_FILE = "journal.parquet"


def _columns(*names: str) -> dict[str, list[Any]]:
    return {name: [] for name in names}


@dataclass
class Recorder:
    """Columns that grow until they are taken, and become parts of two Parquet series."""

    _arrivals: dict[str, list[Any]] = field(
        default_factory=lambda: _columns("stream", "at_ns", "tuples")
    )
    _jobs: dict[str, list[Any]] = field(
        default_factory=lambda: _columns(
            "query", "committed_ns", "tuples", "rows", "cost_ns", "together"
        )
    )

    def arrived(self, stream: str, at_ns: int, tuples: int) -> None:
        """``at_ns`` since the start of the run, as everywhere in a report."""
        for column, value in zip(self._arrivals.values(), (stream, at_ns, tuples), strict=True):
            column.append(value)

    def ran(
        self, query: str, committed_ns: int, tuples: int, rows: int, cost_ns: int, together: int
    ) -> None:
        """A query's share of a job that ran so many queries together."""
        values = (query, committed_ns, tuples, rows, cost_ns, together)
        for column, value in zip(self._jobs.values(), values, strict=True):
            column.append(value)

    def take(self) -> dict[str, Any]:
        """What was recorded since the last call, as Arrow tables by series."""
        import pyarrow as pa

        tables = {}
        for columns, file in ((self._arrivals, ARRIVALS_FILE), (self._jobs, JOBS_FILE)):
            kinds = [(n, pa.string() if n in ("stream", "query") else pa.int64()) for n in columns]
            tables[file] = pa.table(columns, schema=pa.schema(kinds))
            for column in columns.values():
                column.clear()
        return tables


#: More parts than this in one series are put together.
MOST_PARTS = 60
#: Parts above this size stay as they are.
LARGE_BYTES = 2**23
#: The lines of a journal repeat each other: zstd makes them a third of what snappy does.
COMPRESSION = {JOURNAL_FILE: "zstd"}
#: Tables that wait to be written, at most: beyond, the oldest is given up.
MOST_WAITING = 60


class RecordParts:
    """The series of one run. ``add`` by one thread, ``write`` by one other."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        """Keeps the record of an earlier start aside, see `starts`."""
        self.folder = folder
        self._max_bytes = max_bytes
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MOST_WAITING)
        self._next: dict[str, int] = {}
        #: Parts of this start that were removed to make room for newer ones.
        self.dropped = 0
        keep_earlier_start(folder)

    def add(self, tables: Mapping[str, Any]) -> None:
        """Hands over one part of each series, an Arrow table by the series' name."""
        self._waiting.append(dict(tables))

    @property
    def waiting(self) -> bool:
        """Whether there is something to write."""
        return bool(self._waiting)

    def write(self) -> None:
        """Writes what waits; what cannot be written waits on."""
        while self._waiting:
            tables = self._waiting[0]
            for name in list(tables):
                if tables[name].num_rows or name not in self._next:
                    self._write(name, tables[name])
                del tables[name]  # written: if there is no room for the next one, it is not again
            self._waiting.popleft()
        for name in self._next:
            self._join_small(name)
        self._make_room()

    def tables(self) -> dict[str, Any]:
        """Every series so far, as written and as it waits, for a disk that takes no more."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        found: dict[str, list[Any]] = {}
        for name in self._next:
            found[name] = [pq.read_table(p, partitioning=None) for p in self._parts(name)]
        for tables in self._waiting:
            for name, table in tables.items():
                found.setdefault(name, []).append(table)
        return {
            name: pa.concat_tables([t.unify_dictionaries() for t in parts])
            for name, parts in found.items()
            if parts
        }

    def _write(self, name: str, table: Any, instead_of: Sequence[Path] = ()) -> None:
        """``instead_of``: parts that go once there was room for this one."""
        import pyarrow.parquet as pq

        series = self.folder / name
        series.mkdir(parents=True, exist_ok=True)
        number = self._next.get(name, 0)
        partial = series / f".{number:08d}.partial"
        pq.write_table(table, partial, compression=COMPRESSION.get(name, "snappy"))
        # Before it counts: after a crash a stretch may be missing, but nothing counts twice.
        for part in instead_of:
            part.unlink()
        partial.replace(series / f"{number:08d}.parquet")
        self._next[name] = number + 1

    def _join_small(self, name: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self._parts(name)
        small = [p for p in parts if p.stat().st_size < LARGE_BYTES]
        if len(parts) <= MOST_PARTS or len(small) < 2:
            return
        tables = [pq.read_table(p, partitioning=None) for p in small]
        joined = pa.concat_tables([t.unify_dictionaries() for t in tables])
        self._write(name, joined, instead_of=small)

    def _make_room(self) -> None:
        sizes = {p: p.stat().st_size for name in self._next for p in self._parts(name)}
        over = sum(sizes.values()) - self._max_bytes
        earlier = {start: _bytes_of(start) for start in earlier_starts(self.folder)}
        over += sum(earlier.values())
        for start, size in earlier.items():
            if over <= 0:
                return
            over -= size
            shutil.rmtree(start)
        for part in sorted(sizes, key=_goes):
            if over <= 0:
                break
            if part == self._parts(part.parent.name)[-1]:
                continue  # of every series something stays
            over -= sizes[part]
            part.unlink()
            self.dropped += 1

    def _parts(self, name: str) -> list[Path]:
        return sorted((self.folder / name).glob("*.parquet"))


def _goes(part: Path) -> tuple[bool, str, str]:
    """Orders parts by when they go: the journal first, which is the largest and only for replays
    of decisions; then the oldest of every series."""
    series = part.parent.name
    return series != JOURNAL_FILE, part.name, series


def _bytes_of(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
