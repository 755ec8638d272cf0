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
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
#: Names of options, settings and variables whose values are secrets.
_NAMED = re.compile(
    r"pass(word|wd|phrase)?(?![a-z])|pwd|secret|token|credential|jaas|"
    r"(private|access|account|api|shared)[._-]?key|sas(?![a-z])|keystore[._-]key|"
    r"authorization(?![._-]?[a-z])|bearer|user[._-]?info|connection[._-]?string|"
    r"(?<![a-z])sig(nature)?(?![a-z])",
    re.IGNORECASE,
)
#: An attribute of a compound value, such as a JAAS login module's password="...", a parameter of a
#: JDBC URL or libpq's password = '...'.
_ATTRIBUTE = re.compile(r"(?<![\w.-])([\w.-]+)[\"']?\s*(?:=|:(?!//))\s*")
#: Its value in quotes, where a backslash escapes; in JDBC's braces; or up to the next blank.
_QUOTED = re.compile(r"([\"'])((?:\\.|(?!\1)[^\\])*)\1", re.DOTALL)
_BRACED = re.compile(r"\{((?:[^}]|\}\})*)\}")
_BARE = re.compile(r"(?:\\.|[^\s\\])*")
_SHOWN = re.compile(
    r"(?<![\w.-])([\w.-]+)(\s*=\s*)"
    r"(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\{(?:[^}]|\}\})*\}|(?:\\.|[^\s;&\\])+)",
    re.DOTALL,
)
_USERINFO = re.compile(r"[A-Za-z][\w+.-]{0,30}://[^\s/?#:@]*:([^\s/?#]+)@")
#: What a header holds before a token.
_SCHEME = re.compile(r"(?:basic|bearer|digest|token|apikey)\s+", re.IGNORECASE)
#: A user, or the id of a key, and the password.
_PAIR = re.compile(r"[^\s:/=]+:(?!\d+$|//)(\S+)")
#: A piece of a value that may have ended there is hidden by itself from this length on.
_TELLING_PIECE = 4
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
    token = _SCHEME.sub("", value, count=1)
    pair = _PAIR.fullmatch(value)
    _keep(value, token, *([pair[1]] if pair else []), *within(value))


def keep_within(value: str) -> None:
    """Hides the passwords within this text from now on, such as those of a URL."""
    _keep(*within(value))


def within(text: str) -> Iterator[str]:
    """The values of attributes and parameters named like a secret, and the passwords of URLs.

    Where a value may end in several places, it comes in several lengths.
    """
    for password in _USERINFO.findall(text):
        yield from (password, unquote(password))
    for found in _ATTRIBUTE.finditer(text):
        if names_secret(found[1]):
            for value in _values(text, found.end()):
                yield from (value, unquote(value), unquote_plus(value))


def without_attributes(text: str) -> str:
    """The text without the values of attributes that are named like a secret."""
    return _SHOWN.sub(lambda m: f"{m[1]}{m[2]}{HIDDEN}" if names_secret(m[1]) else m[0], text)


def _values(text: str, at: int) -> Iterator[str]:
    """What the value that begins there may be."""
    for form in (_QUOTED.match(text, at), _BRACED.match(text, at)):
        if form is not None:
            inner = form[form.re.groups]
            yield from (inner, re.sub(r"\\(.)", r"\1", inner), inner.replace("}}", "}"))
            return
    if text.startswith("jdbc:"):  # whose values may have blanks in them
        yield text[at:].partition(";")[0]
    scheme = _SCHEME.match(text, at)
    bare = _BARE.match(text, at if scheme is None else scheme.end())
    assert bare is not None
    for run in (bare[0], re.split("[;&]", bare[0])[0], bare[0].partition(";")[0]):
        yield from (run, re.sub(r"\\(.)", r"\1", run))
    piece = re.split("[;&,\"'}]", bare[0])[0]
    if len(piece) >= _TELLING_PIECE:
        yield piece


def _keep(*texts: str) -> None:
    with _guard:
        for text in texts:
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
