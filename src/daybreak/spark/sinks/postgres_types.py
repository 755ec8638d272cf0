"""Arrow's types in PostgreSQL: how a column is made, and what a column can take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from daybreak.spark.sinks.refusals import refuse_no_text
from daybreak.spark.sinks.text_formats import DAY_US, plain_rows, year_and_rest

_JSON = frozenset({"json", "jsonb"})
_TEXT = frozenset({"text", "character varying", "character", "citext", "uuid", "name"}) | _JSON
#: Types of PostgreSQL that are known; a text may go into any other one.
_KNOWN = _TEXT | {
    "smallint", "integer", "bigint", "numeric", "real", "double precision", "boolean", "bytea",
    "date", "interval", "timestamp with time zone", "timestamp without time zone",
}  # fmt: skip
_WHOLE = ("smallint", "integer", "bigint")
#: Digits that an integer of so many bits may have, and that seconds have behind the point.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_DECIMALS_OF_SECONDS = 6
#: In days since 1970: what PostgreSQL's dates reach, of which its instants reach all Spark has.
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_905
_YEAR_1, _YEAR_10000 = -719_162, 2_932_897


def column_ddl(kind: pa.DataType) -> str:
    """The type of a new column for values of an Arrow type."""
    return sorted(_fitting(kind), key=_preference(kind).index)[0]


def mismatch(kind: pa.DataType, column: str, limited: str = "") -> str | None:
    """Why values of an Arrow type cannot go into a column; None if they can.

    ``limited``: the column's type with its limits, by which PostgreSQL rounds without a word.
    """
    if kinds.is_null(kind):
        return None
    if column in _fitting(kind):
        return f"the query gives {kind}" if _is_rounded(kind, limited) else None
    if _is_text(kind) and column not in _KNOWN:
        return None  # an enum or domain of the user's: PostgreSQL decides
    return f"the query gives {kind}"


def longest_text(limited: str) -> int | None:
    """How many characters a column of texts takes, if it says so."""
    found = re.fullmatch(r"character varying\((\d+)\)|character\((\d+)\)", limited)
    return None if found is None else int(found[1] or found[2])


def _is_rounded(kind: pa.DataType, limited: str) -> bool:
    """Whether the limits of a column of numbers or times are narrower than a type."""
    digits = [int(number) for number in re.findall(r"-?\d+", limited)]
    if limited.startswith("numeric(") and (kinds.is_decimal(kind) or kinds.is_integer(kind)):
        precision, scale = digits
        decimals = kind.scale if kinds.is_decimal(kind) else 0
        whole = kind.precision - kind.scale if kinds.is_decimal(kind) else _DIGITS[kind.bit_width]
        return scale < decimals or precision - scale < whole
    if limited.startswith("timestamp("):
        return digits[0] < _DECIMALS_OF_SECONDS
    return limited.startswith("interval") and limited not in ("interval", "interval(6)")


def refuse_long_texts(rows: pa.Table, longest: Mapping[str, int]) -> None:
    """``ValueError`` if a text is longer than its column takes."""
    for name in longest.keys() & set(rows.column_names):
        column = rows.column(name)
        length = pc.max(pc.utf8_length(column)).as_py() if _is_text(column.type) else None
        if length is not None and length > longest[name]:
            raise ValueError(
                f"column {name!r} holds a text of {length} characters, more than the "
                f"{longest[name]} of its table; use left({name}, {longest[name]}) in the query, or "
                "make the column longer and start again"
            )


def refuse_unstorable(rows: pa.Table) -> None:
    """``ValueError`` if PostgreSQL can never store a value: NUL, or a date beyond its calendar."""
    refuse_no_text(rows)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if any(_may_hold_nul(chunk) for chunk in column.chunks) and _holds_nul(rows, name):
            text = name if _is_text(column.type) else "..."
            raise ValueError(
                f"column {name!r} holds a NUL character, which PostgreSQL cannot store; "
                f"use replace({text}, char(0), '') in the query"
            )
        low, high = _day_bounds(column)
        if low < _FIRST_DAY or high > _LAST_DAY:
            raise ValueError(
                f"column {name!r} holds a date before 4714-11-24 BC or after 5874897-12-31, which "
                f"PostgreSQL cannot store; cast {name} to STRING in the query, or leave it out"
            )


def as_csv_columns(rows: pa.Table) -> pa.Table:
    """The rows in the texts that PostgreSQL reads, where CSV's own would be others."""
    for at, field in enumerate(rows.schema):
        texts = _texts(rows.column(at))
        if texts is not None:
            rows = rows.set_column(at, field.name, pa.array(texts, pa.string()))
    return rows


def _texts(column: pa.ChunkedArray) -> list[str | None] | None:
    """Bytes in hexadecimal form, spans of time, and years before 1 or after 9999."""
    kind = column.type
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
    if kinds.is_duration(kind):
        return [None if us is None else _span(us) for us in _microseconds(column)]
    low, high = _day_bounds(column)
    if low >= _YEAR_1 and high < _YEAR_10000:
        return None
    if kinds.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if day is None else _moment(day * DAY_US, date=True) for day in days]
    return [None if us is None else _moment(us) for us in _microseconds(column)]


def _microseconds(column: pa.ChunkedArray) -> list[int | None]:
    kind = column.type
    unit = pa.duration("us") if kinds.is_duration(kind) else pa.timestamp("us", kind.tz)
    return column.cast(unit).cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]


def _moment(us: int, *, date: bool = False) -> str:
    """An instant, or a day without a time; PostgreSQL counts years before 1 from 1 BC."""
    year, rest = year_and_rest(us)
    if date:
        rest = rest.partition("T")[0]
    return f"{year:04}{rest}" if year > 0 else f"{1 - year:04}{rest} BC"


def _span(us: int) -> str:
    """Whole numbers only: PostgreSQL reads parts of a second as floats, which lose digits."""
    seconds, rest = divmod(abs(us), 1_000_000)
    sign = "-" if us < 0 else ""
    return f"{sign}{seconds} seconds {sign}{rest} microseconds"


def _day_bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    """The first and the last day of a column, since 1970; (0, 0) if it has none."""
    if kinds.is_date(column.type):
        numbers, unit = column.cast(pa.int32()), 1
    elif kinds.is_timestamp(column.type):
        numbers, unit = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), DAY_US
    else:
        return 0, 0
    bounds = pc.min_max(numbers).as_py()
    return (bounds["min"] or 0) // unit, (bounds["max"] or 0) // unit


def _may_hold_nul(array: pa.Array) -> bool:
    """Whether a text in an array or below it holds NUL, among them some that are no values of it.

    What lies below a slice, or below null, is looked at, too: that takes no Python.
    """
    kind = array.type
    if _is_text(kind):
        return bool(pc.any(pc.match_substring(array, "\0")).as_py())
    if kinds.is_struct(kind):
        return any(_may_hold_nul(array.field(at)) for at in range(kind.num_fields))
    if kinds.is_map(kind):
        return _may_hold_nul(array.keys) or _may_hold_nul(array.items)
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _may_hold_nul(array.values)
    return False


def _holds_nul(rows: pa.Table, name: str) -> bool:
    return any(_is_nul_in(row[name]) for row in plain_rows(rows.select([name])))


def _is_nul_in(value: Any) -> bool:
    match value:
        case str():
            return "\0" in value
        case dict():
            return any(_is_nul_in(key) or _is_nul_in(below) for key, below in value.items())
        case list():
            return any(_is_nul_in(below) for below in value)
        case _:
            return False


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
