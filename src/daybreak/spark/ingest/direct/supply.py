"""Rows that a source has and the log has not: what is new, and the next piece of it to read.

A supply asks its source what is new (a *discovery*) and cuts that into pieces, each of which
becomes one batch. The user's limits on a micro-batch hold for a discovery.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from daybreak.runtime.clock import CLOCK
from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.intake import Intake
from daybreak.spark.ingest.direct.listing import FolderListing
from daybreak.spark.ingest.direct.spark_listing import SparkListing
from daybreak.spark.log.positions import FOLD_AFTER_MS, PositionLog

#: Files of one piece. Half of it doubles the segments of a backlog of tiny files; twice as many
#: make a read of such files, about 1 ms each, twice as long.
MOST_FILES = 1000
#: Old files are folded so often at most. Half of it folds twice as often, each time a transaction;
#: twice as long, and twice as many files take a row each meanwhile.
FOLD_S = 60.0


#: What finds the files of a source.
Listing: TypeAlias = FolderListing | SparkListing


class Piece(NamedTuple):
    """The rows of the next batch."""

    #: What the segment keeps for people: a range of offsets, or the number of files.
    offsets: object
    #: Where the source's position is after the piece, as the log keeps it.
    place: str
    #: By the clock of the run: rows have arrived when their source first showed them.
    shown_at_ns: int
    read: Callable[[], pa.Table]
    #: The same rows for executors.
    frame: Callable[[], DataFrame]
    files: Sequence[FoundFile] = ()
    stated_bytes: int | None = None
    #: The start and the end of a range of offsets.
    range: tuple[str, str] | None = None
    #: True for the last piece of a discovery: event time moves once for all of them.
    is_last: bool = True


class Supply(Protocol):
    """What one source has to read. One thread calls it; any may call ``wake`` and ``ask``."""

    #: True if the source announces what comes, so that it need not be asked.
    listens: bool

    def discover(self) -> bool:
        """True if there is something to read; the source is asked where nothing is left."""

    def piece(self, most_bytes: int) -> Piece:
        """The next rows, at most so many bytes by what the source states where it can be cut."""

    def passed(self, piece: Piece) -> None:
        """The log holds the piece, durably."""

    @property
    def is_settled(self) -> bool:
        """True if the last discovery has found nothing, and nothing is about to come of itself."""

    def ask(self) -> None:
        """Makes the next discovery a thorough one, and ends a wait."""

    def rest(self, stopping: threading.Event) -> None:
        """Returns when the source may be asked again, after a discovery that found something."""

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Returns when a discovery may find something, or after so long."""

    def wake(self) -> None:
        """Ends a wait."""

    def close(self) -> None:
        """Ends what runs beside the thread. Idempotent."""


class FilesPlace(NamedTuple):
    """The position of a source of files, beside the files themselves."""

    #: The time of the newest file that was read, in ms since 1970; 0 before the first.
    newest_ms: int = 0
    #: No file with an earlier time is new: the log may have forgotten it.
    forgotten_ms: int = -1

    @classmethod
    def of(cls, place: str) -> FilesPlace:
        return cls(**json.loads(place)) if place else cls()

    def text(self) -> str:
        return json.dumps(self._asdict())


class FileSupply:
    """Files of a folder, or of what Spark lists."""

    def __init__(
        self,
        stream: str,
        intake: Intake,
        listing: Listing,
        log: PositionLog,
        folded: FoldedFiles,
        place: str,
        trigger_s: float = 0.0,
    ) -> None:
        """``trigger_s``: the least time between two discoveries."""
        self._stream = stream
        self.listens = isinstance(listing, FolderListing)
        self._intake = intake
        self._listing = listing
        self._log = log
        self._folded = folded
        self._place = FilesPlace.of(place)
        self._left: list[FoundFile] = []
        self._shown_at_ns = 0
        self._fold_s = time.monotonic()
        self._pace = AskingPace(trigger_s, trigger_s)

    def discover(self) -> bool:
        if not self._left:
            self._pace.asked()
            found = self._listing.discover()
            forgotten = [f for f in found.files if f.mtime_ms < self._place.forgotten_ms]
            self._listing.taken(forgotten)
            self._left = [f for f in found.files if f.mtime_ms >= self._place.forgotten_ms]
            self._shown_at_ns = found.shown_at_ns
        return bool(self._left)

    def piece(self, most_bytes: int) -> Piece:
        files, size = [self._left[0]], self._left[0].size
        for file in self._left[1:MOST_FILES]:
            size += file.size
            if size > most_bytes:
                break
            files.append(file)
        newest_ms = max(self._place.newest_ms, *(file.mtime_ms for file in files))
        forgotten_ms = max(self._place.forgotten_ms, self._listing.too_old_ms)
        return Piece(
            [len(files)], FilesPlace(newest_ms, forgotten_ms).text(), self._shown_at_ns,
            lambda: self._intake.read_files(files), lambda: self._intake.frame_of_files(files),
            files, sum(file.size for file in files), is_last=len(files) == len(self._left),
        )  # fmt: skip

    def passed(self, piece: Piece) -> None:
        self._place = FilesPlace.of(piece.place)
        self._listing.taken(piece.files)
        del self._left[: len(piece.files)]
        if time.monotonic() - self._fold_s >= FOLD_S:
            self.fold()

    def fold(self) -> None:
        """Makes the log forget files that are too old, and keep old ones in less room."""
        self._fold_s = time.monotonic()
        before_ms = self._place.newest_ms - FOLD_AFTER_MS
        self._folded.add(self._log.fold_files(self._stream, before_ms, self._place.forgotten_ms))

    @property
    def is_settled(self) -> bool:
        return not self._left and self._listing.is_settled

    def ask(self) -> None:
        self._listing.list_again()

    def rest(self, stopping: threading.Event) -> None:
        stopping.wait(self._pace.wait_s())

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        self._listing.wait(seconds, stopping)
        self.rest(stopping)

    def wake(self) -> None:
        self._listing.wake()

    def close(self) -> None:
        self._listing.close()


