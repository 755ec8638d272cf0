"""Names of files: as direct reads have them, and as Spark's log of a file source has them.

Here the path of a local file is an absolute one, and that of any other a URI without escapes, as
Hadoop's ``Path`` takes it. In Spark's log both are URIs, escaped as ``java.net.URI`` does; Spark
compares them as texts, so they must be the same to the letter.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import quote, unquote

#: What ``java.net.URI`` leaves alone in a path, besides letters and digits.
_PLAIN = "/_-!.~'()*,;:$&+=@"


def local_path(path: str) -> str:
    """A path without the scheme of local files, if it has that."""
    return f"/{path[5:].lstrip('/')}" if path.startswith("file:/") else path


def path_of(uri: str) -> str:
    """The path of a file whose escaped URI is given."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return local_path(unquote(uri))
    server, slash, path = rest.partition("/")
    return local_path(f"{scheme}://{server}{slash}{unquote(path)}")


def uri_of(path: str) -> str:
    """The escaped URI of a path."""
    if path.startswith("/"):
        return f"file://{_escaped(path)}"
    scheme, _, rest = path.partition("://")
    server, slash, path = rest.partition("/")
    return f"{scheme}://{server}{slash}{_escaped(path)}"


def _escaped(path: str) -> str:
    return "".join(c if _is_plain(c) else quote(c) for c in path)


def _is_plain(c: str) -> bool:
    """Beyond ASCII, only controls and spaces are escaped."""
    if c.isascii():
        return c.isalnum() or c in _PLAIN
    return unicodedata.category(c) not in ("Cc", "Zs", "Zl", "Zp")
