"""How far the sources of direct streams are read: up to an offset, or which files.

The transaction that lists a segment also moves the position of its source past the segment's rows
and keeps the malformed records between them. So a crash at any moment leaves rows, position and
malformed records that agree, and nothing has to be compared when a source goes on.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from daybreak.model import EngineBug
from daybreak.spark.log.contract import Database, Statements

#: What a position is made of: names of files that were read, or an offset of the source's own.
PositionKind: TypeAlias = Literal["files", "offsets"]
#: A file that was read: path, modification time in ms since 1970, size in bytes.
ReadFile: TypeAlias = tuple[str, int, int]

#: Rows of files are folded into one row per batch once their files are so much older than the
#: newest. Half of it saves half of the rows that are looked up one by one; twice as long doubles
#: the 120 bytes that each of them takes meanwhile.
FOLD_AFTER_MS = 3_600_000
#: Files that one statement names: SQLite takes 32 766 values, PostgreSQL 65 535.
_MOST_NAMED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a stream's source is read, and the batch that came so far."""

    stream: str
    kind: PositionKind
    #: What is read: format, and path or topic. Another source must not go on from here.
    source: str
    checkpoint_id: str
    #: The last batch; -1 before the first one. No batch of a stream has the number of another.
    batch_id: int
    #: The offset; of files, as JSON, the time of the newest and that before which none is new.
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Records of a batch that do not fit the schema of their stream."""

    records: int
    #: What the file of these records holds, or
    content: bytes = b""
    #: the name of a file that holds them already, durably.
    file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMove:
    """A batch moves the position of its source; the log must hold the batch before it."""

    position: Position
    #: Those that the batch has read, of a source of files.
    files: Sequence[ReadFile] = ()
    malformed: Malformed | None = None


class PositionLog:
    """The part of the commit log that direct sources use. Methods may be called from any thread."""

    database: Database

    def position(self, stream: str) -> Position | None:
        """How far a stream is read directly; None if it is not."""
        row = self.database.row(f"{_SELECT_POSITION} WHERE stream = ?", (stream,))
        return None if row is None else _position(row)

    def begin_position(self, position: Position, files: Iterable[ReadFile] = ()) -> None:
        """From now on a stream is read directly; durable when this returns."""
        read = [(position.stream, *file, position.batch_id) for file in files]

        def body(db: Statements) -> None:
            _forget(db, position.stream)
            db.run(_INSERT_POSITION, _values(position))
            db.run_many("INSERT INTO source_files VALUES (?, ?, ?, ?, ?)", read)

        self.database.transact(body, waits=True)

    def end_position(self, stream: str) -> None:
        """A stream is no longer read directly; durable when this returns."""
        self.database.transact(lambda db: _forget(db, stream), waits=True)

    def move_source(self, move: SourceMove) -> None:
        """Moves a position past a batch without rows; ``sync`` makes it durable."""
        self.database.transact(lambda db: move_source(db, move), durable=False, waits=True)

    def known_files(self, stream: str, paths: Sequence[str]) -> set[str]:
        """Those of some files that were read and are not folded; see ``folded_files``."""
        known: set[str] = set()
        for at in range(0, len(paths), _MOST_NAMED):
            some = paths[at : at + _MOST_NAMED]
            marks = ", ".join("?" * len(some))
            found = self.database.rows(
                f"SELECT path FROM source_files WHERE stream = ? AND path IN ({marks})",  # noqa: S608
                (stream, *some),
            )
            known.update(path for (path,) in found)
        return known

    def folded_files(self, stream: str) -> set[str]:
        """The files that were read and folded."""
        found = self.database.rows("SELECT paths FROM source_batches WHERE stream = ?", (stream,))
        return {path for (paths,) in found for path in _unfolded(paths)}

    def read_files(self, stream: str) -> list[ReadFile]:
        """All files that are known to be read; of a folded one, the newest time of its batch."""
        found = self.database.rows(
            "SELECT path, mtime_ms, size FROM source_files WHERE stream = ? ORDER BY path",
            (stream,),
        )
        folded = self.database.rows(
            "SELECT paths, newest_mtime_ms FROM source_batches WHERE stream = ?", (stream,)
        )
        return [
            *((path, mtime_ms, size) for path, mtime_ms, size in found),
            *((path, mtime_ms, 0) for paths, mtime_ms in folded for path in _unfolded(paths)),
        ]

    def fold_files(self, stream: str, before_ms: int, forget_ms: int) -> set[str]:
        """Folds the files older than ``before_ms`` and forgets those older than ``forget_ms``.

        Gives the files that it has folded.
        """

        def body(db: Statements) -> set[str]:
            db.run(
                "DELETE FROM source_files WHERE stream = ? AND mtime_ms < ?", (stream, forget_ms)
            )
            db.run(
                "DELETE FROM source_batches WHERE stream = ? AND newest_mtime_ms < ?",
                (stream, forget_ms),
            )
            old = db.rows(
                "SELECT path, mtime_ms FROM source_files WHERE stream = ? AND mtime_ms < ?",
                (stream, before_ms),
            )
            if old:
                _fold(db, stream, old)
            return {path for path, _ in old}

        return self.database.transact(body, durable=False)

    def kept_malformed(self) -> list[tuple[str, int, Malformed]]:
        """Malformed records that are not at their places yet: stream, batch, and what they are."""
        found = self.database.rows(
            "SELECT stream, batch_id, records, content, file FROM dead_letters "
            "ORDER BY stream, batch_id"
        )
        return [
            (stream, batch_id, Malformed(records=n, content=bytes(content or b""), file=file))
            for stream, batch_id, n, content, file in found
        ]

    def place_malformed(self, batches: Iterable[tuple[str, int]]) -> None:
        """Malformed records are durable at their places; without waiting for the disk."""
        done = list(batches)
        statement = "DELETE FROM dead_letters WHERE stream = ? AND batch_id = ?"
        self.database.transact(lambda db: db.run_many(statement, done), durable=False)


def move_source(db: Statements, move: SourceMove) -> None:
    """Within the transaction that lists the batch; ``EngineBug`` if it does not follow the last."""
    new = move.position
    moved = db.run(
        "UPDATE positions SET batch_id = ?, place = ? "
        "WHERE stream = ? AND checkpoint_id = ? AND batch_id = ?",
        (new.batch_id, new.place, new.stream, new.checkpoint_id, new.batch_id - 1),
    )
    if moved != 1:
        raise EngineBug(f"stream {new.stream!r}: batch {new.batch_id} does not follow its position")
    if move.files:
        db.run_many(
            # A file that is so old that it is forgotten counts as another one once it is new again.
            "INSERT INTO source_files VALUES (?, ?, ?, ?, ?) ON CONFLICT (stream, path) DO UPDATE "
            "SET mtime_ms = excluded.mtime_ms, size = excluded.size, batch_id = excluded.batch_id",
            [(new.stream, *file, new.batch_id) for file in move.files],
        )
    if move.malformed is not None:
        found = move.malformed
        db.run(
            "INSERT INTO dead_letters VALUES (?, ?, ?, ?, ?)",
            (new.stream, new.batch_id, found.records, found.content, found.file),
        )


def _forget(db: Statements, stream: str) -> None:
    for table in ("positions", "source_files", "source_batches"):
        db.run(f"DELETE FROM {table} WHERE stream = ?", (stream,))  # noqa: S608  # our own


def _fold(db: Statements, stream: str, old: Sequence[tuple[str, int]]) -> None:
    """One row of these files, numbered after the last; they are looked up in memory from now on."""
    paths = sorted(path for path, _ in old)
    [(last,)] = db.rows(
        "SELECT coalesce(max(batch_id), -1) FROM source_batches WHERE stream = ?", (stream,)
    )
    content = zlib.compress(json.dumps(paths).encode())
    newest_ms = max(mtime_ms for _, mtime_ms in old)
    db.run("INSERT INTO source_batches VALUES (?, ?, ?, ?)", (stream, last + 1, newest_ms, content))
    db.run_many(
        "DELETE FROM source_files WHERE stream = ? AND path = ?", [(stream, path) for path in paths]
    )


def _unfolded(content: bytes) -> list[str]:
    paths: list[str] = json.loads(zlib.decompress(bytes(content)))
    return paths


_COLUMNS = tuple(Position.__dataclass_fields__)
_SELECT_POSITION = f"SELECT {', '.join(_COLUMNS)} FROM positions"  # noqa: S608  # our own
_INSERT_POSITION = (
    f"INSERT INTO positions ({', '.join(_COLUMNS)}) "  # noqa: S608  # our own
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)


def _values(position: Position) -> list[object]:
    return [getattr(position, name) for name in _COLUMNS]


def _position(row: Sequence[Any]) -> Position:
    return Position(**dict(zip(_COLUMNS, row, strict=True)))
