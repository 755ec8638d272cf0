"""The commit log in one SQLite file (WAL, ``synchronous=FULL``), the default.

The lock of its run directory keeps other drivers out; an epoch that has ended is refused all the
same, for a folder that was copied or moved under a running driver.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.log.contract import Opened, Statements, T
from daybreak.spark.log.layout import SQLITE_TABLES
from daybreak.spark.log.migration import migrate, refuse_newer_log
from daybreak.spark.log.rows import SegmentRow

#: As SQLite itself does.
_sync: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


class SqliteDatabase:
    """A commit log in a file."""

    def __init__(self, path: Path) -> None:
        self.shown = str(path)
        self._path = path
        self._guard = threading.RLock()
        self._wal: int | None = None
        self._run = 0
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.text_factory = lambda text: text.decode(errors="replace")

    def open(self, boot: str | None) -> Opened:
        try:
            return self._open(boot)
        except (LogUnavailable, sqlite3.OperationalError, ConfigError):
            self._db.close()
            raise  # a full disk, perhaps: nothing is wrong with the file
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self._db.close()
            raise self._damaged(error) from error

    def _open(self, boot: str | None) -> Opened:
        refuse_newer_log(self._db, self._path.parent)
        for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._db.execute(f"PRAGMA {setting}").fetchall()
        broken = self.row("PRAGMA quick_check(1)")[0]
        if broken != "ok":
            raise sqlite3.DatabaseError(str(broken))
        self._db.executescript(SQLITE_TABLES)
        known = {row[1] for row in self.rows("PRAGMA table_info(segments)")}
        for column in SegmentRow.__dataclass_fields__:
            if column not in known:  # a log that was made before event time
                self._db.execute(f"ALTER TABLE segments ADD COLUMN {column} INTEGER")
        with self._transaction():
            migrate(self._db, self._path.parent)
            if self.row("SELECT id FROM meta") is None:
                self.run("INSERT INTO meta VALUES (?, 0, ?)", (token_hex(4), boot))
            rebooted = boot is None or self.row("SELECT boot FROM meta")[0] != boot
            self.run("UPDATE meta SET run = run + 1")
        log_id, self._run = self.row("SELECT id, run FROM meta")

        # SQLite never replaces this file while the log is open.
        self._wal = os.open(f"{self._path}-wal", os.O_RDONLY)
        return Opened(log_id, self._run, rebooted)

    def close(self) -> None:
        with self._guard:
            if self._wal is not None:
                os.close(self._wal)
                self._wal = None
            self._db.close()

    def transact(
        self, body: Callable[[Statements], T], *, durable: bool = True, waits: bool = False
    ) -> T:
        del waits  # a disk that is full stays so until somebody makes room
        with self._guard:
            if durable:
                return self._committed(body)
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                return self._committed(body)
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def _committed(self, body: Callable[[Statements], T]) -> T:
        try:
            with self._transaction():
                self._refuse_earlier_epoch()
                return body(self)
        except sqlite3.OperationalError as error:
            raise LogUnavailable(str(error)) from error
        except sqlite3.IntegrityError as error:
            raise EngineBug(f"{self.shown}: {error}") from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All statements inside, from this thread alone, or none of them."""
        with self._guard:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self.undo()
                raise

    def undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def sync(self) -> None:
        if self._wal is None:
            raise EngineBug("the commit log is closed")
        _sync(self._wal)

    def settle(self) -> bool:
        """Brings the write-ahead log into the database and cuts it to nothing, if it can.

        A commit that failed may still stand in the write-ahead log, and a crash would bring it
        back: only when that log is empty it is certain that it never will.
        """
        with self._guard:
            [(busy, _, _)] = self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
            return not busy

    def confirm_lease(self) -> None:
        """The lock of the run directory is held, and a look here would wait for others' commits."""

    def _refuse_earlier_epoch(self) -> None:
        [run] = self._db.execute("SELECT run FROM meta").fetchone()
        if run != self._run:
            raise LeaseLost(
                self.shown,
                f"was opened by another driver (epoch {run}; this driver's is {self._run})",
                "let one driver have it; nothing is lost",
            )

    def trouble(self) -> str | None:
        return None

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """Never called: the lock of the run directory keeps other drivers out."""

    def stop_waiting(self) -> None:
        """Nothing ever waits here."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with self._guard:
            try:
                return self._db.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as error:
                self._refuse(error)

    def row(self, sql: str, values: Sequence[Any] = ()) -> Any:
        with self._guard:
            try:
                return self._db.execute(sql, values).fetchone()
            except sqlite3.DatabaseError as error:
                self._refuse(error)

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._db.execute(sql, values).rowcount

    def run_many(self, sql: str, many: Iterable[Sequence[Any]]) -> int:
        return max(0, self._db.executemany(sql, many).rowcount)

    def insert_many(self, sql: str, many: Iterable[Sequence[Any]]) -> list[int]:
        ids = [self._db.execute(sql, values).lastrowid for values in many]
        return [number for number in ids if number is not None]

    def _refuse(self, error: sqlite3.DatabaseError) -> NoReturn:
        if type(error) is sqlite3.DatabaseError:  # what the check at the start did not see
            raise self._damaged(error) from error
        if isinstance(error, sqlite3.OperationalError):
            raise LogUnavailable(str(error)) from error
        raise error

    def _damaged(self, error: Exception) -> ConfigError:
        return ConfigError(
            self.shown,
            f"is no commit log of Daybreak's, or is damaged ({error})",
            "restore it, or choose a new run directory",
        )
