"""Values that a sink can never write, refused before their commit.

After it a query's later results would wait for them without end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as kinds


def refuse_null_keys(rows: pa.Table, key: Iterable[str]) -> None:
    """``ValueError`` if a row has no key: nothing would ever replace it.

    To a unique index no NULL equals another. A topic keeps the order of records with the same key
    alone, and a compacted one takes none without a key.
    """
    for name in key:
        if rows.column(name).null_count:
            raise ValueError(
                f"{rows.column(name).null_count} rows have NULL in {name!r}, a column of their "
                "key, and could not be replaced; group by coalesce(...) of it, or leave them out"
            )


def refuse_no_text(rows: pa.Table) -> None:
    """``ValueError`` if a text is not UTF-8, or a struct's fields cannot be told apart by name.

    Spark makes both (``CAST(x AS STRING)`` of any bytes, ``named_struct`` of any names); what
    writes texts or JSON has no form for them.
    """
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for struct in _structs(column.type):
            names = [field.name for field in struct]
            if len(set(names)) < len(names):
                raise ValueError(
                    f"column {name!r} holds a struct that has two fields of one name, "
                    f"{', '.join(names)}; rename one in the query"
                )
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            if "UTF8" not in str(error):
                raise
            raise ValueError(
                f"column {name!r} holds a text that is not UTF-8; "
                f"use make_valid_utf8({name}) in the query"
            ) from None


def _structs(kind: pa.DataType) -> Iterator[pa.StructType]:
    """The struct types in a type, at any depth."""
    if kinds.is_struct(kind):
        yield kind
    for at in range(kind.num_fields):
        yield from _structs(kind.field(at).type)
