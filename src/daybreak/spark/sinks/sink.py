"""Sinks: where a query's rows go, without loss and, where a sink can, exactly once.

Every sink works in two steps around the commit of a job. ``stage`` writes the rows to a file
that nobody looks at; the commit log then lists that file in the transaction that moves the
cursors; ``deliver`` brings it to its place. A crash before the transaction leaves a file that is
not listed, which ``delivery`` deletes. A crash after it leaves one that is listed, which
``delivery`` delivers (again).

A large file is durable when it is staged. Of a small one the log keeps the content until
``file_sync`` has made it durable at its place, after readers could see it: a job waits for the disk
once, in its transaction, however many files it leaves. A crash of the process loses no file; what
a crash of the machine loses of it, ``restore`` writes again.
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

#: Up to this size the log keeps a result's content until its file is durable.
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
        """Writes the rows durably where no reader looks; no file if there are none.

        Called once per job, before its commit.
        """

    def owns(self, file: CommittedFile) -> bool:
        """Whether this sink staged the file: a query's earlier sink may have been another one."""

    def deliver(self, file: CommittedFile) -> bool:
        """Brings a committed file to its place; called again after a crash, then harmless.

        False if the staged file is gone: an earlier call has taken it, or somebody else did.
        """

    def has(self, file: CommittedFile) -> bool:
        """Whether a file that is not staged is known to have been delivered.

        False where the sink cannot know: a function was called, or was not.
        """

    def target(self, file: CommittedFile) -> Path | None:
        """Where a delivered file lies, to be made durable; None if the sink keeps none."""

    def restore(self, file: CommittedFile) -> None:
        """Stages a committed file again from its content, as far as the log holds that.

        For one that the machine's crash lost or tore, or that somebody tidied away.
        """

    def discard(self, file: CommittedFile) -> None:
        """Forgets a committed file that is not delivered: it never will be."""

    def staged(self) -> Iterable[Path]:
        """All files that ``stage`` has written and ``deliver`` has not taken."""

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

    @property
    def folder(self) -> Path | None:
        return None

    def stage(self, job: str, table: pa.Table) -> Sequence[StagedFile]:
        return [self._staged(job, table, self._staging)] if table.num_rows else []

    def _staged(self, job: str, table: pa.Table, folder: Path) -> StagedFile:
        path = make_folder(folder) / f"{job}-{file_name(self.query)}{self._suffix}"
        encoded = io.BytesIO()
        self._write(table, encoded)
        content = encoded.getvalue()
        if len(content) > SMALL_BYTES:
            write_durably(path, lambda out: out.write(content))
            return StagedFile(self.query, path, table.num_rows)
        path.write_bytes(content)
        return StagedFile(self.query, path, table.num_rows, content)

    def has(self, _file: CommittedFile) -> bool:
        return False

    def owns(self, file: CommittedFile) -> bool:
        return same_folder(file.path.parent, self._staging) and file.path.suffix == self._suffix

    def target(self, _file: CommittedFile) -> Path | None:
        return None

    def restore(self, file: CommittedFile) -> None:
        content = file.content
        if content is not None:
            make_folder(file.path.parent)
            write_durably(file.path, lambda out: out.write(content))

    def discard(self, file: CommittedFile) -> None:
        file.path.unlink(missing_ok=True)

    def publish(self, *, now: bool) -> None:
        """Nothing: what is delivered is visible."""

    def settled(self, _file: CommittedFile) -> bool:
        return True

    def close(self) -> None:
        """Nothing to release."""

    def staged(self) -> list[Path]:
        found = self._staging.iterdir() if self._staging.is_dir() else ()
        return sorted(path for path in found if path.name != LOCK)
