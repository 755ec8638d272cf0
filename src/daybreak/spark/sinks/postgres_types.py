"""Arrow's types in PostgreSQL: how a column is made, and what a column can take."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

_JSON = frozenset({"json", "jsonb"})
_TEXT = frozenset({"text", "character varying", "character", "citext", "uuid", "name"}) | _JSON
#: Types of PostgreSQL that are known; a text may go into any other one.
_KNOWN = _TEXT | {
    "smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean", "bytea",
    "date", "interval", "timestamp with time zone", "timestamp without time zone",
}  # fmt: skip
_WHOLE = ("smallint", "integer", "bigint")


def column_ddl(kind: pa.DataType) -> str:
    """The type of a new column for values of an Arrow type."""
    return sorted(_fitting(kind), key=_preference(kind).index)[0]


def mismatch(kind: pa.DataType, column: str) -> str | None:
    """Why values of an Arrow type cannot go into a column; None if they can."""
    if kinds.is_null(kind) or column in _fitting(kind):
        return None
    if _is_text(kind) and column not in _KNOWN:
        return None  # an enum or domain of the user's: PostgreSQL decides
    return f"the query gives {kind}"


def refuse_nul(rows: pa.Table) -> None:
    """``ValueError`` if a text holds a NUL character, which PostgreSQL cannot store."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if _is_text(column.type) and pc.any(pc.match_substring(column, "\0")).as_py():
            raise ValueError(
                f"column {name!r} holds a NUL character, which PostgreSQL cannot store; "
                f"use replace({name}, char(0), '') in the query"
            )


def as_csv_columns(rows: pa.Table) -> pa.Table:
    """The rows in the texts that PostgreSQL reads; bytes in its hexadecimal form."""
    for at, field in enumerate(rows.schema):
        if kinds.is_binary(field.type) or kinds.is_large_binary(field.type):
            texts = [
                None if value is None else "\\x" + value.hex()
                for value in rows.column(at).to_pylist()
            ]
            rows = rows.set_column(at, field.name, pa.array(texts, pa.string()))
    return rows


def _preference(kind: pa.DataType) -> list[str]:
    first = {True: ["jsonb"], False: ["text"]}[kinds.is_nested(kind)]
    return [*first, *_WHOLE, "double precision", "real", *sorted(_KNOWN)]


def _fitting(kind: pa.DataType) -> frozenset[str]:  # one line a type
    """Columns that hold every value of a type."""
    if kinds.is_integer(kind):
        narrowest = {8: 0, 16: 0, 32: 1, 64: 2}[kind.bit_width]
        return frozenset({*_WHOLE[narrowest:], "numeric"})
    if kinds.is_floating(kind):
        single = {"real"} if kind.bit_width <= 32 else set()
        return frozenset({"double precision"} | single)
    if kinds.is_timestamp(kind):
        # The zone would be dropped, or added, without a word.
        zone = "without" if kind.tz is None else "with"
        return frozenset({f"timestamp {zone} time zone"})
    if kinds.is_nested(kind):
        return _JSON | {"text"}
    if _is_text(kind):
        return _TEXT
    plain = (
        (kinds.is_boolean, "boolean"), (kinds.is_decimal, "numeric"), (kinds.is_date, "date"),
        (kinds.is_duration, "interval"), (kinds.is_binary, "bytea"),
        (kinds.is_large_binary, "bytea"),
    )  # fmt: skip
    return frozenset({next((name for test, name in plain if test(kind)), "text")})


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))
