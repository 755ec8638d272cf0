"""A folder in memory for rows on their way between Python and the JVM.

Each folder holds a file that its process keeps locked. The kernel lets the lock go when the
process ends, in whatever way, so a folder whose lock is free was left behind by a kill: its rows
would take memory until the machine restarts. Locks, unlike process ids, hold between containers
that share their memory.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

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
