"""``${NAME}`` in the values of a pipeline: filled in from the environment.

Paths, names and the like are filled in when a file is read. The tables ``options`` and ``conf``,
which hold credentials, keep their text until a source, a sink or Spark takes them (``resolved``):
so nothing that describes a pipeline, such as its record or the dashboard, holds a secret.
SQL is never changed. ``$${NAME}`` stands for the text ``${NAME}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from daybreak.model.errors import ConfigError, Findings
from daybreak.model.secrets import keep, keep_within, names_secret
from daybreak.model.tables import Document

_VARIABLE = re.compile(r"\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SQL = ("sql",)
_LATE = ("options", "conf")
#: Options that may come from the environment and are no secrets.
_PLAIN = re.compile(
    r"path|topic|subscribe(pattern)?|assign|.*\b(servers|location|type|protocol|mechanism)|"
    r".*(offset|trigger|timeout|partition|memory|cores|host|port|class|level|user(name)?).*",
    re.IGNORECASE,
)
#: A shorter value under a plain name is not hidden: it would be found in any text.
_TELLING_LENGTH = 8


def filled(document: Document, found: Findings) -> Document:
    """The document with its variables filled in; those that are not set are findings."""
    return replace(document, data=_filled(document, (), document.data, found, late=False))


def resolved(options: Mapping[str, str], place: str) -> dict[str, str]:
    """The options with their variables filled in; what is secret among them is hidden from now on.

    ``ConfigError`` if a variable is not set.
    """
    taken = {}
    for key, text in options.items():
        names = [m[1] for m in _VARIABLE.finditer(text) if not m[0].startswith("$$")]
        taken[key] = value = expand(text, place)
        keep_within(value)
        if names_secret(key):
            keep(value)
        for name in names:
            content = os.environ[name]
            unknown = len(content) >= _TELLING_LENGTH and not _PLAIN.fullmatch(key)
            if names_secret(name) or names_secret(key) or unknown:
                keep(content)
    return taken


def expand(text: str, place: str) -> str:
    """The text with its variables filled in."""

    def value(found: re.Match[str]) -> str:
        if found[0].startswith("$$"):
            return found[0][1:]
        content = os.environ.get(found[1])
        if content is None:
            raise ConfigError(
                place,
                f"environment variable {found[1]} is not set",
                f"set it, or write $${{{found[1]}}} for that text itself",
            )
        return content

    return _VARIABLE.sub(value, text)


def _filled(
    document: Document, path: tuple[str, ...], value: Any, found: Findings, *, late: bool
) -> Any:
    if isinstance(value, dict):
        return {
            key: inner
            if key in _SQL
            else _filled(
                document,
                (*path, key),
                inner,
                found,
                late=(late or key in _LATE) and key != "path",
            )
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_filled(document, path, inner, found, late=late) for inner in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    text = found.tried(lambda: expand(value, document.place(path[:-1], path[-1])), value)
    return value if late else text
