"""Arrow rows as JSON lines and as CSV: what the text sinks write."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.types as kinds

from daybreak.spark.sinks.refusals import refuse_no_text

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # arithmetic alone; a zone is added to the text
DAY_US = 86_400_000_000
#: The calendar repeats itself every 400 years.
_ERA_US = 146_097 * DAY_US


def write_json_lines(table: pa.Table, file: BinaryIO) -> None:
    """One object a line, every column in it, null where there is none."""
    refuse_no_text(table)
    for row in plain_rows(table):
        file.write(f"{_json(row)}\n".encode())


def write_csv(table: pa.Table, file: BinaryIO, *, header: bool, delimiter: str) -> None:
    """Texts in quotes, null as nothing between two delimiters, nested values as JSON."""
    refuse_no_text(table)
    texts = [
        column if _is_simple(field.type) or kinds.is_floating(field.type) else _text_column(column)
        for column, field in zip(table.columns, table.schema, strict=True)
    ]
    shown = pa.table(texts, names=table.column_names)
    # For an empty chunk Arrow writes its buffer as it was, with whatever lay in that memory.
    filled = [batch for batch in shown.to_batches() if batch.num_rows]
    options = pa_csv.WriteOptions(include_header=header, delimiter=delimiter)
    pa_csv.write_csv(pa.Table.from_batches(filled, shown.schema), file, options)


def plain_rows(table: pa.Table) -> Iterable[dict[str, Any]]:
    """Rows with values in the words JSON has.

    Instants and dates in ISO 8601, instants in UTC with Z; decimals and floats JSON cannot hold
    become texts, bytes base64, intervals ISO 8601 seconds. A map's keys become texts.
    """
    columns = [_plain_column(column) for column in table.columns]
    for values in zip(*columns, strict=True):
        yield dict(zip(table.column_names, values, strict=True))


def _plain_column(column: pa.ChunkedArray) -> list[Any]:
    return [value for chunk in column.chunks for value in _plain(chunk)]


def _plain(array: pa.Array) -> list[Any]:  # noqa: PLR0911  # one line a type
    """The values of an array. Not by ``to_pylist``: Python has no instant beyond year 9999."""
    kind = array.type
    if _is_simple(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if kinds.is_timestamp(kind):
        zone = "" if kind.tz is None else "Z"
        numbers = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).to_pylist()
        return [None if us is None else f"{_moment(us)}{zone}" for us in numbers]
    if kinds.is_date32(kind):
        days = array.cast(pa.int32()).to_pylist()
        return [None if day is None else _moment(day * DAY_US)[: -len("T00:00:00")] for day in days]
    if kinds.is_struct(kind):
        return _plain_structs(array)
    if kinds.is_map(kind):
        keys, items = (_slots(array, below) for below in (array.keys, array.items))
        return [
            None if some is None else {_key(k): v for k, v in zip(some, held or [], strict=True)}
            for some, held in zip(keys, items, strict=True)
        ]
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _slots(array, array.values)
    return [_plain_value(value) for value in array.to_pylist()]


def _plain_structs(array: pa.StructArray) -> list[Any]:
    names = [field.name for field in array.type]
    below = [_plain(array.field(at)) for at in range(len(names))]
    rows: Iterable[Any] = zip(*below, strict=True) if below else ((),) * len(array)
    is_valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if valid else None
        for valid, row in zip(is_valid, rows, strict=True)
    ]


def _slots(array: pa.ListArray | pa.MapArray, below: pa.Array) -> list[list[Any] | None]:
    """The values below each entry of a list or map."""
    ends = array.offsets.to_pylist()
    values = _plain(below.slice(ends[0], ends[-1] - ends[0]))
    is_valid = array.is_valid().to_pylist()
    return [
        values[begin - ends[0] : end - ends[0]] if valid else None
        for valid, begin, end in zip(is_valid, ends[:-1], ends[1:], strict=True)
    ]


def _plain_value(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return f"PT{Decimal(value // timedelta(microseconds=1)).scaleb(-6).normalize():f}S"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def _moment(us: int) -> str:
    """Microseconds since 1970 in ISO 8601, whose years beyond four digits have a sign."""
    year, rest = year_and_rest(us)
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+05}"
    return f"{shown}{rest}"


def year_and_rest(us: int) -> tuple[int, str]:
    """The year of an instant, in microseconds since 1970, and what ISO 8601 writes after it.

    Python's own calendar ends with year 9999. The year before 1 is 0.
    """
    eras, rest = divmod(us, _ERA_US)
    at = _EPOCH + timedelta(microseconds=rest)
    return at.year + 400 * eras, at.isoformat()[4:]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _key(shown: Any) -> str:
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


def _text_column(column: pa.ChunkedArray) -> pa.Array:
    shown = _plain_column(column)
    texts = [v if v is None or isinstance(v, str) else _json(v) for v in shown]
    return pa.array(texts, pa.string())
