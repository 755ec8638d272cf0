"""The commit log in PostgreSQL: it outlives the machine that its driver runs on.

One connection, one transaction at a time, in a schema named after the application. Every
transaction begins with the row of the lease (``lease.py``): it locks it, compares the epoch, counts
itself and renews the lease. So no other driver can take over between the beginning of a
transaction and its end, and after a connection broke in the midst of a commit the count answers
whether it was committed. All transactions are durable: a server that crashes must not forget what
its client relies on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg

from daybreak.model import ConfigError, EngineBug
from daybreak.model.storage import LogUrl
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.log.contract import Opened, Statements, T
from daybreak.spark.log.lease import LEASE_S, Lease, create
from daybreak.spark.log.postgres_connection import AWAY, connect, plain, schema_name

#: Between two attempts to reach a server.
RETRY_S = 0.25
#: Others that only look something up wait so long for a transaction to end.
TURN_S = 10.0


class PostgresDatabase:
    """A commit log in a database."""

    def __init__(
        self,
        url: LogUrl,
        application: str,
        timezone: str | None = None,
        *,
        lease_s: float = LEASE_S,
        announce: Callable[[str], None] = lambda _message: None,
    ) -> None:
        """``announce`` is called when the start has to wait for another driver.

        ``timezone``: the one that rows are read in; another one than before is refused.
        """
        self.shown = url.shown
        self._url = url
        self._application = application
        self._timezone = timezone
        self._lease_s = lease_s
        self._announce = announce
        self._guard = threading.RLock()
        self._db: psycopg.Connection[Any] | None = None
        self._lease: Lease | None = None
        self._trouble: str | None = None
        #: A commit whose outcome is not known, since nothing waited for the server any more.
        self._doubt = False
        self._stopping = threading.Event()
        self._closing = threading.Event()
        #: Set when the keeper of the lease has something to do.
        self._wake = threading.Event()
        self._lost: LeaseLost | None = None
        self._on_lost: Callable[[LeaseLost], None] = lambda _error: None
        self._keeper: threading.Thread | None = None

    # The beginning and the end

    def open(self, boot: str | None) -> Opened:
        try:
            self._db = connect(self._url, self._application, self._lease_s)
            create(self._db, self.shown, schema_name(self._application), self._timezone)
        except psycopg.Error as error:
            self._drop()
            raise ConfigError(
                self.shown,
                f"the database of the commit log cannot be used ({plain(error)})",
                "start it, or correct log in [app]",
            ) from None
        except ConfigError:
            self._drop()
            raise
        try:
            self._lease, opened = self._take_lease(boot)
        except BaseException:
            self._drop()
            raise
        self._keeper = threading.Thread(target=self._keep, name="daybreak-lease", daemon=True)
        self._keeper.start()
        return opened

    def _take_lease(self, boot: str | None) -> tuple[Lease, Opened]:
        """Waits for the lease, also while the server restarts."""
        announced: set[str] = set()

        def wait(message: str, seconds: float) -> None:
            if message not in announced:
                announced.add(message)
                self._announce(message)
            time.sleep(seconds)

        while True:
            try:
                return Lease.take(self._connection(), self._lease_s, boot, wait)
            except AWAY as error:
                self._drop()
                wait(f"the database of the commit log is out of reach ({plain(error)})", RETRY_S)

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        self._on_lost = call
        if self._lost is not None:
            call(self._lost)

    def stop_waiting(self) -> None:
        self._stopping.set()

    def close(self) -> None:
        self._stopping.set()
        self._closing.set()
        self._wake.set()
        if self._keeper is not None:
            self._keeper.join()
            self._keeper = None
        with self._guard:
            if self._db is not None and self._lease is not None and self._lost is None:
                with suppress(psycopg.Error):  # else it ends by itself
                    self._lease.release(self._db)
            self._drop()
            self._lease = None

    def _keep(self) -> None:
        """Renews the lease where no transaction has done it, and notices that it is lost."""
        while self._lost is None and not self._closing.is_set():
            self._wake.wait(self._lease_s / 4)
            if self._closing.is_set():
                return
            with suppress(LogUnavailable, LeaseLost):
                self.confirm_lease()
        if self._lost is not None:
            self._on_lost(self._lost)

    # Transactions

    def transact(
        self, body: Callable[[Statements], T], *, durable: bool = True, waits: bool = False
    ) -> T:
        del durable  # all of them are
        with self._turn(waits=waits):
            return self._committed(body, waits=waits)

    def _committed(self, body: Callable[[Statements], T], *, waits: bool) -> T:
        sent: list[T] = []  # what a commit that was not acknowledged would return
        for attempt in count():
            try:
                db, lease = self._connection(), self._opened()
                if not lease.begin(db):
                    db.execute("ROLLBACK")
                    self._confirm_counted(db, lease, expected=bool(sent) or self._doubt)
                    if sent:
                        return sent[0]
                    continue  # it was one before this one, whose outcome is known now
                sent.clear()  # a transaction before this one has not been committed
                result = body(_Transaction(db))
                sent.append(result)
                if db.execute("COMMIT").statusmessage != "COMMIT":
                    raise EngineBug(f"{self.shown}: a failed transaction was to be committed")
            except AWAY as error:
                self._broken(error)
                # A connection may have been broken for long; a new one comes at once, or not.
                if attempt or sent:
                    self._pause(error, waits=waits, sent=bool(sent))
            except BaseException as error:
                self._undo()
                if isinstance(error, psycopg.IntegrityError):
                    raise EngineBug(f"{self.shown}: {plain(error)}") from error
                raise
            else:
                lease.committed()
                return result
        raise EngineBug("not reached")

    def _confirm_counted(
        self, db: psycopg.Connection[Any], lease: Lease, *, expected: bool
    ) -> None:
        """A transaction that was not acknowledged is committed; ``expected``: there was one.

        ``LeaseLost`` if it cannot be found out any more, since another driver has taken over.
        """
        epoch, transactions, holder = lease.stored(db)
        if epoch != lease.epoch:
            self._doubt = self._doubt or expected
            self._lost = LeaseLost(
                self.shown,
                f"another driver ({holder or 'which has ended'}) has taken over, epoch {epoch}: "
                f"this one, epoch {lease.epoch}, did not renew its lease of {self._lease_s:g} s",
                "the other one continues, nothing is lost; run one driver of an application",
            )
            self._wake.set()
            raise self._lost
        if not expected or transactions != lease.transactions + 1:
            raise EngineBug(
                f"{self.shown}: holds {transactions} transactions, not {lease.transactions}"
            )
        lease.committed()

    def _pause(self, error: Exception, *, waits: bool, sent: bool) -> None:
        """Until the next attempt; ``LogUnavailable`` where nothing waits for it."""
        if self._stopping.is_set() or not (waits or sent):
            self._doubt = self._doubt or sent
            raise LogUnavailable(self._trouble or plain(error)) from None
        self._stopping.wait(RETRY_S)

    def undo(self) -> None:
        raise EngineBug("no transaction is under way here")

    def sync(self) -> None:
        """Everything is durable already."""

    def settle(self) -> bool:
        return not self._doubt

    def confirm_lease(self) -> None:
        # A commit has just renewed it, nearly always.
        if self._lost is None and self._opened().is_fresh():
            return
        self.transact(lambda _db: None)

    def trouble(self) -> str | None:
        return self._trouble

    # Statements outside of a transaction

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._read(lambda db: db.rows(sql, values))

    def row(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._read(lambda db: db.row(sql, values))

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self.transact(lambda db: db.run(sql, values))

    def run_many(self, sql: str, many: Iterable[Sequence[Any]]) -> int:
        rows = list(many)
        return self.transact(lambda db: db.run_many(sql, rows))

    def insert_many(self, sql: str, many: Iterable[Sequence[Any]]) -> list[int]:
        rows = list(many)
        return self.transact(lambda db: db.insert_many(sql, rows))

    def _read(self, read: Callable[[Statements], T]) -> T:
        with self._turn(waits=False):
            for last in (False, True):
                try:
                    return read(_Transaction(self._connection()))
                except AWAY as error:
                    self._broken(error)
                    if last or self._stopping.is_set():
                        raise LogUnavailable(self._trouble or plain(error)) from None
        raise EngineBug("not reached")

    # The connection

    @contextmanager
    def _turn(self, *, waits: bool) -> Iterator[None]:
        """One thread at a time; those that do not wait leave while the server is out of reach."""
        until = time.monotonic() + TURN_S
        while not self._guard.acquire(timeout=0.05):
            if not waits and (self._trouble is not None or time.monotonic() > until):
                raise LogUnavailable(self._trouble or f"{self.shown}: no answer for {TURN_S:g} s")
        try:
            if self._lost is not None:
                raise self._lost
            yield
        finally:
            self._guard.release()

    def _connection(self) -> psycopg.Connection[Any]:
        if self._db is None:
            if self._closing.is_set():
                raise EngineBug("the commit log is closed")
            self._db = connect(self._url, self._application, self._lease_s)
        self._trouble = None
        return self._db

    def _opened(self) -> Lease:
        if self._lease is None:
            raise EngineBug("the commit log is closed")
        return self._lease

    def _broken(self, error: Exception) -> None:
        self._drop()
        self._trouble = f"{self.shown} is out of reach ({plain(error)})"

    def _drop(self) -> None:
        if self._db is not None:
            with suppress(psycopg.Error):
                self._db.close()
            self._db = None

    def _undo(self) -> None:
        if self._db is not None:
            try:
                self._db.execute("ROLLBACK")
            except psycopg.Error:
                self._drop()  # which undoes it, too


class _Transaction:
    """Statements on a connection, inside of a transaction or not."""

    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._db.execute(_placed(sql), values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._db.execute(_placed(sql), values).fetchone()

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._db.execute(_placed(sql), values).rowcount

    def run_many(self, sql: str, many: Iterable[Sequence[Any]]) -> int:
        rows = list(many)
        if len(rows) <= 1:
            return self.run(sql, rows[0]) if rows else 0
        with self._db.cursor() as cursor:
            cursor.executemany(_placed(sql), rows)
            return cursor.rowcount

    def insert_many(self, sql: str, many: Iterable[Sequence[Any]]) -> list[int]:
        rows, ids = list(many), []
        if not rows:
            return []
        with self._db.cursor() as cursor:
            cursor.executemany(_placed(f"{sql} RETURNING id"), rows, returning=True)
            for _ in rows:
                ids += [row[0] for row in cursor.fetchall()]
                cursor.nextset()
        return ids

    def undo(self) -> None:
        self._db.execute("ROLLBACK")


@lru_cache
def _placed(sql: str) -> bytes:
    """The log's own statements as psycopg wants them: none of them holds another ``?`` or ``%``."""
    return sql.replace("?", "%s").encode()
