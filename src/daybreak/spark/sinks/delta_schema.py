"""Rows that a Delta table takes, tables we can append to, and statistics of their files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from daybreak.model.errors import ConfigError

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

#: Properties of a table that only writers honour that know them.
_CONSTRAINTS = "delta.constraints."
_MAPPING = "delta.columnMapping.mode"
_EXPRESSIONS = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def delta_schema(schema: pa.Schema, place: str = "") -> Schema:
    """The schema in Delta's types; ``ConfigError`` if Delta has no such type."""
    from deltalake import Schema

    for field in schema:
        if kinds.is_duration(field.type) or kinds.is_null(field.type):
            raise ConfigError(
                place, f"sink: column {field.name!r} is {field.type}, which Delta does not have",
                "cast it in the query: to STRING or BIGINT",
            )  # fmt: skip
    try:
        return Schema.from_arrow(schema)
    except Exception as error:
        finding = f"sink: Delta does not take its columns ({error})"
        raise ConfigError(place, finding, "cast them in the query") from error


def check_table(
    table: DeltaTable, schema: pa.Schema, partition_by: tuple[str, ...], place: str, path: Path
) -> None:
    """``ConfigError`` if rows of this schema cannot be appended to a table."""
    found = tuple(table.metadata().partition_columns)
    if found != partition_by:
        raise ConfigError(
            place,
            f"sink: the table in {path} is partitioned by {list(found)}, "
            f"the query's by {list(partition_by)}",
            f"give partition_by = {list(found)}, or choose another path",
        )
    configuration = table.metadata().configuration
    limits = [key for key in configuration if key.startswith(_CONSTRAINTS)]
    if configuration.get(_MAPPING, "none") != "none":
        limits.append(_MAPPING)
    known = {field.name: field for field in table.schema().fields}
    limits += [f.name for f in known.values() if any(key in f.metadata for key in _EXPRESSIONS)]
    if limits:
        raise ConfigError(
            place,
            f"sink: the table in {path} has rules that only its own writers apply "
            f"({', '.join(limits)})",
            "write to a table without them, and merge from there",
        )
    for field in delta_schema(schema, place).fields:
        here = known.get(field.name)
        if here is None or here.type != field.type:
            other = "no such column" if here is None else f"{here.type}"
            raise ConfigError(
                place,
                f"sink: column {field.name!r} is {field.type}, in the table in {path} {other}",
                "choose another path, change the query, or alter the table",
            )
    for field in table.schema().fields:
        if not field.nullable:
            raise ConfigError(
                place,
                f"sink: column {field.name!r} of the table in {path} must not be null",
                "columns of a query may be null: write to a table that allows it",
            )


#: As other writers do: beyond so many columns statistics cost more than they save.
MOST_COLUMNS = 32
_LONGEST_TEXT = 32


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Number of rows, and per column nulls and bounds where they are exact."""
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name in rows.column_names[:MOST_COLUMNS]:
        column = rows.column(name)
        if kinds.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        if (
            kinds.is_integer(column.type)
            or kinds.is_string(column.type)
            or kinds.is_date(column.type)
        ):
            bounds = pc.min_max(column)
            shown = [_shown(bounds["min"]), _shown(bounds["max"])]
            if None not in shown:
                lows[name], highs[name] = shown
    return {
        "numRecords": rows.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls,
    }  # fmt: skip


def _shown(of: pa.Scalar) -> Any:
    """None for a bound that is left out: a long text is no longer one when it is cut.

    So is a date that Python's calendar does not have, and a text that is not UTF-8.
    """
    try:
        bound = of.as_py()
    except (OverflowError, UnicodeDecodeError):
        return None
    if isinstance(bound, str):
        return bound if len(bound) <= _LONGEST_TEXT else None
    return bound.isoformat() if hasattr(bound, "isoformat") else bound
