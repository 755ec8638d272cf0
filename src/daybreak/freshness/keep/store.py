"""The mirror on disk: copies, what is known of them, and every visit. One SQLite file.

A visit is one transaction, so a process killed at any moment has either made it or not.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from daybreak.freshness.estimate import Visits
from daybreak.freshness.mirror import Floats
from daybreak.model.errors import ConfigError, NewerFormat

#: Format version of the store, in the header of the SQLite file.
VERSION = 1

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS objects (
  number INTEGER PRIMARY KEY, source TEXT NOT NULL, name TEXT NOT NULL, host TEXT NOT NULL,
  listed INTEGER NOT NULL DEFAULT 1, access REAL NOT NULL DEFAULT 1, rate REAL, frequency REAL,
  version TEXT, content BLOB, visited_s REAL, changed_s REAL, due_s REAL,
  why TEXT NOT NULL DEFAULT 'new', failures INTEGER NOT NULL DEFAULT 0, UNIQUE (source, name));
CREATE INDEX IF NOT EXISTS due ON objects (due_s) WHERE listed AND due_s IS NOT NULL;
CREATE TABLE IF NOT EXISTS visits (
  number INTEGER NOT NULL, at_s REAL NOT NULL, elapsed_s REAL NOT NULL, changed INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS visits_of ON visits (number, at_s);
CREATE TABLE IF NOT EXISTS hosts (host TEXT PRIMARY KEY, free_s REAL NOT NULL, why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value REAL NOT NULL);
PRAGMA user_version = {VERSION};
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One object as the keeper and its status see it."""

    number: int
    source: str
    name: str
    host: str
    access: float
    rate: float | None
    frequency: float | None
    version: str | None
    visited_s: float | None
    changed_s: float | None
    due_s: float | None
    why: str
    failures: int


_ROW = (
    "number, source, name, host, access, rate, frequency, version, visited_s, changed_s, due_s, "
    "why, failures"
)


def _locked(path: Path) -> IO[str]:
    """Holds the mirror for this process; the lock ends with the process, however it ends."""
    lock = path.with_name(path.name + ".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(
            str(path), "another process keeps this mirror", "stop it first"
        ) from error
    return lock


