"""Moves the places of queries within a transaction of the commit log, by compare-and-set.

A move names where the query was. If it is not there any more, another job has moved it: the
transaction is undone, so a range is never committed twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import NoReturn

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.log.rows import (
    Cursor,
    CursorMove,
    Declaration,
    Move,
    PartialsMove,
    Progress,
    ProgressMove,
)


def make_moves(db: sqlite3.Connection, job: str, moves: Sequence[Move]) -> None:
    """All of the moves; ``EngineBug``, and the transaction rolled back, if one is stale."""
    for move in moves:
        if isinstance(move, PartialsMove):
            _keep_partials(db, job, move)
    cursors = [m for m in moves if isinstance(m, CursorMove)]
    done = db.executemany(
        "UPDATE cursors SET seq = ?, row = ? "
        "WHERE query = ? AND stream = ? AND seq = ? AND row = ?",
        [(*m.new, m.query, m.stream, *m.old) for m in cursors if m.new >= m.old],
    )
    if cursors and done.rowcount != len(cursors):
        _refuse_cursors(db, job, cursors)
    windows = [m for m in moves if isinstance(m, ProgressMove)]
    done = db.executemany(
        "UPDATE progress SET closed_us = ? WHERE query = ? AND closed_us = ?",
        [(m.new_us, m.query, m.old_us) for m in windows if m.new_us >= m.old_us],
    )
    if windows and done.rowcount != len(windows):
        _refuse_progress(db, job, windows)


def stored_cursors(db: sqlite3.Connection, query: str) -> dict[str, Cursor]:
    """The next row to read of each stream of a query."""
    found = db.execute("SELECT stream, seq, row FROM cursors WHERE query = ?", (query,))
    return {stream: Cursor(seq, row) for stream, seq, row in found.fetchall()}


def stored_progress(db: sqlite3.Connection, query: str) -> Progress | None:
    found = db.execute("SELECT closed_us, panes FROM progress WHERE query = ?", (query,))
    row = found.fetchone()
    return None if row is None else Progress(*row)


def keep_progress(db: sqlite3.Connection, query: Declaration) -> None:
    """A known query continues from its partial aggregates, which it would make in the same way."""
    values = (query.fingerprint, query.name)
    db.execute("UPDATE queries SET fingerprint = ? WHERE name = ?", values)
    if not refuse_other_panes(db, query) and query.progress is not None:
        panes = query.progress.panes
        db.execute("UPDATE progress SET panes = ? WHERE query = ?", (panes, query.name))


def refuse_other_panes(db: sqlite3.Connection, query: Declaration) -> bool:
    """``ConfigError`` if a known query would make other partial aggregates than it has kept.

    False where the log, one of an older layout, does not say how they were made.
    """
    known, progress = stored_progress(db, query.name), query.progress
    if progress is not None and known is not None and known.panes is None and progress.panes:
        return False
    if (progress and progress.panes) != (known and known.panes):
        raise ConfigError(
            query.place or f"query {query.name!r}",
            "makes other partial aggregates of its rows than when this run directory was made, "
            "and those it keeps stand for rows that are gone",
            f"declare it as it was, or restart it with --reset-query {query.name}",
        )
    return True


def record_loss(db: sqlite3.Connection, why: str, move: Move, rows: int, now_ns: int) -> None:
    """Remembers what a query lost by a move, and how many rows it has lost in all."""
    if isinstance(move, CursorMove):
        db.execute(
            "INSERT INTO lost VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (move.query, move.stream, why, *move.old, *move.new, rows, now_ns),
        )
    elif isinstance(move, ProgressMove):
        db.execute(
            "INSERT INTO lost_windows VALUES (?, ?, ?, ?, ?, ?)",
            (move.query, why, move.old_us, move.new_us, rows, now_ns),
        )
    count_loss(db, move.query, why, rows)


def count_loss(db: sqlite3.Connection, query: str, why: str, rows: int) -> None:
    db.execute(
        "INSERT INTO losses VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET rows = rows + excluded.rows",
        (query, why, rows),
    )


def forget_losses(db: sqlite3.Connection, most: int) -> None:
    """Keeps the newest ranges only."""
    for table in ("lost", "lost_windows"):
        newest = f"SELECT max(rowid) FROM {table}"  # noqa: S608  # our own
        db.execute(f"DELETE FROM {table} WHERE rowid <= ({newest}) - ?", (most,))  # noqa: S608


def _keep_partials(db: sqlite3.Connection, job: str, move: PartialsMove) -> None:
    """Partials continue where the query's cursor is, and overlap none that are kept."""
    at = stored_cursors(db, move.query).get(move.stream)
    end = db.execute("SELECT max(end_seq) FROM partials WHERE query = ?", (move.query,)).fetchone()
    if at != Cursor(move.first_seq, 0) or (end[0] or 0) > move.first_seq:
        _refuse(
            db,
            f"job {job}: query {move.query!r} would add partials of segments {move.first_seq} to "
            f"{move.end_seq - 1} of {move.stream!r}, but it is at {_shown(at)} and its partials "
            f"end before segment {end[0] or 0}",
        )
    db.execute(
        "DELETE FROM partials WHERE query = ? AND high_us <= ?", (move.query, move.needed_us)
    )
    db.executemany(
        "INSERT INTO partials (query, first_seq, end_seq, high_us, content) VALUES (?, ?, ?, ?, ?)",
        [
            (move.query, move.first_seq, move.end_seq, part.high_us, part.content)
            for part in move.added
        ],
    )


def _refuse_cursors(db: sqlite3.Connection, job: str, moves: Sequence[CursorMove]) -> NoReturn:
    """Names a move that could not be made, after undoing the others."""
    db.execute("ROLLBACK")
    for move in moves:
        found = stored_cursors(db, move.query).get(move.stream)
        if found != move.old or move.new < move.old:
            raise EngineBug(
                f"job {job}: query {move.query!r} would move its cursor on {move.stream!r} "
                f"from {tuple(move.old)} to {tuple(move.new)}, but it is at {_shown(found)}"
            )
    raise EngineBug(f"job {job}: moves a cursor twice")


def _refuse_progress(db: sqlite3.Connection, job: str, moves: Sequence[ProgressMove]) -> NoReturn:
    db.execute("ROLLBACK")
    for move in moves:
        found = stored_progress(db, move.query)
        closed_us = None if found is None else found.closed_us
        if closed_us != move.old_us or move.new_us < move.old_us:
            raise EngineBug(
                f"job {job}: query {move.query!r} would emit its windows after {move.old_us} us "
                f"up to {move.new_us} us, but it has emitted those up to {closed_us} us"
            )
    raise EngineBug(f"job {job}: emits the windows of a query twice")


def _refuse(db: sqlite3.Connection, finding: str) -> NoReturn:
    db.execute("ROLLBACK")
    raise EngineBug(finding)


def _shown(cursor: Cursor | None) -> object:
    return "no place" if cursor is None else tuple(cursor)
