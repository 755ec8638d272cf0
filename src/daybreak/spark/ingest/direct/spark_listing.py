"""New files where inotify sees nothing: other file systems, patterns, and sub-folders.

Spark lists them, as it does for a StreamingQuery, each time the source is asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from daybreak.model.errors import DaybreakError
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.failures import one_line
from daybreak.spark.ingest.direct.file_queue import Discovery, FileQueue
from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.listing import Known, unread
from daybreak.spark.ingest.direct.listing_options import ListingOptions
from daybreak.spark.ingest.direct.paths import local_path
from daybreak.spark.java.loader import JavaPackage
from daybreak.spark.tasks.prepared.jvm import active

#: Listing takes at most this share of the time. Twice as much makes name nodes and object stores
#: answer twice as often; half, and rows of slow ones wait twice as long.
MOST_TIME = 0.5
#: And this share of a core, for the part of it that holds Python's interpreter.
MOST_LOAD = 1 / 20

#: All files of a source that a batch could read.
ListFiles = Callable[[], list[FoundFile]]


class ListingFailed(DaybreakError):
    """The files of a source could not be listed; the text is Spark's."""


def files_by_spark(spark: SparkSession, path: str, options: Mapping[str, str]) -> ListFiles:
    """What lists the files of a path that Spark understands; it raises ``ListingFailed``."""
    jvm: Any = spark.sparkContext._jvm
    given = jvm.PythonUtils.toScalaMap({**options, "path": path})
    package = JavaPackage(spark.sparkContext._gateway, "ingest")
    found = package.new("SourceFiles", spark._jsparkSession, path, given)

    def files() -> list[FoundFile]:
        try:
            with active(spark):
                parts = str(found.list()).split("\0")
        except (Py4JError, PySparkException) as error:
            raise ListingFailed(one_line(error)) from None
        return [
            # Of a local file the path alone, as other listings have it.
            FoundFile(local_path(name), int(mtime_ms), int(size))
            for name, size, mtime_ms in zip(parts[0:-1:3], parts[1::3], parts[2::3], strict=True)
        ]

    return files


class SparkListing:
    """The files of one source that are still to be read. One thread calls it; any may ``wake`` it.

    It has the methods of ``FolderListing``.
    """

    def __init__(
        self,
        files: ListFiles,
        options: ListingOptions,
        known: Known,
        *,
        newest_ms: int = 0,
        poll_s: float = 0.1,
        emit: Emit = silent,
        stream: str | None = None,
    ) -> None:
        """``poll_s``: how often files are listed, if that takes no longer than half of it."""
        self._files = files
        self._options = options
        self._known = known
        self._poll_s = poll_s
        self._emit = emit
        self._stream = stream
        self._newest_ms = newest_ms
        #: What was read and is still there, as it was then.
        self._read: dict[str, FoundFile] = {}
        self._queue = FileQueue(options)
        self._list_s = 0.0
        self._asked = True
        #: Files that were written to after they had been read: their new rows are not read.
        self.changed = 0
        self._told = threading.Condition()

    @property
    def listens(self) -> bool:
        """Always false: nothing announces these files."""
        return False

    def discover(self) -> Discovery:
        """The files of the next batch; the same ones until they are ``taken``."""
        with self._told:
            asked, self._asked = self._asked, False
        if asked or time.monotonic() >= self._list_s:
            self._list()
        return self._queue.first()

    def taken(self, files: Iterable[FoundFile]) -> None:
        """These files are in the log."""
        for file in files:
            self._queue.remove(file.path)
            self._read[file.path] = file
            self._newest_ms = max(self._newest_ms, file.mtime_ms)

    @property
    def too_old_ms(self) -> int:
        """Files with an earlier time are not read any more, so the log may forget them."""
        return self._options.too_old_ms(self._newest_ms)

    @property
    def is_settled(self) -> bool:
        """True if nothing is to be read of what was found so far."""
        return not self._asked and not len(self._queue)

    def list_again(self) -> None:
        """Makes the next ``discover`` list the files. Any thread may call it."""
        with self._told:
            self._asked = True
            self._told.notify_all()

    def wake(self) -> None:
        """Ends a ``wait``. Any thread may call it."""
        self.list_again()

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Blocks until files are to be listed, ``wake`` is called, or for so long."""
        end_s = time.monotonic() + seconds
        with self._told:
            while not (self._asked or stopping.is_set()):
                left_s = min(end_s, self._list_s) - time.monotonic()
                if left_s <= 0:
                    return
                self._told.wait(left_s)

    def close(self) -> None:
        """Nothing to release."""

    def _list(self) -> None:
        began_s, cpu_s = time.monotonic(), time.thread_time()
        found = self._files()
        shown_ns, too_old_ms = CLOCK.now_ns(), self.too_old_ms
        self._read = {f.path: self._read[f.path] for f in found if f.path in self._read}
        wants = self._options.wants
        new = [
            file
            for file in found
            if file.mtime_ms >= too_old_ms
            and wants(file.path.rpartition("/")[2])
            and file.path not in self._queue
            and not self._was_read(file, too_old_ms)
        ]
        fresh = unread(new, self._known)
        self._read |= {file.path: file for file in new if file.path not in fresh}
        self._queue.add(fresh.values(), shown_ns)
        took_s = time.monotonic() - began_s
        load_s = (time.thread_time() - cpu_s) / MOST_LOAD
        self._list_s = began_s + max(self._poll_s, took_s / MOST_TIME, load_s)

    def _was_read(self, file: FoundFile, too_old_ms: int) -> bool:
        before = self._read.get(file.path)
        if before is None or before.mtime_ms < too_old_ms:
            return False
        if before.size != file.size:
            self.changed += 1
            self._read[file.path] = before._replace(size=file.size)
            why = f"was {before.size} bytes when it was read, and is {file.size} now"
            self._emit(
                "file-changed", f"{why}; rows added since are not read", level=logging.WARNING,
                stream=self._stream, file=file.path,
            )  # fmt: skip
        return True
