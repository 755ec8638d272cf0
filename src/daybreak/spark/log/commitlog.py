"""The commit log: what was ingested, how far each query has read, which results are decided.

One SQLite file (WAL, ``synchronous=FULL``). A transaction here is the only thing that moves a
cursor or the progress of windows, and the same transaction lists the staged files of the rows it
passed and keeps the partial aggregates made of them. So after a crash at any moment each row is
either not yet read, or its result is listed: never both, never neither. Everything else in the
run directory is rebuilt, repeated or deleted by what it says.

Small segments and small results are kept in the log itself: their bytes are made durable by the
transaction that lists them, so a commit waits for the disk once. Large ones are files that are
durable before they are listed. A segment's rows may be worked on before the disk has them: the
log is written in order, so a result that is durable is never of rows that are not.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.log.durable import boot_id
from daybreak.spark.log.migration import migrate, refuse_newer_log
from daybreak.spark.log.moves import (
    count_loss,
    forget_losses,
    keep_progress,
    make_moves,
    record_loss,
    refuse_other_panes,
    stored_cursors,
)
from daybreak.spark.log.rows import (
    SCHEMA,
    CommittedFile,
    Cursor,
    Declaration,
    Move,
    Progress,
    SegmentRow,
    StagedFile,
)

#: As SQLite itself does.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
#: Ranges of lost rows that are kept.
MOST_LOST = 10_000


class CommitLog:
    """The log of one run directory. Methods may be called from any thread."""

    def __init__(
        self,
        path: Path,
        clock_ns: Callable[[], int] = time.time_ns,
        boot: str | None = None,
    ) -> None:
        """``boot`` tells one start of the machine from another; left out: as the kernel says."""
        self._clock_ns = clock_ns
        self._path = path
        self._guard = threading.RLock()
        self._jobs = 0
        self._wal: int | None = None
        #: Jobs that ended without a commit, and may have staged something.
        self._abandoned: set[str] = set()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.text_factory = lambda text: text.decode(errors="replace")
        try:
            self._open(boot or boot_id())
        except (sqlite3.OperationalError, ConfigError):
            self._db.close()
            raise  # a full disk, perhaps: nothing is wrong with the file
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self._db.close()
            raise self._damaged(error) from error

    def _open(self, boot: str | None) -> None:
        refuse_newer_log(self._db, self._path.parent)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._db.execute(f"PRAGMA {setting}").fetchall()
        broken = self._row("PRAGMA quick_check(1)")[0]
        if broken != "ok":
            raise sqlite3.DatabaseError(str(broken))
        self._db.executescript(SCHEMA)
        known = {row[1] for row in self._rows("PRAGMA table_info(segments)")}
        for column in SegmentRow.__dataclass_fields__:
            if column not in known:  # a log that was made before event time
                self._db.execute(f"ALTER TABLE segments ADD COLUMN {column} INTEGER")
        with self._transaction():
            migrate(self._db, self._path.parent)
            if self._row("SELECT id FROM meta") is None:
                self._db.execute("INSERT INTO meta VALUES (?, 0, ?)", (token_hex(4), boot))
            #: Whether files that were written and not synced may be lost or torn.
            self.rebooted = boot is None or self._row("SELECT boot FROM meta")[0] != boot
            self._db.execute("UPDATE meta SET run = run + 1")
        self._boot = boot
        #: Marks every job of this log, so that another run directory's files are never taken
        #: for ours, even where both deliver to one folder.
        self.id, self.run = self._rows("SELECT id, run FROM meta")[0]

        # SQLite never replaces this file while the log is open.
        self._wal = os.open(f"{self._path}-wal", os.O_RDONLY)

    def close(self) -> None:
        with self._guard:
            if self._wal is not None:
                os.close(self._wal)
                self._wal = None
            self._db.close()

    def sync(self) -> None:
        """Waits until all that was written so far is on the disk; others may write meanwhile."""
        if self._wal is None:
            raise EngineBug("the commit log is closed")
        _sync(self._wal)

    def new_job(self) -> str:
        """A job id that no job had before, in this run, an earlier one or another directory."""
        with self._guard:
            self._jobs += 1
            return f"{self.id}-{self.run:04d}-{self._jobs:08d}"

    def abandon(self, job: str) -> None:
        """A job ended without a commit: what it staged is of no use."""
        with self._guard:
            self._abandoned.add(job)

    def take_abandoned(self) -> set[str]:
        """Jobs whose staged files may go; none where that is not certain yet.

        A commit that failed may still stand in the write-ahead log, and a crash would bring it
        back: only when that log is empty it is certain that it never will.
        """
        with self._guard:
            if not self._abandoned or not self.checkpoint():
                return set()
            taken, self._abandoned = self._abandoned, set()
            return taken

    # Segments

    def add_segment(self, segment: SegmentRow, content: bytes | None = None) -> None:
        """Lists a segment, without waiting for the disk: ``sync`` does, or the next commit.

        What was written before a commit is durable with it, so no result ever is of a segment
        that a power cut then loses.
        """
        values = [getattr(segment, name) for name in _SEGMENT_COLUMNS]
        with self._unsynced():
            self._db.execute(_INSERT_SEGMENT, (*values, content))

    def segment_content(self, segment: SegmentRow) -> bytes:
        """What a segment without a file holds."""
        row = self._row(
            "SELECT content FROM segments WHERE stream = ? AND seq = ?",
            (segment.stream, segment.seq),
        )
        if row is None or row[0] is None:
            raise EngineBug(f"segment {segment.seq} of {segment.stream!r} is not in the log")
        return bytes(row[0])

    def segments(self, stream: str | None = None, from_seq: int = 0) -> list[SegmentRow]:
        """Segments in order of ``seq``, of one stream or of all."""
        found = self._rows(
            f"{_SELECT_SEGMENT} WHERE (? IS NULL OR stream = ?) AND seq >= ? ORDER BY stream, seq",
            (stream, stream, from_seq),
        )
        return [_segment(row) for row in found]

    def set_mark(self, stream: str, before_seq: int, watermark_us: int) -> None:
        """A stream's watermark was raised between two segments, without a row to show for it."""
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?)", (stream, before_seq, watermark_us)
            )

    def marks(self) -> dict[str, tuple[int, int]]:
        """The newest mark of each stream: the segment it lies before, and the watermark."""
        found = self._rows("SELECT stream, before_seq, watermark_us FROM marks")
        return {stream: (seq, us) for stream, seq, us in found}

    def schemas(self, stream: str) -> list[tuple[int, bytes]]:
        """The schemas of a stream's segments, each with the first segment that has it."""
        return self._rows(
            "SELECT from_seq, content FROM schemas WHERE stream = ? ORDER BY from_seq", (stream,)
        )

    def set_schemas(self, stream: str, schemas: Iterable[tuple[int, bytes]]) -> None:
        with self._transaction():
            self._db.execute("DELETE FROM schemas WHERE stream = ?", (stream,))
            self._db.executemany(
                "INSERT INTO schemas VALUES (?, ?, ?)", [(stream, *known) for known in schemas]
            )

    def find_batch(self, stream: str, checkpoint_id: str, batch_id: int) -> SegmentRow | None:
        row = self._row(
            f"{_SELECT_SEGMENT} WHERE stream = ? AND checkpoint_id = ? AND batch_id = ?",
            (stream, checkpoint_id, batch_id),
        )
        return None if row is None else _segment(row)

    def forget_segments(self, stream: str, below_seq: int) -> None:
        """Takes segments off the log; their files may be removed then."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM segments WHERE stream = ? AND seq < ?", (stream, below_seq)
            )

    # Queries and their places

    def register_query(
        self,
        name: str,
        fingerprint: str,
        starts: Mapping[str, Cursor],
        progress: Progress | None = None,
        *,
        reset: bool = False,
        place: str = "",
    ) -> bool:
        """Makes a query known, reading each stream from its start; True if it begins there.

        ``progress``: of a query over windows. A query that is known with the same fingerprint
        continues where it was (False). With another one it is refused, unless ``reset`` restarts
        it: its cursors, progress and partial aggregates are replaced together.
        """
        query = Declaration(name, fingerprint, starts, progress, place)
        with self._transaction():
            known = not reset and self._known(query)
            if known:
                keep_progress(self._db, query)
            else:
                self._begin(query)
        return not known

    def refuse_changed(self, declared: Iterable[Declaration], reset: Container[str] = ()) -> None:
        """``ConfigError`` if a query is known with another fingerprint; changes nothing."""
        for query in declared:
            if query.name not in reset and self._known(query):
                with self._reading():
                    refuse_other_panes(self._db, query)

    def accept(
        self,
        declared: Sequence[Declaration],
        *,
        reset: Container[str] = (),
        forget: Iterable[str] = (),
        now_ns: int,
    ) -> None:
        """Makes the queries of a start known, as ``register_query`` does, all or none of them.

        Queries that are known and no longer declared keep their places, except those to
        ``forget``.
        """
        names = {query.name for query in declared}
        with self._transaction():
            self._db.executemany("DELETE FROM queries WHERE name = ?", [(n,) for n in forget])
            for query in declared:
                if query.name not in reset and self._known(query):
                    keep_progress(self._db, query)
                else:
                    self._begin(query)
            self._db.executemany("DELETE FROM undeclared WHERE query = ?", [(n,) for n in names])
            left = [(name, now_ns) for name in self.queries() if name not in names]
            self._db.executemany("INSERT OR IGNORE INTO undeclared VALUES (?, ?)", left)

    def undeclared(self) -> dict[str, int]:
        """Queries that the last start did not declare, and when one first did not."""
        return dict(self._rows("SELECT query, since_ns FROM undeclared ORDER BY query"))

    def _known(self, query: Declaration) -> bool:
        """Whether a query has a place already; ``ConfigError`` if that is of another one."""
        known = self._row("SELECT fingerprint FROM queries WHERE name = ?", (query.name,))
        if known is None:
            return False
        streams = self.places(query.name).keys()
        if not query.is_known_as(known[0]) or streams != query.starts.keys():
            raise ConfigError(
                query.place or f"query {query.name!r}",
                "has changed SQL since this run directory was made, and its old results "
                "and its place in the streams belong to the old one",
                f"give it another name, or restart it with --reset-query {query.name}",
            )
        return True

    def _begin(self, query: Declaration) -> None:
        self._db.execute("DELETE FROM queries WHERE name = ?", (query.name,))  # and all it has
        self._db.execute("INSERT INTO queries VALUES (?, ?)", (query.name, query.fingerprint))
        self._db.executemany(
            "INSERT INTO cursors VALUES (?, ?, ?, ?)",
            [(query.name, stream, *start) for stream, start in query.starts.items()],
        )
        if query.progress is not None:
            values = (query.name, query.progress.closed_us, query.progress.panes)
            self._db.execute("INSERT INTO progress VALUES (?, ?, ?)", values)

    def queries(self) -> dict[str, str]:
        """Fingerprint by query."""
        return dict(self._rows("SELECT name, fingerprint FROM queries ORDER BY name"))

    def disown(self, name: str) -> None:
        """What a query has committed is not for a later one of its name, with another sink."""
        with self._transaction():
            self._db.execute(
                "UPDATE files SET query = ? WHERE query = ? AND NOT delivered",
                (f"{name}\x1fdropped", name),
            )

    def drop_query(self, name: str) -> None:
        """Forgets a query with its cursors, progress and partial aggregates.

        What it has committed is still to be delivered.

        A job of its that is under way can no longer commit: drop it between jobs.
        """
        with self._transaction():
            self._db.execute("DELETE FROM queries WHERE name = ?", (name,))

    def set_paused(self, name: str, *, paused: bool) -> None:
        """Remembers a pause beyond a restart."""
        with self._transaction():
            self._db.execute("DELETE FROM paused WHERE query = ?", (name,))
            if paused:
                self._db.execute("INSERT INTO paused VALUES (?)", (name,))

    def paused(self) -> set[str]:
        return {row[0] for row in self._rows("SELECT query FROM paused")}

    def declare(self, name: str, text: str) -> None:
        """Keeps the declaration of a query that no pipeline file has, for the next start."""
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO declarations VALUES (?, ?)", (name, text))

    def declarations(self) -> dict[str, str]:
        return dict(self._rows("SELECT query, text FROM declarations ORDER BY query"))

    def cursors(self) -> dict[tuple[str, str], Cursor]:
        """The next row to read, by query and stream."""
        found = self._rows("SELECT query, stream, seq, row FROM cursors ORDER BY query, stream")
        return {(query, stream): Cursor(seq, row) for query, stream, seq, row in found}

    def places(self, query: str) -> dict[str, Cursor]:
        """The next row to read of each stream of one query."""
        with self._reading():
            return stored_cursors(self._db, query)

    def progress(self) -> dict[str, Progress]:
        """How far each query over windows is."""
        found = self._rows("SELECT query, closed_us, panes FROM progress")
        return {query: Progress(closed_us, panes) for query, closed_us, panes in found}

    def partials(self, query: str) -> list[int]:
        """The ids of a query's partial aggregates, oldest first; an id is never used again."""
        found = self._rows("SELECT id FROM partials WHERE query = ? ORDER BY id", (query,))
        return [row[0] for row in found]

    def partial_content(self, partial: int) -> bytes:
        row = self._row("SELECT content FROM partials WHERE id = ?", (partial,))
        if row is None:
            raise EngineBug(f"partial {partial} is not in the log")
        return bytes(row[0])

    def low_water(self, stream: str, *, declared: bool = False) -> Cursor | None:
        """The smallest cursor on a stream: no query needs a row before it. None: no reader.

        ``declared``: of queries that are declared.
        """
        row = self._row(
            "SELECT seq, row FROM cursors WHERE stream = ? "
            "AND NOT (? AND query IN (SELECT query FROM undeclared)) ORDER BY seq, row LIMIT 1",
            (stream, declared),
        )
        return None if row is None else Cursor(*row)

    # Commits

    def commit(
        self, job: str, moves: Sequence[Move], staged: Iterable[StagedFile]
    ) -> list[CommittedFile]:
        """Moves queries on and decides on the files, all of it or nothing.

        ``EngineBug`` if a query is not where a move begins: a range is never committed twice.
        """
        files: list[CommittedFile] = []
        with self._transaction():
            if self._row("SELECT job FROM commits WHERE job = ?", (job,)) is not None:
                raise EngineBug(f"job {job} is committed already")
            self._db.execute("INSERT INTO commits VALUES (?, ?)", (job, self._clock_ns()))
            make_moves(self._db, job, moves)
            for file in staged:
                done = self._db.execute(
                    "INSERT INTO files (job, query, path, rows, content) VALUES (?, ?, ?, ?, ?)",
                    (job, file.query, str(file.path), file.rows, file.content),
                )
                assert done.lastrowid is not None
                files.append(
                    CommittedFile(
                        done.lastrowid, job, file.query, file.path, file.rows, file.content
                    )
                )
        return files

    def give_up(self, why: str, moves: Iterable[tuple[Move, int]]) -> None:
        """Moves queries past rows they will never see, and records which and how many.

        A move that loses no row of its own is not recorded. The newest ``MOST_LOST`` ranges are
        kept, and the number of rows of all.
        """
        with self._transaction():
            for move, rows in moves:
                make_moves(self._db, f"giving up ({why})", [move])
                if rows:
                    record_loss(self._db, why, move, rows, self._clock_ns())
            forget_losses(self._db, MOST_LOST)

    def losses(self) -> dict[str, dict[str, int]]:
        """Rows given up, by query and reason."""
        found: dict[str, dict[str, int]] = {}
        for query, why, rows in self._rows("SELECT query, why, rows FROM losses"):
            found.setdefault(query, {})[why] = rows
        return found

    def lost(self) -> list[dict[str, Any]]:
        """The ranges of rows given up lately, oldest first."""
        names = ("query", "stream", "why", "from", "to", "rows", "at_ns")
        found = self._rows("SELECT * FROM lost ORDER BY rowid")
        return [
            dict(zip(names, (*row[:3], row[3:5], row[5:7], *row[7:]), strict=True)) for row in found
        ]

    def lost_windows(self) -> list[dict[str, Any]]:
        """The windows given up lately, oldest first: those that end in (after_us, closed_us]."""
        names = ("query", "why", "after_us", "closed_us", "rows", "at_ns")
        found = self._rows("SELECT * FROM lost_windows ORDER BY rowid")
        return [dict(zip(names, row, strict=True)) for row in found]

    def undelivered(self) -> list[CommittedFile]:
        """Committed files that nobody has said to be delivered, in order of commit."""
        found = self._rows(
            "SELECT id, job, query, path, rows, content, ifnull(place, 'staged') FROM files "
            "LEFT JOIN places ON file = id WHERE NOT delivered ORDER BY id"
        )
        return [
            CommittedFile(i, job, q, Path(p), n, content, place)
            for i, job, q, p, n, content, place in found
        ]

    def note_moved(self, ids: Iterable[int]) -> None:
        """Sinks have taken these files; without waiting for the disk.

        A crash of the process does not lose the note; a crash of the machine may.
        """
        with self._unsynced():
            self._place(ids, "moved")

    def lose(self, why: str, files: Iterable[CommittedFile]) -> None:
        """Records the rows of committed files as lost: they cannot be delivered any more."""
        with self._transaction():
            for file in files:
                count_loss(self._db, file.query, why, file.rows)
                self._done([file.id])

    def recovered(self, untouched: Iterable[CommittedFile]) -> None:
        """After a crash of the machine, all files but these have been seen to.

        Until then a start that fails leaves it to the next one.
        """
        with self._transaction():
            if self.rebooted:
                self._place((file.id for file in untouched), "unsure")
            self._db.execute("UPDATE meta SET boot = ?", (self._boot,))

    def mark_delivered(self, ids: Iterable[int]) -> None:
        """The files are durable at their places: their content is needed no more."""
        with self._transaction():
            self._done(ids)

    def _done(self, ids: Iterable[int]) -> None:
        rows = [(i,) for i in ids]
        done = "UPDATE files SET delivered = 1, content = NULL WHERE id = ?"
        self._db.executemany(done, rows)
        self._db.executemany("DELETE FROM places WHERE file = ?", rows)

    def _place(self, ids: Iterable[int], place: str) -> None:
        # A table of its own: the row of a file may hold much content, and would be written again.
        rows = [(i, place) for i in ids]
        self._db.executemany("INSERT OR REPLACE INTO places VALUES (?, ?)", rows)

    def prune(self, before_ns: int) -> None:
        """Drops the record of older commits, once all of their files are delivered."""
        old = (
            "SELECT job FROM commits c WHERE at_ns < ? AND NOT EXISTS "
            "(SELECT 1 FROM files f WHERE f.job = c.job AND NOT f.delivered)"
        )
        with self._transaction():
            jobs = self._rows(old, (before_ns,))
            self._db.executemany("DELETE FROM files WHERE job = ?", jobs)
            self._db.executemany("DELETE FROM commits WHERE job = ?", jobs)

    def checkpoint(self) -> bool:
        """Brings the write-ahead log into the database and cuts it to nothing, if it can."""
        with self._guard:
            [(busy, _, _)] = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return not busy

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All statements inside, from this thread alone, or none of them."""
        with self._guard:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _unsynced(self) -> Iterator[None]:
        """A transaction that does not wait for the disk; the next that does makes it durable."""
        with self._guard:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction():
                    yield
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._reading():
            return self._db.execute(sql, values).fetchall()

    def _row(self, sql: str, values: Sequence[Any] = ()) -> Any:
        with self._reading():
            return self._db.execute(sql, values).fetchone()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._guard:
            try:
                yield
            except sqlite3.DatabaseError as error:
                if type(error) is sqlite3.DatabaseError:  # what the check at the start did not see
                    raise self._damaged(error) from error
                raise

    def _damaged(self, error: Exception) -> ConfigError:
        return ConfigError(
            str(self._path),
            f"is no commit log of Daybreak's, or is damaged ({error})",
            "restore it, or choose a new run directory",
        )


_SEGMENT_COLUMNS = tuple(SegmentRow.__dataclass_fields__)
#: Without the content, which is read only when it is asked for.
_SELECT_SEGMENT = f"SELECT {', '.join(_SEGMENT_COLUMNS)} FROM segments"  # noqa: S608  # our own
_INSERT_SEGMENT = (
    f"INSERT INTO segments ({', '.join(_SEGMENT_COLUMNS)}, content) "  # noqa: S608  # our own
    f"VALUES ({', '.join('?' * len(_SEGMENT_COLUMNS))}, ?)"
)


def _segment(row: Sequence[Any]) -> SegmentRow:
    return SegmentRow(**dict(zip(_SEGMENT_COLUMNS, row, strict=True)))
