"""Reads rows of an older schema as the present one, where that loses nothing.

A stream's declared schema may change between two starts while rows of the old one are unread.
Wider integers, DOUBLE for FLOAT, wider decimals and new nullable columns keep every value as it
was. Anything else may not: a column that is gone may have been renamed, and its rows would read as
NULL.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.sql.pandas.types import from_arrow_type


class SchemaChanged(Exception):
    """Rows cannot be read as the present schema; the message names the column."""


def widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with the columns of ``schema``; ``SchemaChanged`` if that could lose any."""
    if table.schema.equals(schema):
        return table
    check_widening(table.schema, schema)
    columns = []
    for field in schema:
        if field.name not in table.column_names:
            columns.append(pa.chunked_array([pa.nulls(table.num_rows, field.type)]))
            continue
        column = table[field.name]
        if column.null_count and not field.nullable:
            raise SchemaChanged(f"column {field.name!r} holds NULL and must not now")
        columns.append(column if column.type.equals(field.type) else column.cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def check_widening(old: pa.Schema, new: pa.Schema) -> None:
    """``SchemaChanged`` if rows of the old schema cannot be read as the new one."""
    for field in old:
        if field.name not in new.names:
            raise SchemaChanged(f"column {field.name!r} is gone")
        now = new.field(field.name).type
        if not _widens(field.type, now):
            was, shown = _sql(field.type), _sql(now)
            raise SchemaChanged(f"column {field.name!r} was {was} and is {shown} now")
    for field in new:
        if field.name not in old.names and not field.nullable:
            raise SchemaChanged(f"column {field.name!r} is new and must not be NULL")


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether every value of one type is the same value of the other."""
    if old.equals(new):
        return True
    if kinds.is_signed_integer(old) and kinds.is_signed_integer(new):
        return bool(old.bit_width <= new.bit_width)
    if kinds.is_floating(old) and kinds.is_floating(new):
        return bool(old.bit_width <= new.bit_width)
    if kinds.is_decimal(old) and kinds.is_decimal(new):
        whole = new.precision - new.scale >= old.precision - old.scale
        return bool(whole and new.scale >= old.scale)
    if kinds.is_timestamp(old) and kinds.is_timestamp(new):
        return old.unit == new.unit and (old.tz is None) == (new.tz is None)
    return _widens_inside(old, new) or any(
        is_kind(old) and is_kind(new) for is_kind in (_is_text, _is_bytes)
    )


def _widens_inside(old: pa.DataType, new: pa.DataType) -> bool:
    if kinds.is_list(old) and kinds.is_list(new):
        return _widens(old.value_type, new.value_type)
    if kinds.is_map(old) and kinds.is_map(new):
        return _widens(old.key_type, new.key_type) and _widens(old.item_type, new.item_type)
    if kinds.is_struct(old) and kinds.is_struct(new):
        names = [[field.name for field in fields] for fields in (old, new)]
        pairs = zip(old, new, strict=False)
        return names[0] == names[1] and all(_widens(a.type, b.type) for a, b in pairs)
    return False


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _sql(kind: pa.DataType) -> str:
    """A type as a declaration has it."""
    try:
        return from_arrow_type(kind).simpleString().upper()
    except TypeError:  # no type of Spark's
        return str(kind)
