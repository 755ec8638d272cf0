"""Arrow tables of the log: as bytes, and those used last in memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

import pyarrow as pa

from daybreak.model import ConfigError

#: Column that segments add: when ingest saw the row, in ns since 1970.
ARRIVAL = "_arrival_ns"

STAMP = pa.field(ARRIVAL, pa.int64(), nullable=False)

K = TypeVar("K")


def stamped(stream: str, table: pa.Table, arrival_ns: int) -> pa.Table:
    """The rows of a stream with the instant at which they arrived."""
    if ARRIVAL in table.column_names:
        raise ConfigError(
            f"stream {stream!r}", f"has a column {ARRIVAL}, which is ours", "rename that column"
        )
    stamp = pa.repeat(pa.scalar(arrival_ns, pa.int64()), table.num_rows)
    return table.append_column(STAMP, stamp)


def joined_rows(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of tables that have this schema, in order.

    Tables without rows leave no chunk: an empty chunk is a trap for every reader of the result.
    """
    filled = [table for table in tables if table.num_rows]
    return pa.concat_tables(filled) if filled else schema.empty_table()


def ipc_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


class TableCache(Generic[K]):
    """The tables used last, up to a number of bytes. Not for several threads at once."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._held: OrderedDict[K, pa.Table] = OrderedDict()
        self._bytes = 0

    def put(self, key: K, table: pa.Table) -> None:
        self.drop(key)
        self._held[key] = table
        self._bytes += table.nbytes
        while self._bytes > self._capacity_bytes:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= oldest.nbytes

    def get(self, key: K) -> pa.Table | None:
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def drop(self, key: K) -> None:
        table = self._held.pop(key, None)
        if table is not None:
            self._bytes -= table.nbytes
