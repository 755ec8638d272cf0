"""Texts that are no Unicode: half a character, which no file, database or socket takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from daybreak.model.errors import ConfigError


def refuse_surrogates(value: Any, place: str, what: str = "its name") -> None:
    """``ConfigError`` if a text, or one within mappings and sequences, holds a lone surrogate.

    TOML has none; Python, JSON and the command line do. ``what`` names the value in the finding.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            half = value[error.start]
            raise ConfigError(
                place,
                f"character {error.start + 1} of {what} is half of one, {half!a}",
                "correct it",
            ) from None
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            refuse_surrogates(key, place, "a key")
            refuse_surrogates(inner, place, str(key))
    elif isinstance(value, Sequence) and not isinstance(value, bytes):
        for item in value:
            refuse_surrogates(item, place, what)
