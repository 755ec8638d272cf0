"""Brings a commit log of an older layout to the present one, in one transaction.

Up to layout 3 the progress of windows was a row cursor on a stream named ``#closed``, and partial
aggregates were segments of a stream named after their query.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model import ConfigError
from daybreak.model.errors import NewerFormat
from daybreak.spark.log.tables import ARRIVAL, ipc_bytes

#: Format version of the log, in the header of the SQLite file. Logs up to layout 3 have none: 0.
#: From version 5 on a log may hold the positions of sources: an earlier Daybreak, which knows
#: checkpoints alone, would read such sources from their beginning. Micro-batches of stateful
#: queries have a table of their own since then; they go there when their query is declared again.
VERSION = 5
#: The first version whose windows and partial aggregates have tables of their own.
_WINDOWS_APART = 4
_CLOSED = "#closed"


def refuse_newer_log(db: sqlite3.Connection, folder: Path) -> None:
    """Call it before anything is read or written: a later format may have other tables."""
    version = _version(db)
    if version > VERSION:
        raise NewerFormat(
            str(folder),
            "commit log format",
            version,
            VERSION,
            otherwise="choose another run directory",
        )


def migrate(db: sqlite3.Connection, folder: Path) -> None:
    """Within a transaction; ``folder``: the run directory. A present log is left as it is."""
    if _version(db) < _WINDOWS_APART:
        _part_windows(db, folder)
    if _version(db) < VERSION:  # its new tables are made with the others
        db.execute(f"PRAGMA user_version = {VERSION}")


def _part_windows(db: sqlite3.Connection, folder: Path) -> None:
    for (query,) in db.execute("SELECT name FROM queries ORDER BY name").fetchall():
        _migrate_query(db, folder, query)
    if not _holds_stream(db, _CLOSED):
        db.execute(
            "INSERT INTO lost_windows SELECT query, why, from_seq, to_seq, rows, at_ns FROM lost "
            "WHERE stream = ? ORDER BY rowid",
            (_CLOSED,),
        )
        db.execute("DELETE FROM lost WHERE stream = ?", (_CLOSED,))


def _version(db: sqlite3.Connection) -> int:
    [(version,)] = db.execute("PRAGMA user_version").fetchall()
    return int(version)


def _migrate_query(db: sqlite3.Connection, folder: Path, query: str) -> None:
    found = db.execute("SELECT stream, seq FROM cursors WHERE query = ?", (query,)).fetchall()
    places: dict[str, int] = dict(found)
    # A query over windows reads at least one stream besides. One that only reads a stream of
    # this name is a filter over a user's stream.
    if _CLOSED not in places or len(places) == 1:
        return
    if _holds_stream(db, _CLOSED):
        raise ConfigError(
            f"query {query!r}",
            f"reads a stream {_CLOSED!r}, a name that the run directory's layout also used for "
            "the progress of windows",
            "let the Daybreak that wrote it finish, then choose a new run directory",
        )
    held = f"{query}#panes"
    of_panes = held in places and len(places) == 3 and not _holds_stream(db, held, besides="panes")
    if of_panes:
        [stream] = set(places) - {_CLOSED, held}
        _move_partials(db, folder, query, held, places[held], places[stream])
    db.execute(
        "INSERT INTO progress VALUES (?, ?, ?)", (query, places[_CLOSED], None if of_panes else "")
    )
    db.execute("DELETE FROM cursors WHERE query = ? AND stream = ?", (query, _CLOSED))


def _holds_stream(db: sqlite3.Connection, stream: str, besides: str = "") -> bool:
    """Whether segments of such a stream came from a source."""
    found = db.execute(
        "SELECT 1 FROM segments WHERE stream = ? AND checkpoint_id <> ? LIMIT 1", (stream, besides)
    )
    return found.fetchone() is not None


def _move_partials(
    db: sqlite3.Connection, folder: Path, query: str, held: str, from_seq: int, read_to: int
) -> None:
    """Partials whose job has committed; others stand for rows that are still unread."""
    rows = db.execute(
        "SELECT offsets, batch_id, high_us, file, content FROM segments "
        "WHERE stream = ? AND seq >= ? AND batch_id <= ? ORDER BY seq",
        (held, from_seq, read_to),
    ).fetchall()
    for offsets, end_seq, high_us, file, content in rows:
        db.execute(
            "INSERT INTO partials (query, first_seq, end_seq, high_us, content) "
            "VALUES (?, ?, ?, ?, ?)",
            (query, json.loads(offsets)[0], end_seq, high_us, _unstamped(folder, file, content)),
        )
    for table in ("segments", "marks"):
        db.execute(f"DELETE FROM {table} WHERE stream = ?", (held,))  # noqa: S608  # our own
    db.execute("DELETE FROM cursors WHERE query = ? AND stream = ?", (query, held))


def _unstamped(folder: Path, file: str, content: bytes | None) -> bytes:
    """As partials are kept now: in the log, without the stamp that segments have."""
    try:
        if content is not None:
            table = pa.ipc.open_stream(content).read_all()
        else:
            table = pq.read_table(folder / "segments" / file, partitioning=None)
    except (OSError, pa.ArrowException) as error:
        raise ConfigError(
            str(folder),
            f"partial aggregates cannot be read ({str(error).splitlines()[0]})",
            "restore them, or choose a new run directory",
        ) from error
    return ipc_bytes(table.drop_columns([ARRIVAL]))
