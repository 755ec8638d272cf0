"""Texts that must not be shown: passwords, tokens and keys of sources, sinks and Spark itself.

Code that reads a declaration registers its secrets with ``keep``; code that writes a message, an
event or a record passes its text through ``without_secrets``. The registry is per process, as the
output is: a driver's error that quotes a password may surface anywhere.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

HIDDEN = "***"
#: Names of options, settings and variables whose values are secrets.
_NAMED = re.compile(
    r"pass(word|wd|phrase)?(?![a-z])|pwd|secret|token|credential|jaas|"
    r"(private|access|account|api|shared)[._-]?key|sas(?![a-z])|keystore[._-]key",
    re.IGNORECASE,
)
#: An attribute of a compound value, such as a JAAS login module's password="...".
_ATTRIBUTE = re.compile(r"(\w+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s;,\"']+))")
#: These occur in any text, and no secret is one of them.
_COMMON = re.compile(r"true|false|none|null|\d{1,3}|", re.IGNORECASE)
#: A shorter one is hidden only as a word of its own.
_LONG = 10

_guard = threading.Lock()
_secrets: dict[str, re.Pattern[str]] = {}


def names_secret(name: str) -> bool:
    """Whether the value of an option or variable of this name is a secret."""
    return _NAMED.search(name) is not None


def keep(value: str) -> None:
    """Hides this text, and the passwords within it, from now on."""
    parts = [m[2] or m[3] or m[4] or "" for m in _ATTRIBUTE.finditer(value) if names_secret(m[1])]
    with _guard:
        for text in (value, *parts):
            if not _COMMON.fullmatch(text):
                _secrets.update((s, _pattern(s)) for s in _spellings(text))


def without_secrets(text: str) -> str:
    """The text with every known secret hidden."""
    if not _secrets:
        return text
    with _guard:
        # The longest first, so that no secret is cut by another one that is part of it.
        known = sorted(_secrets.items(), key=lambda item: len(item[0]), reverse=True)
    for secret, pattern in known:
        if secret in text:
            text = pattern.sub(HIDDEN, text)
    return text


def forget_all() -> None:
    """For tests: what one has registered must not hide the texts of another."""
    with _guard:
        _secrets.clear()


def _spellings(text: str) -> Iterator[str]:
    """As it stands, as JSON writes it and as Python does."""
    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]


def _pattern(secret: str) -> re.Pattern[str]:
    short = len(secret) < _LONG and secret.isalnum()
    return re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)" if short else re.escape(secret))
