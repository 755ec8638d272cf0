"""What the commit log asks of the database that keeps it. SQLite and PostgreSQL fulfil it.

The log's own statements (``commitlog.py``, ``moves.py``, ``places.py``) are the same for both:
plain SQL with ``?`` for values. What differs is here: how a transaction is made durable, how one
driver is kept apart from another, and what happens while the database cannot be reached.

Every opening of a log has a number, its *epoch* (``run`` in the ids of jobs). A transaction names
the epoch it belongs to, and is refused with ``LeaseLost`` once the log has a later one. So of two
drivers the newer one alone can commit, however long the other one was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from daybreak.spark.failures import LeaseLost

T = TypeVar("T")


class Opened(NamedTuple):
    """A log as its opening found it."""

    #: Identifies the log among all others.
    id: str
    #: The epoch: how often it has been opened.
    run: int
    #: Whether files that were written and not synced may be lost or torn.
    rebooted: bool


class Statements(Protocol):
    """Runs statements: inside a transaction all of them or none, outside each by itself."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""

    def row(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first row of a query; None if there is none."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """How many rows a statement has changed."""

    def run_many(self, sql: str, many: Iterable[Sequence[Any]]) -> int:
        """How many rows a statement has changed, run once for each of these values."""

    def insert_many(self, sql: str, many: Iterable[Sequence[Any]]) -> list[int]:
        """Inserts rows into a table with a generated ``id``; the ids, in the order of the rows."""

    def undo(self) -> None:
        """Rolls the transaction back, so that what was there before can be read; then raise."""


class Database(Statements, Protocol):
    """Keeps one commit log. Methods may be called from any thread.

    ``LogUnavailable``: nothing was changed, a later call may succeed. ``LeaseLost``: a later epoch
    has begun. ``ConfigError``: this is no log of Daybreak's, or it is damaged.
    """

    #: How messages name it, without its password.
    shown: str

    def open(self, boot: str | None) -> Opened:
        """Begins an epoch; waits while another driver holds the log. Called once, first.

        ``boot`` tells one start of the machine from another; None: not known.
        """

    def transact(
        self, body: Callable[[Statements], T], *, durable: bool = True, waits: bool = False
    ) -> T:
        """Runs ``body`` as one transaction of this epoch; what it returns once it is committed.

        ``body`` may be called again if the database went away before the commit. Not ``durable``:
        the next durable transaction, or ``sync``, makes it durable. ``waits``: until a database
        that is out of reach is back, rather than to raise ``LogUnavailable``.
        """

    def sync(self) -> None:
        """Waits until everything that was written is durable; others may write meanwhile."""

    def settle(self) -> bool:
        """Tidies up; True if a transaction that failed can no longer turn out as committed."""

    def confirm_lease(self) -> None:
        """``LeaseLost`` unless this epoch is the latest; called before results are delivered."""

    def trouble(self) -> str | None:
        """Why the database takes nothing now; None while it does."""

    def on_lost(self, call: Callable[[LeaseLost], None]) -> None:
        """``call`` is called from any thread when another driver has taken over."""

    def stop_waiting(self) -> None:
        """From now on nothing waits for a database that is out of reach."""

    def close(self) -> None:
        """Ends the epoch; another driver need not wait. Idempotent."""
