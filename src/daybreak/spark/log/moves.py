"""Moves the places of queries within a transaction of the commit log, by compare-and-set.

A move names where the query was. If it is not there any more, another job has moved it: the
transaction is undone, so a range is never committed twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.log.contract import Statements
from daybreak.spark.log.rows import (
    NO_BATCH,
    Batches,
    BatchMove,
    Cursor,
    CursorMove,
    Declaration,
    Move,
    PartialsMove,
    Progress,
    ProgressMove,
)

_LOST = "query, stream, why, from_seq, from_row, to_seq, to_row, rows, at_ns"
_LOST_WINDOWS = "query, why, after_us, closed_us, rows, at_ns"


def make_moves(db: Statements, job: str, moves: Sequence[Move]) -> None:
    """All of the moves; ``EngineBug``, and the transaction rolled back, if one is stale."""
    for move in moves:
        if isinstance(move, PartialsMove):
            _keep_partials(db, job, move)
    cursors = [m for m in moves if isinstance(m, CursorMove)]
    moved = db.run_many(
        "UPDATE cursors SET seq = ?, row = ? "
        "WHERE query = ? AND stream = ? AND seq = ? AND row = ?",
        [(*m.new, m.query, m.stream, *m.old) for m in cursors if m.new >= m.old],
    )
    if moved != len(cursors):
        _refuse_cursors(db, job, cursors)
    windows = [m for m in moves if isinstance(m, ProgressMove)]
    moved = db.run_many(
        "UPDATE progress SET closed_us = ? WHERE query = ? AND closed_us = ?",
        [(m.new_us, m.query, m.old_us) for m in windows if m.new_us >= m.old_us],
    )
    if moved != len(windows):
        _refuse_progress(db, job, windows)
    batches = [m for m in moves if isinstance(m, BatchMove)]
    moved = db.run_many(
        "UPDATE batches SET batch = ? WHERE query = ? AND batch = ?",
        [(m.new, m.query, m.old) for m in batches if m.new > m.old],
    )
    if moved != len(batches):
        _refuse_batches(db, job, batches)


def stored_cursors(db: Statements, query: str) -> dict[str, Cursor]:
    """The next row to read of each stream of a query."""
    found = db.rows("SELECT stream, seq, row FROM cursors WHERE query = ?", (query,))
    return {stream: Cursor(seq, row) for stream, seq, row in found}


def stored_progress(db: Statements, query: str) -> Progress | None:
    row = db.row("SELECT closed_us, panes FROM progress WHERE query = ?", (query,))
    return None if row is None else Progress(*row)


def keep_progress(db: Statements, query: Declaration) -> None:
    """A known query continues from its partial aggregates, which it would make in the same way."""
    values = (query.fingerprint, query.name)
    db.run("UPDATE queries SET fingerprint = ? WHERE name = ?", values)
    if isinstance(query.progress, Batches):
        _part_batches(db, query.name)
        return
    if not refuse_other_panes(db, query) and query.progress is not None:
        panes = query.progress.panes
        db.run("UPDATE progress SET panes = ? WHERE query = ?", (panes, query.name))


def _part_batches(db: Statements, query: str) -> None:
    """Earlier logs kept the number of a micro-batch as if it were the end of a window."""
    row = db.row("SELECT closed_us FROM progress WHERE query = ?", (query,))
    if row is not None:
        db.run("INSERT INTO batches VALUES (?, ?)", (query, max(row[0], NO_BATCH)))
        db.run("DELETE FROM progress WHERE query = ?", (query,))


def refuse_other_panes(db: Statements, query: Declaration) -> bool:
    """``ConfigError`` if a known query would make other partial aggregates than it has kept.

    False where the log, one of an older layout, does not say how they were made.
    """
    known, progress = stored_progress(db, query.name), query.progress
    if isinstance(progress, Batches):
        return True
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


def record_loss(db: Statements, why: str, move: Move, rows: int, now_ns: int) -> None:
    """Remembers what a query lost by a move, and how many rows it has lost in all."""
    if isinstance(move, CursorMove):
        db.run(
            f"INSERT INTO lost ({_LOST}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  # our own
            (move.query, move.stream, why, *move.old, *move.new, rows, now_ns),
        )
    elif isinstance(move, ProgressMove):
        db.run(
            f"INSERT INTO lost_windows ({_LOST_WINDOWS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
            (move.query, why, move.old_us, move.new_us, rows, now_ns),
        )
    count_loss(db, move.query, why, rows)


def count_loss(db: Statements, query: str, why: str, rows: int) -> None:
    db.run(
        "INSERT INTO losses VALUES (?, ?, ?) "
        "ON CONFLICT (query, why) DO UPDATE SET rows = losses.rows + excluded.rows",
        (query, why, rows),
    )


def losses(db: Statements) -> dict[str, dict[str, int]]:
    """Rows given up, by query and reason."""
    found: dict[str, dict[str, int]] = {}
    for query, why, rows in db.rows("SELECT query, why, rows FROM losses"):
        found.setdefault(query, {})[why] = rows
    return found


def lost_rows(db: Statements) -> list[dict[str, Any]]:
    """The ranges of rows given up lately, oldest first."""
    names = ("query", "stream", "why", "from", "to", "rows", "at_ns")
    found = db.rows(f"SELECT {_LOST} FROM lost ORDER BY rowid")  # noqa: S608
    return [
        dict(zip(names, (*row[:3], row[3:5], row[5:7], *row[7:]), strict=True)) for row in found
    ]


def lost_windows(db: Statements) -> list[dict[str, Any]]:
    """The windows given up lately, oldest first: those that end in (after_us, closed_us]."""
    found = db.rows(f"SELECT {_LOST_WINDOWS} FROM lost_windows ORDER BY rowid")  # noqa: S608
    return [dict(zip(_LOST_WINDOWS.split(", "), row, strict=True)) for row in found]


def forget_losses(db: Statements, most: int) -> None:
    """Keeps the newest ranges only."""
    for table in ("lost", "lost_windows"):
        newest = f"SELECT max(rowid) FROM {table}"  # noqa: S608  # our own
        db.run(f"DELETE FROM {table} WHERE rowid <= ({newest}) - ?", (most,))  # noqa: S608


def _keep_partials(db: Statements, job: str, move: PartialsMove) -> None:
    """Partials continue where the query's cursor is, and overlap none that are kept."""
    at = stored_cursors(db, move.query).get(move.stream)
    end = db.row("SELECT max(end_seq) FROM partials WHERE query = ?", (move.query,))
    if at != Cursor(move.first_seq, 0) or (end[0] or 0) > move.first_seq:
        _refuse(
            db,
            f"job {job}: query {move.query!r} would add partials of segments {move.first_seq} to "
            f"{move.end_seq - 1} of {move.stream!r}, but it is at {_shown(at)} and its partials "
            f"end before segment {end[0] or 0}",
        )
    db.run("DELETE FROM partials WHERE query = ? AND high_us <= ?", (move.query, move.needed_us))
    db.run_many(
        "INSERT INTO partials (query, first_seq, end_seq, high_us, content) VALUES (?, ?, ?, ?, ?)",
        [
            (move.query, move.first_seq, move.end_seq, part.high_us, part.content)
            for part in move.added
        ],
    )


