"""Connections to a commit log in PostgreSQL."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import Identifier

from daybreak.model import ConfigError
from daybreak.model.storage import LogUrl
from daybreak.spark.failures import one_line

#: What is wrong with the connection or the server, not with a statement.
AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    pg.IdleInTransactionSessionTimeout,
    pg.ReadOnlySqlTransaction,
)
#: Taken unless the URL says otherwise: a server that vanished is noticed within about ten seconds.
_CONNECTION = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
    "application_name": "daybreak",
}
#: PostgreSQL cuts longer names.
_LONGEST_NAME_BYTES = 63


def schema_name(application: str) -> str:
    """The schema that an application's log lies in."""
    name = f"daybreak_{application}".replace("\0", "")
    if len(name.encode()) <= _LONGEST_NAME_BYTES:
        return name
    digest = sha256(application.encode()).hexdigest()[:12]
    return f"{name.encode()[:48].decode(errors='ignore')}_{digest}"


def connect(url: LogUrl, application: str, lease_s: float) -> psycopg.Connection[Any]:
    """A connection whose transactions are durable, in the schema of the application."""
    settings: dict[str, Any] = {**_CONNECTION, **conninfo_to_dict(url.url)}
    db = psycopg.connect(make_conninfo(**settings), autocommit=True)
    try:
        # A driver that was stopped in the midst of a transaction must not block the next one.
        idle = f"{max(1, round(lease_s * 1000))}ms"
        path = Identifier(schema_name(application)).as_string(db)
        db.execute(
            "SELECT set_config('search_path', %s, false), "
            "set_config('idle_in_transaction_session_timeout', %s, false), "
            "CASE current_setting('synchronous_commit') WHEN 'off' "
            "THEN set_config('synchronous_commit', 'on', false) END",
            (path, idle),
        )
    except BaseException:
        db.close()
        raise
    return db


def listed(url: LogUrl, application: str, stream: str) -> list[tuple[str, bytes | None]]:
    """File or content of every segment of a stream, beside a driver that may be at work."""
    try:
        with connect(url, application, 60.0) as db:
            return db.execute(
                "SELECT file, content FROM segments WHERE stream = %s ORDER BY seq", (stream,)
            ).fetchall()
    except pg.UndefinedTable:
        finding = f"holds no log of application {application!r}"
        raise ConfigError(url.shown, finding, "run the pipeline first") from None
    except psycopg.Error as error:
        finding = f"the database of the commit log cannot be used ({plain(error)})"
        raise ConfigError(url.shown, finding, "start it, or correct log in [app]") from None


def plain(error: Exception) -> str:
    """In one line, without a password."""
    return one_line(error)
