"""Makes delivered files durable, a little later and many at once.

Readers see a file as soon as its job is committed; that the file itself survives a power cut
matters only for letting the log forget the file's content. So nobody waits for it.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import BinaryIO

from daybreak.spark.failures import FULL, LeaseLost, LogUnavailable
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import write_durably
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.delivery import sync_delivered
from daybreak.spark.sinks.sink import Sink

#: Files are gathered for so long: the disk takes many at the price of one.
GATHER_S = 0.5
#: The log is told this soon that a sink has taken a file.
NOTE_S = 0.01


class FileSyncer:
    """One thread that syncs what workers have delivered. ``close`` syncs the rest."""

    def __init__(self, log: CommitLog, sinks: Mapping[str, Sink]) -> None:
        self._log = log
        self._sinks = sinks
        self._files: queue.SimpleQueue[CommittedFile | None] = queue.SimpleQueue()
        #: What was added and is not synced yet, by number.
        self._held: set[int] = set()
        #: Why it had to give up: the disk did not take what was written.
        self.failure: Exception | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._work, name="daybreak-file-sync", daemon=True)
        self._thread.start()

    def add(self, file: CommittedFile) -> None:
        self._held.add(file.id)
        self._files.put(file)

    def held(self) -> frozenset[int]:
        """Numbers of files that were delivered, though the log may not know it yet."""
        return frozenset(self._held)

    def close(self) -> None:
        self._closing.set()
        self._files.put(None)
        self._thread.join()

    def _work(self) -> None:
        more, unsettled = True, list[CommittedFile]()
        while more:
            try:
                found, more = self._gather(GATHER_S if unsettled else None)
                files, unsettled = self._split(unsettled + found)
                # A disk that is still full at the end does not hold up the end.
                while not self._synced(files) and not self._closing.wait(GATHER_S):
                    pass
            except LeaseLost:
                return  # the driver that took over sees to what is not marked
            except Exception as error:  # what is not marked is delivered at the next start
                self.failure = error
                return

    def _synced(self, files: list[CommittedFile]) -> bool:
        """False if there is no room for the files, or in the log to note it: later, perhaps."""
        if not files:
            return True
        try:
            sync_delivered(self._log, self._sinks, files)
        except LogUnavailable:
            return False
        except OSError as error:
            if error.errno not in FULL:
                raise
            with suppress(OSError):
                self._write_again(files)
            return False
        self._held.difference_update(file.id for file in files)
        return True

    def _write_again(self, files: list[CommittedFile]) -> None:
        """A sync that failed may have dropped what it was for: another one proves nothing."""
        for file in files:
            place, content = self._sinks[file.query].target(file), file.content
            if place is not None and content is not None and place.exists():
                write_durably(place, partial(_put, content))

    def _split(self, files: list[CommittedFile]) -> tuple[list[CommittedFile], list[CommittedFile]]:
        """Files that are visible, and those that their sinks have yet to publish."""
        visible = [file for file in files if self._sinks[file.query].settled(file)]
        ids = {file.id for file in visible}
        return visible, [file for file in files if file.id not in ids]

    def _gather(self, timeout_s: float | None) -> tuple[list[CommittedFile], bool]:
        """Waits for a file and collects what comes soon after; False with the last of them."""
        files, more = self._next(timeout_s)
        until = time.monotonic() + GATHER_S
        while more and (left := until - time.monotonic()) > 0:
            found, more = self._next(left)
            files += found
        return files, more

    def _next(self, timeout_s: float | None) -> tuple[list[CommittedFile], bool]:
        """What was delivered lately, noted as such; nothing if there is none in time."""
        files: list[CommittedFile] = []
        with suppress(queue.Empty):
            file = self._files.get(timeout=timeout_s)
            self._closing.wait(NOTE_S)  # for others of the same job: a note for each costs more
            while file is not None:
                files.append(file)
                file = self._files.get_nowait()
            return self._noted(files), False
        return self._noted(files), True

    def _noted(self, files: list[CommittedFile]) -> list[CommittedFile]:
        visible, _ = self._split(files)
        if visible:
            with suppress(LogUnavailable):  # no room: syncing them waits for it, too
                self._log.note_moved(file.id for file in visible)
        return files


def _put(content: bytes, out: BinaryIO) -> None:
    out.write(content)
