"""Arrow rows as JSON lines and as CSV: what the text sinks write."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.types as kinds


def write_json_lines(table: pa.Table, file: BinaryIO) -> None:
    """One object a line, every column in it, null where there is none."""
    simple = [_is_simple(field.type) for field in table.schema]
    columns = [
        column.to_pylist() if easy else [plain(value) for value in _pylist(column)]
        for column, easy in zip(table.columns, simple, strict=True)
    ]
    for values in zip(*columns, strict=True):
        row = dict(zip(table.column_names, values, strict=True))
        file.write(f"{_json(row)}\n".encode())


def write_csv(table: pa.Table, file: BinaryIO, *, header: bool, delimiter: str) -> None:
    """Texts in quotes, null as nothing between two delimiters, nested values as JSON."""
    texts = [
        column if _is_simple(field.type) or kinds.is_floating(field.type) else _text_column(column)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]
    options = pa_csv.WriteOptions(include_header=header, delimiter=delimiter)
    pa_csv.write_csv(pa.table(texts, names=table.column_names), file, options)


def plain(value: Any) -> Any:  # noqa: PLR0911  # one line a type
    """A value in the words JSON has: instants and dates in ISO 8601, instants in UTC with Z.

    Decimals and floats JSON cannot hold become texts, bytes base64, intervals ISO 8601 seconds.
    """
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return f"PT{Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize():f}S"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case Mapping():
            return {_key(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _key(key: Any) -> str:
    shown = plain(key)
    return shown if isinstance(shown, str) else _json(shown)


def _is_simple(kind: pa.DataType) -> bool:
    """Types that JSON and CSV both write as they are."""
    return bool(
        kinds.is_boolean(kind)
        or kinds.is_integer(kind)
        or kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_null(kind)
    )


def _pylist(column: pa.ChunkedArray) -> list[Any]:
    return column.to_pylist(maps_as_pydicts="lossy")  # type: ignore[no-any-return]


def _text_column(column: pa.ChunkedArray) -> pa.Array:
    shown = (plain(value) for value in _pylist(column))
    texts = [v if v is None or isinstance(v, str) else _json(v) for v in shown]
    return pa.array(texts, pa.string())
