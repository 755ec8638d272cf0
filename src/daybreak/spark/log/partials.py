"""Partial aggregates of panes, as the commit log keeps them.

They belong to a query, not to a stream: the log keeps them beside the query's cursor, in the same
transaction that moves it, and deletes them with the query. So they always stand for exactly the
rows before the cursor, and a job that is given up leaves none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from daybreak.model import ConfigError
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import PartialRows
from daybreak.spark.log.tables import TableCache, ipc_bytes
from daybreak.spark.log.widening import SchemaChanged, widened

#: Longer ones are kept in pieces: SQLite takes up to a billion bytes at once.
PIECE_BYTES = 2**26


class Partials:
    """The partial aggregates of all queries of a run. Methods may be called from any thread."""

    def __init__(self, log: CommitLog, memory_bytes: int = 2**27) -> None:
        """``memory_bytes``: how much of them stays in memory."""
        self._log = log
        self._guard = threading.Lock()
        self._tables: TableCache[int] = TableCache(memory_bytes)

    def tables(self, query: str, schema: pa.Schema) -> list[pa.Table]:
        """What a query keeps, oldest first, with the columns it makes now.

        ``ConfigError`` if those are others than it made, and the values would not be the same.
        """
        return [self._table(query, partial, schema) for partial in self._log.partials(query)]

    def _table(self, query: str, partial: int, schema: pa.Schema) -> pa.Table:
        with self._guard:
            table = self._tables.get(partial)
        if table is not None and table.schema.equals(schema):
            return table
        try:
            table = widened(self._load(partial), schema)
        except (pa.ArrowException, SchemaChanged) as error:
            raise ConfigError(
                f"query {query!r}",
                f"cannot use the partial aggregates it has kept ({str(error).splitlines()[0]})",
                f"declare its streams as they were, or restart it with --reset-query {query}",
            ) from None
        with self._guard:
            self._tables.put(partial, table)
        return table

    def _load(self, partial: int) -> pa.Table:
        return pa.ipc.open_stream(self._log.partial_content(partial)).read_all()


def kept(table: pa.Table, pane: str, needed_us: int) -> Iterator[PartialRows]:
    """New partials as the log keeps them: those of panes that end after ``needed_us``.

    ``pane``: the column with the end of each pane.
    """
    table = table.filter(pc.greater(table[pane], needed_us))
    pieces = max(1, -(-table.nbytes // PIECE_BYTES))
    rows = max(1, -(-table.num_rows // pieces))
    for first in range(0, table.num_rows, rows):
        piece = table.slice(first, rows)
        yield PartialRows(pc.max(piece[pane]).as_py(), ipc_bytes(piece))
