"""The ``#:`` comments above the fields of a dataclass: the documentation of its parameters."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import MISSING, Field, fields
from enum import Enum
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

_FIELD = re.compile(r"    (\w+)\s*:[^=]")
_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def field_comments(kind: type) -> dict[str, str]:
    """By field: its comment; a subclass overrides what its bases say."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        found |= _own(base)
    return found


def _own(kind: type) -> dict[str, str]:
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in inspect.getsource(kind).splitlines():
        stripped = line.strip()
        if stripped.startswith("#:") or (comment and stripped.startswith("#")):
            comment.append(stripped.lstrip("#: ").strip())
        elif (match := _FIELD.match(line)) and comment:
            found[match[1]] = " ".join(comment)
            comment = []
        else:
            comment = []
    return found


def typed_name(hint: Any) -> str:
    """As a reader of TOML knows it."""
    if get_origin(hint) is Literal:
        return ", ".join(f'`"{choice}"`' for choice in get_args(hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(f"`{choice.value}`" for choice in hint)
    if get_origin(hint) in (tuple, list):
        return "array"
    choices = [h for h in get_args(hint) if h is not NoneType]
    if choices:
        return " or ".join(typed_name(h) for h in choices)
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def default_of(field: Field[Any]) -> str:
    if field.default is MISSING:
        return "required" if field.default_factory is MISSING else "empty"
    if field.default is None or field.default == ():
        return ""
    return f"`{toml(field.default)}`"


def toml(value: Any) -> str:
    """A plain value as TOML has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def parameter_rows(kind: type) -> list[tuple[str, str, str, str]]:
    """Name, type, default and meaning of the fields of a dataclass of parameters."""
    hints, comments = get_type_hints(kind), field_comments(kind)
    return [
        (f"`{f.name}`", typed_name(hints[f.name]), default_of(f), comments.get(f.name, ""))
        for f in fields(kind)
    ]


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: code in single backquotes."""
    text = textwrap.dedent(inspect.cleandoc(docstring or ""))
    return re.sub(r"``([^`]+)``", r"`\1`", text)
