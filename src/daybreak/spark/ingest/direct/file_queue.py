"""Files that a listing has found and no batch has read yet, in the order of batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.listing_options import ListingOptions


class Discovery(NamedTuple):
    """The next files of a source: those of one batch by the user's limits.

    Their watermark moves once, however many pieces they are read in.
    """

    #: By modification time and path; with ``latestFirst``, the newest first.
    files: tuple[FoundFile, ...]
    #: When the first of them was found, by the clock of the run; 0 where there is none.
    shown_at_ns: int = 0


class _Waiting(NamedTuple):
    """A file in its place; names of one folder differ, so no two are equal."""

    place_ms: int
    file: FoundFile
    shown_ns: int


class FileQueue:
    """Files in order. To show the first of many costs what these cost, not all of them."""

    def __init__(self, options: ListingOptions) -> None:
        self._options = options
        self._waiting: dict[str, _Waiting] = {}
        #: Those that are not shown. It may hold files that have gone, or changed since.
        self._heap: list[_Waiting] = []
        self._shown: dict[str, _Waiting] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, files: Iterable[FoundFile], shown_ns: int) -> None:
        """Adds files; of one that is here, what is found now counts, and when it was first."""
        for file in files:
            before = self._waiting.get(file.path)
            place_ms = -file.mtime_ms if self._options.latest_first else file.mtime_ms
            found = _Waiting(place_ms, file, shown_ns if before is None else before.shown_ns)
            self._shown.pop(file.path, None)
            self._waiting[file.path] = found
            heapq.heappush(self._heap, found)

    def first(self) -> Discovery:
        """The files of the next batch; the same ones again until they are removed."""
        if self._shown and self._heap and self._heap[0] < next(reversed(self._shown.values())):
            for earlier in self._shown.values():
                heapq.heappush(self._heap, earlier)
            self._shown = {}
        room = _Room(self._options, self._shown.values())
        while self._heap:
            found = self._heap[0]
            if self._waiting.get(found.file.path) is found:
                if not room.takes(found.file):
                    break
                self._shown[found.file.path] = found
            heapq.heappop(self._heap)
        shown = self._shown.values()
        first_ns = min((found.shown_ns for found in shown), default=0)
        return Discovery(tuple(found.file for found in shown), first_ns)

    def remove(self, path: str) -> None:
        """Forgets a file: it was read, or it is there no more."""
        self._waiting.pop(path, None)
        self._shown.pop(path, None)


class _Room:
    """What a batch may still take: at least one file, as ``FileStreamSource`` does."""

    def __init__(self, options: ListingOptions, taken: Iterable[_Waiting]) -> None:
        self._options = options
        self._files = self._bytes = 0
        for found in taken:
            self._files += 1
            self._bytes += found.file.size

    def takes(self, file: FoundFile) -> bool:
        options = self._options
        fits = options.most_files is None or self._files < options.most_files
        if options.most_bytes is not None and self._files:
            fits = fits and self._bytes + file.size <= options.most_bytes
        if fits:
            self._files += 1
            self._bytes += file.size
        return fits
