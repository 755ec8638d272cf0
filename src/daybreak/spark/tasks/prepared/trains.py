"""Rows on their way to the JVM and back, as Arrow in files in memory.

(Through the gateway's own socket a reply of over 8 KB waits 40 ms for an acknowledgement.)

Each folder of files holds one that its process keeps locked. The kernel lets the lock go when the
process ends, in whatever way, so a folder whose lock is free was left behind by a kill: its rows
would take memory until the machine restarts. Locks, unlike process ids, hold between containers
that share their memory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.sql.composite import typed

_PREFIX = "daybreak-"
_LOCK = "lock"


class MemoryFolder:
    """A folder of this process's own; making one removes those that were left behind."""

    def __init__(self, shared: Path = Path("/dev/shm")) -> None:  # noqa: S108  # it is memory
        base = shared if shared.is_dir() else Path(tempfile.gettempdir())
        _sweep(base)
        # Under a name that nobody sweeps until it is locked.
        new = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}", dir=base))
        self.path = base / new.name.removeprefix(".")
        try:
            self._lock = os.open(new / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            new.rename(self.path)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def close(self) -> None:
        """Removes it with what it holds. Closing twice is allowed."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def _sweep(base: Path) -> None:
    """Removes folders of our user whose process is gone."""
    with suppress(OSError):
        for found in base.glob(f"{_PREFIX}*"):
            _remove_if_left(found)


def _remove_if_left(folder: Path) -> None:
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def write_train(path: Path, table: pa.Table, reads: list[int], layout: pa.Schema) -> None:
    """The columns that are read, typed as the plan's leaf has them."""
    # A stream that never had a row has no columns, either.
    rows = typed(table.select(reads), layout) if table.num_columns else layout.empty_table()
    with path.open("wb") as file, pa.ipc.new_stream(file, layout) as writer:
        for batch in rows.to_batches():
            if batch.num_rows:  # Spark reads batches up to the first empty one
                writer.write_batch(batch)


def read_result(path: Path, schema: pa.Schema) -> pa.Table:
    """What a plan has written."""
    found = list(_streams(path))
    return pa.concat_tables(found) if found else schema.empty_table()


def read_places(path: Path) -> NDArray[np.int32]:
    """Of the rows of a train, the places of those that a result is of."""
    return np.fromfile(path, np.dtype("<i4")).astype(np.int32, copy=False)


def _streams(path: Path) -> Iterator[pa.Table]:
    """Arrow streams one after the other, each behind its length."""
    content = memoryview(path.read_bytes())
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        yield pa.ipc.open_stream(content[4:end]).read_all()
        content = content[end:]
