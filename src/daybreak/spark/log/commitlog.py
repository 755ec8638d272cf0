"""The commit log: what was ingested, how far each query has read, which results are decided.

A transaction here is the only thing that moves a cursor or the progress of windows, and the same
transaction lists the staged files of the rows it passed and keeps the partial aggregates made of
them. So after a crash at any moment each row is either not yet read, or its result is listed: never
both, never neither. Everything else is rebuilt, repeated or deleted by what it says.

Small segments and small results are kept in the log itself: their bytes are made durable by the
transaction that lists them, so a commit waits for the disk once. Large ones are files that are
durable before they are listed. A segment's rows may be worked on before the disk has them: the
log is written in order, so a result that is durable is never of rows that are not.

Where it is kept, and how one driver is kept apart from another, is in ``contract.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from daybreak.model import EngineBug
from daybreak.runtime.clock import CLOCK
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.log import moves as m
from daybreak.spark.log import places as p
from daybreak.spark.log.contract import Database, Statements
from daybreak.spark.log.durable import boot_id
from daybreak.spark.log.rows import (
    Batches,
    CommittedFile,
    Cursor,
    Declaration,
    Move,
    Progress,
    StagedFile,
)
from daybreak.spark.log.segment_log import SegmentLog
from daybreak.spark.log.sqlite_log import SqliteDatabase

#: Ranges of lost rows that are kept.
MOST_LOST = 10_000


class CommitLog(SegmentLog):
    """The log of one application. Methods may be called from any thread.

    ``LogUnavailable``: the database takes nothing now, and nothing has changed. ``commit`` and
    ``add_segment`` wait for a database that is out of reach instead.
    """

    def __init__(
        self,
        database: Database | Path,
        clock_ns: Callable[[], int] = CLOCK.now_ns,
        boot: str | None = None,
    ) -> None:
        """``database``: a path is that of a SQLite file.

        ``boot`` tells one start of the machine from another; left out: as the kernel says.
        """
        super().__init__(SqliteDatabase(database) if isinstance(database, Path) else database)
        self._clock_ns = clock_ns
        self._guard = threading.Lock()
        self._jobs = 0
        #: Jobs that ended without a commit, and may have staged something.
        self._abandoned: set[str] = set()
        self._losses: dict[str, dict[str, int]] = {}
        self._boot = boot or boot_id()
        # The id marks every job of this log, so that another one's files are never taken for
        # ours, even where both deliver to one folder.
        self.id, self.run, self.rebooted = self.database.open(self._boot)

    def close(self) -> None:
        self.database.close()

    def sync(self) -> None:
        """Waits until all that was written so far is on the disk; others may write meanwhile."""
        self.database.sync()

    def new_job(self) -> str:
        """A job id that no job had before, in this epoch, an earlier one or another log."""
        with self._guard:
            self._jobs += 1
            return f"{self.id}-{self.run:04d}-{self._jobs:08d}"

    def abandon(self, job: str) -> None:
        """A job ended without a commit: what it staged is of no use."""
        with self._guard:
            self._abandoned.add(job)

    def take_abandoned(self) -> set[str]:
        """Jobs whose staged files may go; none where a commit that failed may yet stand."""
        with self._guard:
            if not self._abandoned:
                return set()
            abandoned = set(self._abandoned)
        if not self.database.settle():
            return set()
        with self._guard:
            self._abandoned -= abandoned
        return abandoned

    def settle(self) -> bool:
        """See ``Database.settle``."""
        return self.database.settle()

    # Queries and their places

    def register_query(
        self,
        name: str,
        fingerprint: str,
        starts: Mapping[str, Cursor],
        progress: Progress | Batches | None = None,
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
        return self.database.transact(lambda db: p.register(db, query, reset=reset))

    def refuse_changed(self, declared: Iterable[Declaration], reset: Container[str] = ()) -> None:
        """``ConfigError`` if a query is known with another fingerprint; changes nothing."""
        for query in declared:
            if query.name not in reset and p.is_known(self.database, query):
                m.refuse_other_panes(self.database, query)

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
        gone = tuple(forget)
        self.database.transact(lambda db: p.accept(db, declared, reset, gone, now_ns))

    def undeclared(self) -> dict[str, int]:
        """Queries that the last start did not declare, and when one first did not."""
        return dict(self.database.rows("SELECT query, since_ns FROM undeclared ORDER BY query"))

    def queries(self) -> dict[str, str]:
        """Fingerprint by query."""
        return dict(self.database.rows("SELECT name, fingerprint FROM queries ORDER BY name"))

    def disown(self, name: str) -> None:
        """What a query has committed is not for a later one of its name, with another sink."""
        self._write(
            "UPDATE files SET query = ? WHERE query = ? AND NOT delivered",
            (f"{name}\x1fdropped", name),
        )

    def drop_query(self, name: str) -> None:
        """Forgets a query with its cursors, progress and partial aggregates.

        What it has committed is still to be delivered.

        A job of its that is under way can no longer commit: drop it between jobs.
        """
        self._write("DELETE FROM queries WHERE name = ?", (name,))

    def set_paused(self, name: str, *, paused: bool) -> None:
        """Remembers a pause beyond a restart."""
        if paused:
            self._write("INSERT INTO paused VALUES (?) ON CONFLICT DO NOTHING", (name,))
        else:
            self._write("DELETE FROM paused WHERE query = ?", (name,))

    def paused(self) -> set[str]:
        return {row[0] for row in self.database.rows("SELECT query FROM paused")}

    def declare(self, name: str, text: str) -> None:
        """Keeps the declaration of a query that no pipeline file has, for the next start."""
        self._write(
            "INSERT INTO declarations VALUES (?, ?) "
            "ON CONFLICT (query) DO UPDATE SET text = excluded.text",
            (name, text),
        )

    def declarations(self) -> dict[str, str]:
        return dict(self.database.rows("SELECT query, text FROM declarations ORDER BY query"))

    def cursors(self) -> dict[tuple[str, str], Cursor]:
        """The next row to read, by query and stream."""
        statement = "SELECT query, stream, seq, row FROM cursors ORDER BY query, stream"
        found = self.database.rows(statement)
        return {(query, stream): Cursor(seq, row) for query, stream, seq, row in found}

    def places(self, query: str) -> dict[str, Cursor]:
        """The next row to read of each stream of one query."""
        return m.stored_cursors(self.database, query)

    def progress(self) -> dict[str, Progress]:
        """How far each query over windows is."""
        found = self.database.rows("SELECT query, closed_us, panes FROM progress")
        return {query: Progress(closed_us, panes) for query, closed_us, panes in found}

    def batches(self) -> dict[str, int]:
        """The last micro-batch that each stateful query has committed; ``NO_BATCH``: none yet."""
        return dict(self.database.rows("SELECT query, batch FROM batches"))

    def partials(self, query: str) -> list[int]:
        """The ids of a query's partial aggregates, oldest first; an id is never used again."""
        statement = "SELECT id FROM partials WHERE query = ? ORDER BY id"
        return [row[0] for row in self.database.rows(statement, (query,))]

    def partial_content(self, partial: int) -> bytes:
        row = self.database.row("SELECT content FROM partials WHERE id = ?", (partial,))
        if row is None:
            raise EngineBug(f"partial {partial} is not in the log")
        return bytes(row[0])

    def low_water(self, stream: str, *, declared: bool = False) -> Cursor | None:
        """The smallest cursor on a stream: no query needs a row before it. None: no reader.

        ``declared``: of queries that are declared.
        """
        row = self.database.row(
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
        files = list(staged)
        rows = [(job, f.query, str(f.path), f.rows, f.content) for f in files]

        def body(db: Statements) -> list[int]:
            once = "INSERT INTO commits VALUES (?, ?) ON CONFLICT DO NOTHING"
            if not db.run(once, (job, self._clock_ns())):
                raise EngineBug(f"job {job} is committed already")
            m.make_moves(db, job, moves)
            return db.insert_many(
                "INSERT INTO files (job, query, path, rows, content) VALUES (?, ?, ?, ?, ?)", rows
            )

        ids = self.database.transact(body, waits=True)
        return [
            CommittedFile(number, job, f.query, f.path, f.rows, f.content)
            for number, f in zip(ids, files, strict=True)
        ]

    def confirm_lease(self) -> None:
        """``LeaseLost`` if another driver has taken over: call it before results are delivered."""
        self.database.confirm_lease()

    def give_up(self, why: str, moves: Iterable[tuple[Move, int]]) -> None:
        """Moves queries past rows they will never see, and records which and how many.

        A move that loses no row of its own is not recorded. The newest ``MOST_LOST`` ranges are
        kept, and the number of rows of all.
        """
        every = list(moves)

        def body(db: Statements) -> None:
            for move, rows in every:
                m.make_moves(db, f"giving up ({why})", [move])
                if rows:
                    m.record_loss(db, why, move, rows, self._clock_ns())
            m.forget_losses(db, MOST_LOST)

        self.database.transact(body)

    def losses(self) -> dict[str, dict[str, int]]:
        """Rows given up, by query and reason; while the log is out of reach, as last read."""
        with suppress(LogUnavailable, LeaseLost):
            self._losses = m.losses(self.database)
        return self._losses

    def lost(self) -> list[dict[str, Any]]:
        """The ranges of rows given up lately, oldest first."""
        return m.lost_rows(self.database)

    def lost_windows(self) -> list[dict[str, Any]]:
        """The windows given up lately, oldest first: those that end in (after_us, closed_us]."""
        return m.lost_windows(self.database)

    def undelivered(self) -> list[CommittedFile]:
        """Committed files that nobody has said to be delivered, in order of commit."""
        found = self.database.rows(
            "SELECT id, job, query, path, rows, content, coalesce(place, 'staged') FROM files "
            "LEFT JOIN places ON file = id WHERE NOT delivered ORDER BY id"
        )
        return [
            CommittedFile(i, job, q, Path(path), n, content, place)
            for i, job, q, path, n, content, place in found
        ]

    def note_moved(self, ids: Iterable[int]) -> None:
        """Sinks have taken these files; without waiting for the disk.

        A crash of the process does not lose the note; a crash of the machine may.
        """
        known = list(ids)
        self.database.transact(lambda db: _place(db, known, "moved"), durable=False)

    def lose(self, why: str, files: Iterable[CommittedFile]) -> None:
        """Records the rows of committed files as lost: they cannot be delivered any more."""
        every = list(files)

        def body(db: Statements) -> None:
            for file in every:
                m.count_loss(db, file.query, why, file.rows)
            _done(db, [file.id for file in every])

        self.database.transact(body)

    def recovered(self, untouched: Iterable[CommittedFile]) -> None:
        """After a crash of the machine, all files but these have been seen to.

        Until then a start that fails leaves it to the next one.
        """
        left = [file.id for file in untouched]

        def body(db: Statements) -> None:
            if self.rebooted:
                _place(db, left, "unsure")
            db.run("UPDATE meta SET boot = ?", (self._boot,))

        self.database.transact(body)

    def mark_delivered(self, ids: Iterable[int]) -> None:
        """The files are durable at their places: their content is needed no more."""
        known = list(ids)
        self.database.transact(lambda db: _done(db, known))

    def prune(self, before_ns: int) -> None:
        """Drops the record of older commits, once all of their files are delivered."""
        old = (
            "SELECT job FROM commits c WHERE at_ns < ? AND NOT EXISTS "
            "(SELECT 1 FROM files f WHERE f.job = c.job AND NOT f.delivered)"
        )

        def body(db: Statements) -> None:
            jobs = db.rows(old, (before_ns,))
            db.run_many("DELETE FROM files WHERE job = ?", jobs)
            db.run_many("DELETE FROM commits WHERE job = ?", jobs)

        self.database.transact(body)


def _done(db: Statements, ids: Iterable[int]) -> None:
    rows = [(i,) for i in ids]
    db.run_many("UPDATE files SET delivered = TRUE, content = NULL WHERE id = ?", rows)
    db.run_many("DELETE FROM places WHERE file = ?", rows)


def _place(db: Statements, ids: Iterable[int], place: str) -> None:
    # A table of its own: the row of a file may hold much content, and would be written again.
    db.run_many(
        "INSERT INTO places VALUES (?, ?) ON CONFLICT (file) DO UPDATE SET place = excluded.place",
        [(i, place) for i in ids],
    )
