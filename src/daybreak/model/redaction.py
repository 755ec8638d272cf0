"""URLs and error texts without the credentials in them, for messages, logs and reports.

A URL can carry a password before its host and tokens in its query. Drivers repeat parts of a URL
in their own errors, even of one they could not parse, so their texts are redacted as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

from daybreak.model.secrets import HIDDEN, within, without_attributes

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]{0,30}://[^\s'\"<>`]+")
#: Of a query, of a path or of a JDBC URL, where braces hold a value with semicolons.
_PARAMETER = re.compile(r"([?&;])([^=&;?#\s]*)=(\{(?:[^}]|\}\})*\}|[^&;]*)")
#: Names of query parameters that usually hold a secret.
_SECRET_NAME = re.compile(
    r"pass|pwd|secret|token|key|auth|sig|cred|session|jwt|code|sas|signature", re.IGNORECASE
)
#: Values of other parameters are searched for in foreign texts from this length on: shorter
#: ones, such as the 0 of ``db=0``, occur in any text.
_TELLING_LENGTH = 6
_LONG = 10


def shown_url(url: str, *, keep_query: bool = False) -> str:
    """The URL with its user, its password and the values of its parameters hidden.

    ``keep_query`` hides only the values of parameters that are named like a secret, for URLs
    that differ in their query alone.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _without_values(without_attributes(url), keep_query)
    userinfo, rest = _split_userinfo(rest)
    user = f"{HIDDEN}@" if userinfo else ""
    return f"{scheme}://{user}{_without_values(rest, keep_query)}"


def redacted(text: str, *urls: str) -> str:
    """The text without credentials: those of these URLs, and those of any URL in the text."""
    # The longest first, so that no secret is cut by another one that is part of it.
    for secret in sorted({s for url in urls for s in _secrets(url)}, key=len, reverse=True):
        # A short one only as a word of its own: the password "postgres" is no part of
        # "postgresql".
        short = len(secret) < _LONG and secret.isalnum()
        pattern = rf"(?<!\w){re.escape(secret)}(?!\w)" if short else re.escape(secret)
        text = re.sub(pattern, HIDDEN, text)
    text = _URL.sub(lambda found: shown_url(found[0], keep_query=True), text)
    return without_attributes(text)


def _split_userinfo(rest: str) -> tuple[str, str]:
    """What stands before the host, and the remainder from the host on."""
    authority = re.split(r"[/?#;]", rest, maxsplit=1)[0]
    userinfo, mark, _ = authority.rpartition("@")
    if mark:
        return userinfo, rest[len(userinfo) + 1 :]
    # A password with an unescaped / ? or #: no valid URL, and still a password. What follows a
    # colon is a port otherwise, also after an IPv6 address in brackets.
    _, colon, port = authority.rpartition(":")
    if "@" in rest and colon and not re.fullmatch(r"\d*|[0-9A-Fa-f]*\]", port):
        userinfo, _, remainder = rest.rpartition("@")
        return userinfo, remainder
    return "", rest


def _without_values(rest: str, keep_query: bool) -> str:
    def hidden(found: re.Match[str]) -> str:
        mark, name, value = found.groups()
        if not keep_query or _SECRET_NAME.search(unquote_plus(name)):
            return f"{mark}{name}={HIDDEN}"
        # What looks like the value of a path's parameter may hold the query.
        value, question, query = value.partition("?")
        return f"{mark}{name}={value}{_PARAMETER.sub(hidden, question + query)}"

    return _PARAMETER.sub(hidden, rest)


def _secrets(url: str) -> Iterator[str]:
    _, _, rest = url.partition("://")
    userinfo, rest = _split_userinfo(rest)
    _, colon, password = userinfo.partition(":")
    # Without a colon it is a user name, or a token, which is long.
    if colon or len(userinfo) >= _LONG:
        yield from _spellings(password if colon else userinfo)
    for _, name, value in _PARAMETER.findall(rest):
        if _SECRET_NAME.search(unquote_plus(name)) or len(value) >= _TELLING_LENGTH:
            yield from _spellings(value)
    for value in within(url):
        yield from _spellings(value)


def _spellings(secret: str) -> Iterator[str]:
    """As written, decoded, and in the pieces a parser cuts an unescaped password into."""
    pieces = re.split(r"[/?#@:]", secret)
    for spelling in (secret, unquote(secret), unquote_plus(secret), *pieces):
        if len(spelling) > (0 if spelling is secret else 2):
            yield spelling
