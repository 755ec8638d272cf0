"""Opens the commit log that an application declares, and ties its store to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from daybreak.extras import MissingPackage
from daybreak.model.storage import LogUrl
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory

if TYPE_CHECKING:
    from daybreak.spark.log.postgres_log import PostgresDatabase


def open_log(
    url: LogUrl | None,
    rundir: RunDirectory,
    timezone: str | None,
    lease_s: float,
    announce: Callable[[str], None],
) -> CommitLog:
    """The log at ``url``, or the run directory's own; ``ConfigError`` if it cannot be used.

    Waits while another driver holds it, and announces that.
    """
    if url is None:
        log = CommitLog(rundir.state_db)
    else:
        database = postgres(url, rundir.pipeline, timezone, lease_s, announce)
        log = CommitLog(database)
    try:
        if url is not None or rundir.store.root != rundir.root:
            rundir.store.claim(log)
    except BaseException:
        log.close()
        raise
    return log


def postgres(
    url: LogUrl,
    application: str,
    timezone: str | None = None,
    lease_s: float = 10.0,
    announce: Callable[[str], None] = lambda _message: None,
) -> PostgresDatabase:
    """``MissingPackage`` where psycopg is not installed."""
    try:
        from daybreak.spark.log.postgres_log import PostgresDatabase
    except ImportError as error:
        remedy = "pip install 'daybreak[postgres]'"
        raise MissingPackage(url.shown, "psycopg is not installed", remedy) from error
    return PostgresDatabase(url, application, timezone, lease_s=lease_s, announce=announce)
