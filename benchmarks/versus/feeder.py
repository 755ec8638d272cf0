"""Feeds the input folder, one small Parquet file every 100 ms renamed into place, or a topic."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.versus.workload import Filter, readings
from numpy.typing import NDArray

if TYPE_CHECKING:
    from benchmarks.versus.topic import Topic

EVERY_S = 0.1
#: Names of one file; file systems bound them (ext4: 65 000).
_NAMES = 10_000


def leave_old_files(folder: Path, files: int) -> None:
    """Files that a source finds at its start, with one row each that no query wants.

    Most are further names of a few: that takes seconds for 100 000, and a source reads each.
    """
    unwanted = readings(0, 1, 0, np.random.default_rng(1))
    cold = pa.array([-1], unwanted.schema.field("temperature").type)
    table = unwanted.set_column(unwanted.schema.names.index("temperature"), "temperature", cold)
    for number in range(files):
        path = folder / f"old-{number:08d}.parquet"
        if number % _NAMES == 0:
            original = path
            pq.write_table(table, path)
        else:
            path.hardlink_to(original)


class Wanted(NamedTuple):
    """Rows that must arrive."""

    ids: NDArray[np.int64]
    created_us: NDArray[np.int64]


class Feeder:
    """Writes rows at a rate and remembers what each query must give for them."""

    def __init__(
        self, folder: Path, rate_per_s: float, queries: Sequence[Filter], servers: str = ""
    ) -> None:
        """``servers``: of Kafka, whose topic is fed in place of the folder."""
        self._topic: Topic | None = None
        if servers:
            from benchmarks.versus.topic import Topic

            self._topic = Topic(servers)
        self._folder = folder
        self._rate_per_s = rate_per_s
        self.queries = queries
        self._rng = np.random.default_rng(1)  # the same rows for every side
        self._tables: list[pa.Table] = []
        self._files = 0
        self.rows = 0
        self.behind_s = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, seconds: float, check: Callable[[], None]) -> None:
        """Feeds for so long; ``check`` is called before every file and may raise."""
        files = round(seconds / EVERY_S)
        self.run_while(lambda written: written < files, check)

    def run_while(self, goes_on: Callable[[int], bool], check: Callable[[], None]) -> None:
        """Feeds until ``goes_on`` says no, which is asked before every file with their number."""
        began = time.monotonic()
        owed = 0.0
        for i in count():
            if not goes_on(i):
                return
            due = began + i * EVERY_S
            time.sleep(max(0.0, due - time.monotonic()))
            self.behind_s = max(self.behind_s, time.monotonic() - due)
            check()
            owed += self._rate_per_s * EVERY_S
            rows = int(owed)
            owed -= rows
            if rows:
                self._write(rows)

    def close(self) -> None:
        if self._topic is not None:
            self._topic.close()

    def burst(self, rows: int, files: int = 10) -> None:
        """Rows as fast as they can be written."""
        for _ in range(files):
            self._write(rows // files)

    def wanted(self, query: Filter, from_us: int = 0, to_us: int = 2**62) -> Wanted:
        """Rows a query must deliver of those created within [from, to)."""
        rows = self._all().filter(pa.array(query.passes(self._all())))
        ids, created = rows["id"].to_numpy(), rows["created_us"].to_numpy()
        inside = (created >= from_us) & (created < to_us)
        return Wanted(ids[inside], created[inside])

    def _all(self) -> pa.Table:
        if len(self._tables) > 1:
            self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        return self._tables[0]

    def _write(self, rows: int) -> None:
        table = readings(self.rows, rows, time.time_ns() // 1000, self._rng)
        if self._topic is not None:
            self._topic.write(table)
        else:
            partial = self._folder / f".{self._files:08d}.partial"  # the source ignores dot files
            pq.write_table(table, partial)
            partial.rename(self._folder / f"{self._files:08d}.parquet")
        self._tables.append(table)
        self._files += 1
        self.rows += rows
