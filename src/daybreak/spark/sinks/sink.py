"""Sinks: where a query's rows go, without loss and, where a sink can, exactly once.

Every sink works in two steps around the commit of a job. ``stage`` encodes the rows; the commit log
lists the result in the transaction that moves the cursors; ``deliver`` brings it to its place.

The transaction itself holds a small result: before the commit no file is written. ``deliver``
writes the file, and the log keeps the content until ``file_sync`` has made the file durable. A job
waits for the disk once, in its transaction, however many files it leaves. What a crash loses, of
the process or of the machine, is delivered again from the log.

A large result is a file that ``stage`` writes durably where no reader looks. A crash before the
transaction leaves a file that is not listed, which ``delivery`` deletes. A crash after it leaves
one that is listed, which ``delivery`` delivers (again).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

import pyarrow as pa

from daybreak.model.overlaps import LOCK
from daybreak.spark.log.durable import file_name, make_folder, same_folder, write_durably
from daybreak.spark.log.rows import CommittedFile, StagedFile

#: Up to this size the log holds a result: it is written twice, and in order with all other results.
#: Half: more results wait for a sync of their own. Double: a commit writes longer under the log's
#: lock.
SMALL_BYTES = 2**18

Writer: TypeAlias = Callable[[pa.Table, BinaryIO], None]
#: A user's function: rows, and a key that is the same if the same rows are given again.
Callback: TypeAlias = Callable[[pa.Table, str], object]


class Sink(Protocol):
    """What the engine asks of a sink. Methods may be called from any thread."""

    query: str
    #: False: after a crash the same rows may be delivered again, with the same key.
    exactly_once: bool

    @property
    def folder(self) -> Path | None:
        """The folder that belongs to the sink alone; None if it writes elsewhere."""

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        """Encodes the rows; writes them durably where no reader looks unless the log holds them.

        No file if there are no rows. Called once per job, before its commit.
        """

    def owns(self, file: CommittedFile) -> bool:
        """Whether this sink staged the file: a query's earlier sink may have been another one."""

    def deliver(self, file: CommittedFile) -> bool:
        """Brings a committed file to its place; called again after a crash, then harmless.

        False if the log does not hold its content and the staged file is gone: an earlier call has
        taken it, or somebody else did.
        """

    def has(self, file: CommittedFile) -> bool:
        """Whether a file is known to have been delivered, which need not be staged any more.

        False where the sink cannot know: a function was called, or was not.
        """

    def target(self, file: CommittedFile) -> Path | None:
        """Where a delivered file lies, to be made durable; None if the sink keeps none."""

    def discard(self, file: CommittedFile) -> None:
        """Forgets a committed file that is not delivered: it never will be."""

    def staged(self) -> Iterable[Path]:
        """All files that lie where no reader looks: ``deliver`` has not taken them, or not yet."""

    def publish(self, *, now: bool) -> None:
        """Makes delivered rows visible where the sink gathers them, if it is time or ``now``.

        Called often, and before a run ends. Raises if it cannot; the rows stay with the sink.
        """

    def settled(self, file: CommittedFile) -> bool:
        """Whether a delivered file is visible: only then the log may forget it."""

    def close(self) -> None:
        """Releases connections and the like; the sink is not used afterwards."""


class Staging:
    """A folder of staged files of one query."""

    def __init__(self, query: str, folder: Path, extension: str, write: Writer) -> None:
        self.query = query
        self._staging = folder
        self._suffix = f".{extension}"
        self._write = write
        self._name = f"{file_name(query)}{self._suffix}"

    @property
    def folder(self) -> Path | None:
        return None

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        return [self._staged(job, table, self._staging)] if table.num_rows else []

    def _staged(self, job: str, table: pa.Table, folder: Path) -> StagedFile:
        path = folder / f"{job}-{self._name}"
        encoded = io.BytesIO()
        self._write(table, encoded)
        if encoded.tell() <= SMALL_BYTES:
            return StagedFile(self.query, path, table.num_rows, encoded.getvalue())
        make_folder(folder)
        write_durably(path, lambda out: out.write(encoded.getbuffer()))
        return StagedFile(self.query, path, table.num_rows)

    def has(self, _file: CommittedFile) -> bool:
        return False

    def owns(self, file: CommittedFile) -> bool:
        return same_folder(file.path.parent, self._staging) and file.path.suffix == self._suffix

    def target(self, _file: CommittedFile) -> Path | None:
        return None

    def discard(self, file: CommittedFile) -> None:
        unstage(file)

    def publish(self, *, now: bool) -> None:
        """Nothing: what is delivered is visible."""

    def settled(self, _file: CommittedFile) -> bool:
        return True

    def close(self) -> None:
        """Nothing to release."""

    def staged(self) -> list[Path]:
        found = self._staging.iterdir() if self._staging.is_dir() else ()
        return sorted(path for path in found if path.name != LOCK)


def is_gone(file: CommittedFile) -> bool:
    """Whether neither the log nor a staged file has a result any more."""
    return file.content is None and not file.path.exists()


def unstage(file: CommittedFile) -> None:
    """Removes the staged file of a result, where it has one."""
    if file.content is None:
        file.path.unlink(missing_ok=True)


def opened(file: CommittedFile) -> BinaryIO:
    """What ``stage`` wrote of a result, to be read."""
    return file.path.open("rb") if file.content is None else io.BytesIO(file.content)
