"""The key by which a place replaces rows."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa


def refuse_null_keys(rows: pa.Table, key: Iterable[str]) -> None:
    """``ValueError`` if a row has no key: nothing would ever replace it.

    To a unique index no NULL equals another. A topic keeps the order of records with the same key
    alone, and a compacted one takes none without a key.
    """
    for name in key:
        if rows.column(name).null_count:
            raise ValueError(
                f"{rows.column(name).null_count} rows have NULL in {name!r}, a column of their "
                "key, and could not be replaced; use coalesce() in the query, or leave them out"
            )