class FoldedFiles:
    """Files that the log keeps folded: eight bytes each in memory, and names only when asked."""

    def __init__(self, log: PositionLog, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._hashes = _hashes(log.folded_files(stream))
        #: All of them, while one call after another asks about some.
        self._names: set[str] = set()

    def among(self, paths: Sequence[str]) -> Collection[str]:
        """Those of some files that are folded."""
        if not len(self._hashes):
            return ()
        asked = np.fromiter(map(hash, paths), np.int64, len(paths))
        at = np.minimum(np.searchsorted(self._hashes, asked), len(self._hashes) - 1)
        if not (self._hashes[at] == asked).any():
            self._names = set()
            return ()
        self._names = self._names or self._log.folded_files(self._stream)
        return self._names.intersection(paths)

    def add(self, paths: Collection[str]) -> None:
        """These are folded now."""
        if paths:
            self._names = set()
            self._hashes = np.union1d(self._hashes, _hashes(paths))


def _hashes(paths: Collection[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.sort(np.fromiter(map(hash, paths), np.int64, len(paths)))


class OffsetSupply:
    """A range of offsets of a source that only tells when it is asked."""

    listens = False

    def __init__(self, intake: Intake, place: str, pace: AskingPace) -> None:
        self._intake = intake
        self._place = place
        self._pace = pace
        self._end: str | None = None
        self._shown_at_ns = 0
        self._woken = threading.Event()

    def discover(self) -> bool:
        if self._end is None:
            self._woken.clear()
            self._pace.asked()
            self._shown_at_ns = CLOCK.now_ns()
            self._end = self._intake.latest(self._place)
            self._pace.answered(found=self._end is not None)
        return self._end is not None

    def piece(self, most_bytes: int) -> Piece:
        del most_bytes  # only the source could cut it
        start, end = self._place, self._end
        assert end is not None
        return Piece(
            [start, end], end, self._shown_at_ns,
            lambda: self._intake.read_range(start, end),
            lambda: self._intake.frame_of_range(start, end), range=(start, end),
        )  # fmt: skip

    def passed(self, piece: Piece) -> None:
        self._place, self._end = piece.place, None
        self._intake.commit(piece.place)

    @property
    def is_settled(self) -> bool:
        return self._end is None

    def ask(self) -> None:
        self.wake()

    def rest(self, stopping: threading.Event) -> None:
        stopping.wait(self._pace.wait_s())

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        if not stopping.is_set():
            self._woken.wait(min(seconds, self._pace.wait_s()))

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        """Nothing runs beside it."""


class AskingPace:
    """Decides when a source that does not announce anything is asked again."""

    def __init__(self, least_s: float, most_s: float) -> None:
        """``least_s`` after a batch, and twice as long after each answer that nothing is new."""
        self._least_s, self._most_s = least_s, max(least_s, most_s)
        self._next_s = least_s
        self._asked_s = 0.0

    def asked(self) -> None:
        """The source is asked now."""
        self._asked_s = time.monotonic()

    def answered(self, *, found: bool) -> None:
        """The source has answered."""
        self._next_s = self._least_s if found else min(self._most_s, 2 * self._next_s)

    def wait_s(self) -> float:
        """For how long to wait before the next question."""
        return max(0.0, self._asked_s + self._next_s - time.monotonic())
