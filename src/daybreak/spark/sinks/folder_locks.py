"""Locks on the folders of sinks: one application writes into a folder at a time.

Two run directories that write into one folder would put rows there twice, and readers could not
tell. Each driver holds a shared lock on ``<path>/_staging/lock``, which names its commit log. Only
who finds no other holder may write another name into it. So drivers of one log share a folder, one
of which may be suspended while another has taken over (the log's lease sees to them), and drivers
of different logs do not. The kernel lets a lock go when its process ends, in whatever way: a lock
file that was left behind hinders nobody.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from daybreak.model.errors import ConfigError
from daybreak.model.overlaps import LOCK, STAGING
from daybreak.runtime.eventlog import Emit
from daybreak.spark.log.durable import make_folder
from daybreak.spark.sinks.sink import Sink

#: What a lock file says takes less.
_MOST_BYTES = 65_536


class FolderLocks:
    """The locks of one run. Methods may be called from any thread, for one query at a time."""

    def __init__(self, log: str, run: Path) -> None:
        """``log``: the id of the commit log. ``run``: the run directory, for messages."""
        self._log = log
        self._about = json.dumps({"log": log, "run": str(run), "driver": os.getpid()}).encode()
        self._held: dict[str, int] = {}

    def take(self, query: str, sink: Sink, place: str) -> str | None:
        """Holds the folder of a query's sink until ``release``, ``close`` or death.

        ``ConfigError`` if a run with another commit log writes there. Returns why the file system
        can hold no lock, if it cannot: then nothing keeps another run out.
        """
        folder = sink.folder
        if folder is None or query in self._held:
            return None
        try:
            handle = os.open(make_folder(folder / STAGING) / LOCK, os.O_RDWR | os.O_CREAT)
        except OSError as error:  # no room, perhaps: that is no reason not to start
            return f"{folder} cannot be locked ({error.strerror})"
        try:
            owner = self._lock(handle)
        except OSError as error:
            os.close(handle)
            return f"{folder} cannot be locked ({error.strerror})"
        if owner is None:
            self._held[query] = handle
            return None
        os.close(handle)
        raise ConfigError(
            place,
            f"sink: {folder} belongs to the run in {owner.get('run', 'another directory')}, "
            f"process {owner.get('driver', 'unknown')}, which still writes there",
            "choose another path, or stop that run first",
        )

    def take_all(self, sinks: Mapping[str, Sink], places: Mapping[str, str]) -> dict[str, str]:
        """Takes those of all queries; returns why, of those whose folders cannot be locked."""
        found = {q: self.take(q, s, places.get(q, f"query {q!r}")) for q, s in sinks.items()}
        return {query: why for query, why in found.items() if why is not None}

    def release(self, query: str) -> None:
        """Lets another run write into the folder of a query that is gone."""
        handle = self._held.pop(query, None)
        if handle is not None:
            os.close(handle)

    def close(self) -> None:
        """Releases all of them."""
        for query in list(self._held):
            self.release(query)

    def _lock(self, handle: int) -> Mapping[str, object] | None:
        """None if the lock is ours; else what its owner says."""
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, self._about, 0)
        try:
            # Another driver may be ahead of us between the two locks, so the name is read again.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _owner(handle)
        owner = _owner(handle)
        return None if owner.get("log") == self._log else owner


def _owner(handle: int) -> Mapping[str, object]:
    with suppress(ValueError):
        found = json.loads(os.pread(handle, _MOST_BYTES, 0))
        if isinstance(found, dict):
            return found
    return {}


def announce_unlocked(emit: Emit, unlocked: Mapping[str, str]) -> None:
    """Says of which folders, by query, nothing keeps another run directory out, and why."""
    for query, why in unlocked.items():
        message = f"{why}: see to it that no other run directory writes there"
        emit("folder-unlocked", message, level=logging.WARNING, query=query)
