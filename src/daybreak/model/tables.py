"""Reads tables strictly: every key is typed, every unknown key is an error with a hint.

Places name the file, the line where it can be found, and the table: a user should never have
to search for what a message talks about.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from daybreak.model.errors import ConfigError, suggestion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

P = TypeVar("P")
D = TypeVar("D", bound="DataclassInstance")


class Origin(Protocol):
    """Where a table comes from, for messages."""

    def place(self, path: tuple[str, ...], key: str | None = None) -> str: ...


@dataclass(frozen=True)
class Named:
    """A table that is not of a file: from JSON, or from the arguments of a Python call."""

    name: str

    def place(self, path: tuple[str, ...], key: str | None = None) -> str:
        return f"{self.name}: {'.'.join(path)}" if path else self.name


@dataclass(frozen=True)
class Document:
    """A TOML file: its data, and its text for finding lines again."""

    name: str
    text: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> Document:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                str(path), f"cannot be read ({error})", "check the path and the rights"
            ) from error
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, name: str = "pipeline") -> Document:
        try:
            return cls(name, text, tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(name, f"is not valid TOML: {error}", "correct the syntax") from error

    def place(self, path: tuple[str, ...], key: str | None = None) -> str:
        """``file:line: [table]``; the line is left out where it cannot be told."""
        line = _line_of(self.text, path, key)
        where = f"{self.name}:{line}" if line else self.name
        table = f" [{'.'.join(path)}]" if path else ""
        return f"{where}:{table}" if table else where

    def table(self) -> Table:
        return Table(self, (), self.data)


class Table:
    """One table being read, of TOML or like one of TOML.

    Call ``done()`` last: it refuses keys nobody asked for.
    """

    def __init__(self, document: Origin, path: tuple[str, ...], data: Mapping[str, Any]) -> None:
        self.document = document
        self.path = path
        self.data = data
        self.known: set[str] = set()

    def error(self, finding: str, remedy: str, key: str | None = None) -> ConfigError:
        return ConfigError(self.document.place(self.path, key), finding, remedy)

    def get(self, key: str, kind: type[P], default: P | None = None) -> P | None:
        """The value of ``key`` if it is of this type; ``default`` if it is left out."""
        self.known.add(key)
        if key not in self.data:
            return default
        return self._typed(key, self.data[key], kind)

    def need(self, key: str, kind: type[P], remedy: str) -> P:
        value = self.get(key, kind)
        if value is None:
            raise self.error(f"{key} is missing", remedy)
        return value

    def strings(self, key: str) -> tuple[str, ...] | None:
        items = self.get(key, list)
        if items is None:
            return None
        return tuple(self._typed(key, item, str) for item in items)

    def child(self, key: str) -> Table | None:
        data = self.get(key, dict)
        return None if data is None else Table(self.document, (*self.path, key), data)

    def children(self, key: str) -> Iterator[tuple[str, Table]]:
        """The named tables below ``key``, such as every ``[queries.NAME]``."""
        parent = self.child(key)
        if parent is None:
            return
        for name, data in parent.data.items():
            if not isinstance(data, dict):
                raise parent.error(f"{name} is {_shown(data)}", "make it a table", name)
            yield name, Table(self.document, (*parent.path, name), data)

    def done(self) -> None:
        for key in self.data:
            if key not in self.known:
                raise self.error(f"unknown key {key!r}", suggestion(key, self.known), key)

    def _typed(self, key: str, value: Any, kind: type[P]) -> P:
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value) if abs(value) < 2**53 else math.inf
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.error(
                f"{key} is {_shown(value)}", f"give {_KIND_NAMES.get(kind, kind.__name__)}", key
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(f"{key} is {value}", "give a finite number", key)
        return value


_KIND_NAMES: dict[type, str] = {
    str: "a text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    list: "a list in [ ]",
    dict: "a table",
}


def params_from(table: Table, kind: type[D]) -> D:
    """Fills a dataclass of simple fields (numbers, texts, choices, flags) from a table."""
    hints = get_type_hints(kind)
    values: dict[str, Any] = {}
    for field in fields(kind):
        table.known.add(field.name)
        if field.name in table.data:
            values[field.name] = _field(table, field.name, hints[field.name])
    table.done()
    try:
        return kind(**values)
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error


def flat(table: Table, what: str) -> dict[str, str]:
    """Options as Spark takes them: texts by dotted keys, whether or not a key stands in quotes."""
    found: dict[str, str] = {}
    for key, value in table.data.items():
        if isinstance(value, dict):
            below = flat(Table(table.document, (*table.path, key), value), what)
            found |= {f"{key}.{inner}": text for inner, text in below.items()}
        elif isinstance(value, bool):
            found[key] = str(value).lower()
        elif isinstance(value, str | int | float):
            found[key] = str(value)
        else:
            raise table.error(
                f"{what} {key} is {_shown(value)}", f"{what}s are texts, numbers or flags", key
            )
    return found


def _field(table: Table, key: str, hint: Any) -> Any:
    choices = [h for h in _alternatives(hint) if h is not NoneType]
    for choice in choices:
        if get_origin(choice) is Literal:
            value = table.get(key, str)
            if value not in get_args(choice):
                raise table.error(f"{key} = {value!r}", suggestion(str(value), get_args(choice)))
            return value
    value = table.data[key]
    exact = [c for c in choices if isinstance(value, c)]
    return table.get(key, exact[0] if exact else choices[-1])


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _line_of(text: str, path: tuple[str, ...], key: str | None) -> int | None:
    """Best effort: the line of ``key`` inside the table, else of the table's header."""
    lines = text.splitlines()
    start = 0
    for depth in range(len(path), 0, -1):
        header = re.compile(
            r"\s*\[\[?\s*" + r"\s*\.\s*".join(_name(p) for p in path[:depth]) + r"\s*\]"
        )
        found = next((i for i, line in enumerate(lines) if header.match(line)), None)
        if found is not None:
            start = found + 1
            key = path[depth] if depth < len(path) else key
            break
    else:
        key = path[0] if path else key
    if key is not None:
        assignment = re.compile(r"\s*" + _name(key) + r"\s*[.=]")
        for i in range(start, len(lines)):
            if assignment.match(lines[i]):
                return i + 1
            if lines[i].lstrip().startswith("[") and i > start:
                break
    return start or None


def _name(part: str) -> str:
    return f"[\"']?{re.escape(part)}[\"']?"
