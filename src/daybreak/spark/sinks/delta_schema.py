"""Which rows a Delta table takes, and which tables we can append to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
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