class Store:
    """The state of one mirror. Kept by one process at a time."""

    def __init__(self, path: Path, shared: bool = False) -> None:
        """``shared`` only looks: it may be open beside the process that keeps the mirror."""
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = None if shared else _locked(path)
        try:
            self.db = sqlite3.connect(path, isolation_level=None, timeout=5)
            self._refuse_newer()
            self.db.execute("PRAGMA journal_mode = WAL")
            self.db.execute("PRAGMA synchronous = FULL")
            self.db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigError(
                str(path), f"cannot be used as a mirror's store ({error})", "name another file"
            ) from error

    def _refuse_newer(self) -> None:
        [(version,)] = self.db.execute("PRAGMA user_version").fetchall()
        if version > VERSION:
            self.close()
            raise NewerFormat(
                str(self.path), "mirror format", version, VERSION, otherwise="name another file"
            )

    def close(self) -> None:
        self.db.close()
        if self._lock is not None:
            self._lock.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")

    def list_objects(self, source: str, listed: Iterable[tuple[str, str]]) -> None:
        """Objects of a source (name, host); those it no longer has keep their copy, unvisited."""
        with self.transaction():
            self.db.execute("UPDATE objects SET listed = 0 WHERE source = ?", (source,))
            self.db.executemany(
                "INSERT INTO objects (source, name, host) VALUES (?, ?, ?) "
                "ON CONFLICT (source, name) DO UPDATE SET listed = 1, host = excluded.host",
                ((source, name, host) for name, host in listed),
            )

    def rows(self) -> list[Row]:
        found = self.db.execute(f"SELECT {_ROW} FROM objects WHERE listed ORDER BY number")  # noqa: S608
        return [Row(*values) for values in found]

    def due(self, now_s: float, busy: Collection[str] = ()) -> Row | None:
        """The object longest due whose host may be asked now and is not ``busy``."""
        marks = ", ".join("?" * len(busy))
        found = self.db.execute(
            f"SELECT {_ROW} FROM objects WHERE listed AND due_s <= ? AND host NOT IN ({marks}) "  # noqa: S608
            "AND host NOT IN (SELECT host FROM hosts WHERE free_s > ?) "
            "ORDER BY due_s, number LIMIT 1",
            (now_s, *busy, now_s),
        ).fetchone()
        return Row(*found) if found else None

    def next_due_s(self) -> float | None:
        found = self.db.execute("SELECT min(due_s) FROM objects WHERE listed").fetchone()
        return found[0] if found else None

    def record_visit(
        self,
        row: Row,
        now_s: float,
        version: str,
        content: bytes | None,
        changed: bool,
        due_s: float,
    ) -> None:
        """A visit that learnt something. The first one of an object tells nothing of its rate."""
        self.db.execute(
            "UPDATE objects SET visited_s = ?, version = ?, content = coalesce(?, content), "
            "changed_s = CASE WHEN ? THEN ? ELSE changed_s END, due_s = ?, failures = 0 "
            "WHERE number = ?",
            (now_s, version, content, changed, now_s, due_s, row.number),
        )
        if row.visited_s is not None and now_s > row.visited_s:
            self.db.execute(
                "INSERT INTO visits VALUES (?, ?, ?, ?)",
                (row.number, now_s, now_s - row.visited_s, changed),
            )

    def record_failure(self, row: Row, due_s: float, why: str) -> None:
        self.db.execute(
            "UPDATE objects SET due_s = ?, why = ?, failures = failures + 1 WHERE number = ?",
            (due_s, why, row.number),
        )

    def next_free_s(self, now_s: float) -> float | None:
        """When the next host that must not be asked now may be asked again."""
        found = self.db.execute("SELECT min(free_s) FROM hosts WHERE free_s > ?", (now_s,))
        moment: float | None = found.fetchone()[0]
        return moment

    def occupy(self, host: str, free_s: float, why: str) -> None:
        """The host is not asked before this moment."""
        self.db.execute(
            "INSERT INTO hosts VALUES (?, ?, ?) ON CONFLICT (host) DO UPDATE SET "
            "free_s = max(free_s, excluded.free_s), why = excluded.why",
            (host, free_s, why),
        )

    def fact(self, name: str) -> float | None:
        found = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return found[0] if found else None

    def set_fact(self, name: str, value: float) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def visits(self, period_s: float) -> Visits:
        """All visits kept, with times in periods; objects count in the order of `rows`."""
        found = self.db.execute(
            "SELECT place, elapsed_s, changed FROM visits JOIN (SELECT number, "
            "row_number() OVER (ORDER BY number) - 1 AS place FROM objects WHERE listed) "
            "USING (number)"
        )
        kinds = [("place", np.int64), ("elapsed_s", np.float64), ("changed", np.bool_)]
        table = np.fromiter(found, np.dtype(kinds))
        return Visits.of(table["place"], table["elapsed_s"] / period_s, table["changed"])

    def forget_visits(self, keep: int) -> None:
        """Only the newest visits of each object count: rates change."""
        self.db.execute(
            "DELETE FROM visits WHERE rowid IN (SELECT rowid FROM (SELECT rowid, row_number() OVER "
            "(PARTITION BY number ORDER BY at_s DESC) AS age FROM visits) WHERE age > ?)",
            (keep,),
        )

    def save_plan(
        self, rows: list[Row], rates: Floats, frequency: Floats, due_s: list[float | None],
        why: list[str],
    ) -> None:  # fmt: skip
        self.db.executemany(
            "UPDATE objects SET rate = ?, frequency = ?, due_s = ?, why = ?, access = ? "
            "WHERE number = ?",
            (
                (float(r), float(f), d, w, row.access, row.number)
                for row, r, f, d, w in zip(rows, rates, frequency, due_s, why, strict=True)
            ),
        )

    def content(self, source: str, name: str) -> bytes | None:
        found = self.db.execute(
            "SELECT content FROM objects WHERE source = ? AND name = ?", (source, name)
        ).fetchone()
        return found[0] if found else None

    def export(self, path: Path) -> int:
        """Writes all copies as one Parquet file; how many there are."""
        import pyarrow as pa
        import pyarrow.parquet as pa_parquet

        names = ("source", "name", "visited_s", "changed_s", "rate", "frequency", "content")
        rows = self.db.execute(
            f"SELECT {', '.join(names)} FROM objects WHERE content IS NOT NULL"  # noqa: S608
        ).fetchall()
        columns = zip(*rows, strict=True) if rows else [[] for _ in names]
        table = pa.table(dict(zip(names, (list(c) for c in columns), strict=True)))
        partial = path.with_name(path.name + ".partial")
        pa_parquet.write_table(table, partial)
        partial.replace(path)
        return len(rows)
