"""Rows divided by the values of columns, in folders named as Hive, Spark and Delta do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from daybreak.model.errors import ConfigError, suggestion

#: Stands for null in the name of a folder.
NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
#: File systems of Linux and macOS have no longer name of a file or folder.
_LONGEST_NAME_BYTES = 255
#: Linux takes paths of 4096 bytes; the rest is for the sink's own path and the file's name.
_LONGEST_PATH_BYTES = 3072
#: In days since 1970: what every reader takes for a date.
_YEAR_1, _YEAR_10000 = -719_162, 2_932_897
_SPECIAL = frozenset("\"#%'*/:=?\\\x7f{[]^")


class UnfitPartition(Exception):
    """A value cannot be the name of a folder."""


class Partition(NamedTuple):
    """The rows with the same values of the partition columns, without these columns."""

    #: By column, as texts; None for null.
    values: dict[str, str | None]
    rows: pa.Table

    @property
    def folder(self) -> PurePosixPath:
        """Such as ``day=2024-02-29``; special characters are escaped by percent signs."""
        parts = (f"{_escaped(name)}={_folder(value)}" for name, value in self.values.items())
        # A name that begins with a dot is hidden.
        return PurePosixPath(*(f"%2E{p[1:]}" if p.startswith(".") else p for p in parts))


def partitions(table: pa.Table, by: Sequence[str]) -> Iterator[Partition]:
    """The rows by partition, in order of their first rows; all of them at once without ``by``."""
    if not by:
        yield Partition({}, table)
        return
    places: dict[tuple[Any, ...], list[int]] = {}
    values = zip(*(_values(table, name) for name in by), strict=True)
    for at, key in enumerate(values):
        places.setdefault(key, []).append(at)
    rest = table.drop_columns(list(by))
    for key, rows in places.items():
        texts = {name: _text(name, value) for name, value in zip(by, key, strict=True)}
        part = Partition(texts, rest.take(pa.array(rows, pa.int64())))
        _refuse_long_names(part)
        yield part


def check_partition_by(by: Sequence[str], schema: pa.Schema | None, place: str) -> None:
    """``ConfigError`` unless rows of this schema can be divided by these columns."""
    if len(set(by)) < len(by):
        raise _error(place, f"names {', '.join(by)}", "name each column once")
    if schema is None:
        return
    for name in by:
        if name not in schema.names:
            raise _error(
                place, f"{name!r} is not one of its columns", suggestion(name, schema.names)
            )
        kind = schema.field(name).type
        if not _fits(kind):
            remedy = "cast it in the query: to DATE, INT, BOOLEAN or STRING"
            raise _error(place, f"column {name!r} is {kind}", remedy)
    if by and len(by) == len(schema.names):
        raise _error(place, "names all columns", "leave one out: files would hold none")


def _error(place: str, finding: str, remedy: str) -> ConfigError:
    return ConfigError(place, f"sink: partition_by {finding}", remedy)


def _fits(kind: pa.DataType) -> bool:
    return bool(
        kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_integer(kind)
        or kinds.is_boolean(kind)
        or kinds.is_date(kind)
    )


def _values(table: pa.Table, name: str) -> list[Any]:
    column = table.column(name)
    if kinds.is_date(column.type):
        days = pc.min_max(column.cast(pa.int32())).as_py()
        if not _YEAR_1 <= (days["min"] or 0) <= (days["max"] or 0) < _YEAR_10000:
            raise UnfitPartition(
                f"partition column {name!r} holds a date beyond the years 1 to 9999, which readers "
                f"of folders do not know; cast {name} to STRING in the query"
            )
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        raise UnfitPartition(
            f"partition column {name!r} holds a text that is not UTF-8; "
            f"use make_valid_utf8({name}) in the query"
        ) from None


def _refuse_long_names(part: Partition) -> None:
    """``UnfitPartition`` if a file system has no room for the name of the folder."""
    sizes = {c: len(n.encode()) for c, n in zip(part.values, part.folder.parts, strict=True)}
    for column, size in sizes.items():
        if size > _LONGEST_NAME_BYTES:
            raise UnfitPartition(
                f"partition column {column!r} makes a folder's name of {size} bytes, more than "
                f"{_LONGEST_NAME_BYTES}; use left({column}, 40) or a hash of it in the query"
            )
    if sum(sizes.values()) > _LONGEST_PATH_BYTES:
        raise UnfitPartition(
            f"partition columns make a path of {sum(sizes.values())} bytes, more than "
            f"{_LONGEST_PATH_BYTES}; partition by fewer or shorter columns"
        )


def _text(name: str, value: Any) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case date():
            return value.isoformat()
        case "" | "__HIVE_DEFAULT_PARTITION__":
            raise UnfitPartition(
                f"partition column {name!r} is {value!r}, which readers take for null; "
                f"use nullif({name}, {value!r}) in the query"
            )
        case _:
            return str(value)


def _folder(value: str | None) -> str:
    return NULL_FOLDER if value is None else _escaped(value)


def _escaped(text: str) -> str:
    """As Hive and Spark escape it: letters beyond ASCII stay, readers decode no UTF-8."""
    return "".join(f"%{ord(c):02X}" if c < " " or c in _SPECIAL else c for c in text)
