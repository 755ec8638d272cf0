"""Queries and their places in streams, within a transaction of the commit log."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from daybreak.model import ConfigError
from daybreak.spark.log.contract import Statements
from daybreak.spark.log.moves import keep_progress, stored_cursors
from daybreak.spark.log.rows import Batches, Declaration


def is_known(db: Statements, query: Declaration) -> bool:
    """Whether a query has a place already; ``ConfigError`` if that is of another one."""
    known = db.row("SELECT fingerprint FROM queries WHERE name = ?", (query.name,))
    if known is None:
        return False
    streams = stored_cursors(db, query.name).keys()
    if not query.is_known_as(known[0]) or streams != query.starts.keys():
        raise ConfigError(
            query.place or f"query {query.name!r}",
            "has changed SQL since this run directory was made, and its old results "
            "and its place in the streams belong to the old one",
            f"give it another name, or restart it with --reset-query {query.name}",
        )
    return True


def register(db: Statements, query: Declaration, *, reset: bool = False) -> bool:
    """Gives a query its place; True if it begins there, False if it continues where it was."""
    if not reset and is_known(db, query):
        keep_progress(db, query)
        return False
    db.run("DELETE FROM queries WHERE name = ?", (query.name,))  # and all it has
    db.run("INSERT INTO queries VALUES (?, ?)", (query.name, query.fingerprint))
    db.run_many(
        "INSERT INTO cursors VALUES (?, ?, ?, ?)",
        [(query.name, stream, *start) for stream, start in query.starts.items()],
    )
    if isinstance(query.progress, Batches):
        db.run("INSERT INTO batches VALUES (?, ?)", (query.name, query.progress.last))
    elif query.progress is not None:
        values = (query.name, query.progress.closed_us, query.progress.panes)
        db.run("INSERT INTO progress VALUES (?, ?, ?)", values)
    return True


def accept(
    db: Statements,
    declared: Sequence[Declaration],
    reset: Container[str],
    forget: Iterable[str],
    now_ns: int,
) -> None:
    """The queries of a start; those that are known and no longer declared keep their places."""
    names = {query.name for query in declared}
    db.run_many("DELETE FROM queries WHERE name = ?", [(name,) for name in forget])
    for query in declared:
        register(db, query, reset=query.name in reset)
    db.run_many("DELETE FROM undeclared WHERE query = ?", [(name,) for name in names])
    left = [(row[0], now_ns) for row in db.rows("SELECT name FROM queries") if row[0] not in names]
    db.run_many("INSERT INTO undeclared VALUES (?, ?) ON CONFLICT DO NOTHING", left)
