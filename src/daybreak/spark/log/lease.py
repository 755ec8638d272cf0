"""The lease on a commit log in PostgreSQL: which driver may write, and until when.

One row, with times by the database's clock alone. It holds the epoch, which grows with every
driver that takes the lease, and the number of transactions since the log was made. A driver whose
lease has ended keeps it until another one takes it: only then the epoch changes.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from secrets import token_hex
from typing import Any, NamedTuple, Self, TypeAlias

import psycopg
from psycopg import errors as pg
from psycopg.sql import SQL, Identifier, Literal

from daybreak.model.errors import ConfigError, NewerFormat
from daybreak.spark.log.contract import Opened
from daybreak.spark.log.layout import POSTGRES_TABLES

#: For so long after its last sign of life a driver is left alone.
LEASE_S = 10.0
#: Format of the log in PostgreSQL. From 2 on it may hold the positions of sources, which an earlier
#: Daybreak would read from their beginning.
FORMAT = 2
#: How often a driver that waits looks again.
LOOK_S = 0.5
#: A driver whose lease has ended may be in the midst of a commit: so long it may finish that.
FINISH_MS = 3000
Db: TypeAlias = psycopg.Connection[Any]
#: Waits for so many seconds, and explains why.
Sleep: TypeAlias = Callable[[str, float], None]

_LEASE = """
CREATE TABLE IF NOT EXISTS lease (
    format BIGINT NOT NULL, timezone TEXT, epoch BIGINT NOT NULL, transactions BIGINT NOT NULL,
    holder TEXT, backend INT, expires TIMESTAMPTZ NOT NULL
)
"""


def create(db: Db, shown: str, schema: str, timezone: str | None) -> None:
    """Makes the tables where they are missing; ``ConfigError`` if the log cannot be used."""
    with db.transaction():
        # Two drivers may start at once, and "if not exists" alone does not keep them apart.
        db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (schema,))
        known = db.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
        if known is None:
            db.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
        db.execute(_LEASE)
        found = db.execute("SELECT format, timezone FROM lease").fetchone()
        if found is None:
            db.execute(POSTGRES_TABLES.encode())
            db.execute(
                "INSERT INTO lease VALUES (%s, %s, 0, 0, NULL, NULL, clock_timestamp())",
                (FORMAT, timezone),
            )
            db.execute("INSERT INTO meta VALUES (%s, 0, NULL)", (token_hex(4),))
            return
        version, zone = found
        if version > FORMAT:
            otherwise = "choose another database"
            raise NewerFormat(shown, "commit log format", version, FORMAT, otherwise=otherwise)
        if timezone is not None and zone not in (None, timezone):
            raise ConfigError(
                shown,
                f"the log was made in time zone {zone!r}, and this run's is {timezone!r}",
                f'add timezone = "{zone}" to [app], or rename the application',
            )
        if version < FORMAT:  # all that is new are tables
            db.execute(POSTGRES_TABLES.encode())
            db.execute("UPDATE lease SET format = %s", (FORMAT,))


def now_s() -> float:
    """A clock that also runs while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class _Seen(NamedTuple):
    epoch: int
    holder: str | None
    left_s: float
    backend: int | None


class Lease:
    """The lease that this driver took."""

    def __init__(self, epoch: int, transactions: int, lease_s: float, renewed_s: float) -> None:
        self.epoch = epoch
        #: Of all epochs, those of this driver so far included.
        self.transactions = transactions
        self._lease_s = lease_s
        self._renewed_s = renewed_s
        self._begun_s = renewed_s

    @classmethod
    def take(cls, db: Db, lease_s: float, boot: str | None, wait: Sleep) -> tuple[Self, Opened]:
        """Waits until nobody holds the lease, then begins the next epoch."""
        while True:
            seen = _look(db)
            if seen.left_s > 0:
                holder = seen.holder or "another driver"
                wait(f"waits for {holder}, which runs this application", min(LOOK_S, seen.left_s))
                continue
            began_s = now_s()
            try:
                taken = _take(db, seen.epoch, lease_s)
            except pg.LockNotAvailable:
                # Stopped in the midst of a transaction, which nobody else will end.
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid = %s AND datname = current_database() AND usename = current_user",
                    (seen.backend,),
                )
                continue
            if taken is not None:
                log_id, boot_before, transactions = taken
                rebooted = boot is None or boot != boot_before
                epoch = seen.epoch + 1
                return cls(epoch, transactions, lease_s, began_s), Opened(log_id, epoch, rebooted)

    def begin(self, db: Db) -> bool:
        """Begins a transaction; False if the epoch or the number of transactions is another one."""
        self._begun_s = now_s()
        statement = SQL(
            "BEGIN; UPDATE lease SET transactions = {} + 1, backend = pg_backend_pid(), "
            "expires = clock_timestamp() + {} * interval '1 second' "
            "WHERE epoch = {} AND transactions = {}"
        )
        # One message: a commit waits for the network once less.
        sent = db.execute(
            statement.format(
                Literal(self.transactions),
                Literal(self._lease_s),
                Literal(self.epoch),
                Literal(self.transactions),
            ),
            prepare=False,
        )
        sent.nextset()
        return sent.rowcount == 1

    def committed(self) -> None:
        """The transaction that began last is committed."""
        self.transactions += 1
        self._renewed_s = self._begun_s

    def stored(self, db: Db) -> tuple[int, int, str | None]:
        """Epoch, number of transactions and holder, as the database has them."""
        found = db.execute("SELECT epoch, transactions, holder FROM lease").fetchone()
        assert found is not None
        return found[0], found[1], found[2]

    def is_fresh(self) -> bool:
        """Whether it was renewed so lately that nobody can have taken it since."""
        return now_s() - self._renewed_s < self._lease_s / 4

    def release(self, db: Db) -> None:
        """Lets another driver begin at once."""
        db.execute(
            "UPDATE lease SET expires = clock_timestamp(), holder = NULL WHERE epoch = %s",
            (self.epoch,),
        )


def _look(db: Db) -> _Seen:
    found = db.execute(
        "SELECT epoch, holder, extract(epoch FROM expires - clock_timestamp())::float8, backend "
        "FROM lease"
    ).fetchone()
    assert found is not None
    return _Seen(*found)


def _take(db: Db, epoch: int, lease_s: float) -> tuple[str, str | None, int] | None:
    """The log's id, its last boot and its number of transactions; None if another was quicker."""
    holder = f"process {os.getpid()} on {socket.gethostname()}"
    with db.transaction():
        db.execute(f"SET LOCAL lock_timeout = {FINISH_MS}")
        taken = db.execute(
            "UPDATE lease SET epoch = epoch + 1, holder = %s, backend = pg_backend_pid(), "
            "expires = clock_timestamp() + %s * interval '1 second' "
            "WHERE epoch = %s AND expires <= clock_timestamp() RETURNING transactions",
            (holder, lease_s, epoch),
        ).fetchone()
        if taken is None:
            return None
        known = db.execute("UPDATE meta SET run = %s RETURNING id, boot", (epoch + 1,)).fetchone()
        assert known is not None
        return known[0], known[1], taken[0]