def _refuse_cursors(db: Statements, job: str, moves: Sequence[CursorMove]) -> NoReturn:
    """Names a move that could not be made, after undoing the others."""
    db.undo()
    for move in moves:
        found = stored_cursors(db, move.query).get(move.stream)
        if found != move.old or move.new < move.old:
            raise EngineBug(
                f"job {job}: query {move.query!r} would move its cursor on {move.stream!r} "
                f"from {tuple(move.old)} to {tuple(move.new)}, but it is at {_shown(found)}"
            )
    raise EngineBug(f"job {job}: moves a cursor twice")


def _refuse_progress(db: Statements, job: str, moves: Sequence[ProgressMove]) -> NoReturn:
    db.undo()
    for move in moves:
        found = stored_progress(db, move.query)
        closed_us = None if found is None else found.closed_us
        if closed_us != move.old_us or move.new_us < move.old_us:
            raise EngineBug(
                f"job {job}: query {move.query!r} would emit its windows after {move.old_us} us "
                f"up to {move.new_us} us, but it has emitted those up to {closed_us} us"
            )
    raise EngineBug(f"job {job}: emits the windows of a query twice")


def _refuse_batches(db: Statements, job: str, moves: Sequence[BatchMove]) -> NoReturn:
    db.undo()
    for move in moves:
        row = db.row("SELECT batch FROM batches WHERE query = ?", (move.query,))
        found = None if row is None else row[0]
        if found != move.old or move.new <= move.old:
            raise EngineBug(
                f"job {job}: query {move.query!r} would go from micro-batch {move.old} to "
                f"{move.new}, but it is at {found}"
            )
    raise EngineBug(f"job {job}: commits a micro-batch twice")


def _refuse(db: Statements, finding: str) -> NoReturn:
    db.undo()
    raise EngineBug(finding)


def _shown(cursor: Cursor | None) -> object:
    return "no place" if cursor is None else tuple(cursor)
