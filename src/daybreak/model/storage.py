"""Where an application keeps its commit log and its data: ``log`` and ``store`` of ``[app]``."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from daybreak.model.errors import ConfigError
from daybreak.model.secrets import keep, keep_within, names_secret

_SCHEMES = ("postgresql", "postgres")
_EXAMPLE = 'log = "postgresql://user@host:5432/database"'


@dataclass(frozen=True)
class LogUrl:
    """A database for the commit log. Its password is in no text but ``url``."""

    url: str = field(repr=False)
    #: For messages.
    shown: str = ""


def check_log(text: str, place: str) -> LogUrl:
    """``ConfigError`` unless it is the address of a PostgreSQL database."""
    parts = urlsplit(text)
    if parts.scheme not in _SCHEMES:
        scheme = f"scheme {parts.scheme!r}" if parts.scheme else "no scheme"
        remedy = (
            f"give a database, such as {_EXAMPLE}, or leave it out: SQLite in the run directory"
        )
        raise ConfigError(place, f"log has {scheme}", remedy)
    # Read the way the client reads it, so that no part of a password passes for a host.
    credentials, at, address = parts.netloc.rpartition("@")
    if "@" in credentials or "@" in parts.path + parts.query or "#" in text:
        finding = "log has a user or a password with a character that ends it"
        raise ConfigError(place, finding, "write @ as %40, / as %2F, ? as %3F and # as %23")
    user, colon, password = credentials.partition(":")
    secrets = [password, *(v for k, v in parse_qsl(parts.query) if names_secret(k))]
    for secret in secrets if colon or parts.query else ():
        keep(secret)
        keep(unquote(secret))
    who = f"{user}{at}" if user else ""
    return LogUrl(text, f"{parts.scheme}://{who}{address}{parts.path}")


def check_store(text: str, folder: Path, place: str) -> Path:
    """The folder that a store names; ``folder``: what a relative path is relative to."""
    keep_within(text)
    if text.startswith("file:"):
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            finding = f"store {text!r} names the host {parts.netloc!r}"
            raise ConfigError(place, finding, "mount it, and write file:///PATH with three slashes")
        path = unquote(parts.path)
    elif "://" in text:
        raise ConfigError(
            place,
            f"store {text!r} is not on a file system",
            'mount a shared folder, and name it: store = "file:///shared/app"',
        )
    else:
        path = text
    if not path or "\0" in path:
        raise ConfigError(place, f"store {text!r} names no folder", 'store = "file:///shared/app"')
    return Path(os.path.abspath(folder / path))  # noqa: PTH100  # keeps links
