"""New files of one local folder: the kernel's news, and a full listing as a net.

Files are chosen by the rules of Spark's ``FileStreamSource``, with one more: a file that is still
written to is not read. The kernel tells when it is closed; where it does not, a file that was
changed less than a second ago waits.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.ingest.direct.file_queue import Discovery, FileQueue
from daybreak.spark.ingest.direct.file_system import inotify_sees
from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.inotify import FolderWatch, Inotify, News
from daybreak.spark.ingest.direct.listing_options import ListingOptions
from daybreak.spark.ingest.direct.paths import local_path

#: The folder is listed so often, whatever the kernel reports. Half of it doubles what idle streams
#: cost (300 of them: 30 listings a second); twice as long, and a file that was missed comes later.
NET_S = 10.0
#: A listing takes at most this share of a core: 100 000 names hold the interpreter for 50 ms.
MOST_LOAD = 1 / 20
#: A file that is not known to be closed is read if it has not changed for so long. Half of it reads
#: more files of slow writers in the middle; twice as long, and a linked file waits longer.
SETTLED_S = 1.0
#: Names that one look at the log asks for: a statement takes a few thousand values.
_ASKED = 1000
#: Events about files of one source since its start: more of them say nothing new.
_MOST_REPORTED = 1000

#: Tells which of these paths the log has as read.
Known = Callable[[Sequence[str]], Collection[str]]


def unread(files: Sequence[FoundFile], known: Known) -> dict[str, FoundFile]:
    """Those of some files that the log does not have, by path."""
    found = {file.path: file for file in files}
    paths = list(found)
    for at in range(0, len(paths), _ASKED):
        for path in known(paths[at : at + _ASKED]):
            found.pop(path, None)
    return found


class FolderListing:
    """The files of one folder that are still to be read. One thread calls it; any may ``wake`` it.

    Memory holds the names that are in the folder. Whether another one was read, the log knows.
    """

    def __init__(
        self,
        path: str,
        options: ListingOptions,
        inotify: Inotify | None,
        known: Known,
        *,
        newest_ms: int = 0,
        poll_s: float = 0.1,
        emit: Emit = silent,
        stream: str | None = None,
    ) -> None:
        """``path``: an absolute one, or the URI of a local folder.

        ``newest_ms``: the time of the newest file that was read.
        ``poll_s``: how often the folder is listed where the kernel does not see its changes.
        """
        self._path = local_path(path)
        self._options = options
        self._inotify = inotify
        self._known = known
        self._poll_s = poll_s
        self._emit = emit
        self._stream = stream
        self._newest_ms = newest_ms
        #: Size and time of each file that was read and is still there.
        self._read: dict[str, tuple[int, int]] = {}
        self._queue = FileQueue(options)
        #: Names that may still be written to, and when to look at them (monotonic seconds).
        self._unsettled: dict[str, float] = {}
        #: Events and the files that they were emitted for.
        self._reported: set[tuple[str, str]] = set()
        self._watch: FolderWatch | None = None
        self._identity: tuple[int, int] | None = None
        #: When the folder is to be listed next, and whether that was asked for.
        self._list_s = 0.0
        self._asked = True
        #: Files that were written to after they had been read: their new rows are not read.
        self.changed = 0
        self._news = News()
        self._woken = False
        self._told = threading.Condition()

    def discover(self) -> Discovery:
        """The files of the next batch; the same ones until they are ``taken``."""
        with self._told:
            news, self._news = self._news, News()
            asked, self._asked, self._woken = self._asked, False, False
        now_s = time.monotonic()
        if news.gone:
            self._watch = None
        for name in news.complete:
            self._unsettled.pop(name, None)
        for name in news.created:
            self._unsettled.setdefault(name, now_s)
        if asked or news.lost or news.gone or now_s >= self._list_s:
            self._list()
        self._look(dict.fromkeys(news.complete), settled=True)
        self._look([n for n, due_s in self._unsettled.items() if due_s <= now_s], settled=False)
        return self._queue.first()

    def taken(self, files: Iterable[FoundFile]) -> None:
        """These files are in the log."""
        for file in files:
            self._queue.remove(file.path)
            self._read[os.path.basename(file.path)] = file.size, file.mtime_ms
            self._newest_ms = max(self._newest_ms, file.mtime_ms)

    @property
    def listens(self) -> bool:
        """True if the kernel announces new files."""
        return self._watch is not None

    @property
    def too_old_ms(self) -> int:
        """Files with an earlier time are not read any more, so the log may forget them."""
        return self._options.too_old_ms(self._newest_ms)

    @property
    def is_settled(self) -> bool:
        """True if nothing is to be read of what was found so far."""
        with self._told:
            quiet = self._news == News() and not self._asked
        return quiet and not self._unsettled and not len(self._queue)

    def list_again(self) -> None:
        """Makes the next ``discover`` list the folder. Any thread may call it."""
        with self._told:
            self._asked = True
        self.wake()

    def wake(self) -> None:
        """Ends a ``wait``. Any thread may call it."""
        with self._told:
            self._woken = True
            self._told.notify_all()

    def wait(self, seconds: float, stopping: threading.Event) -> None:
        """Blocks until ``discover`` may find something, ``wake`` is called, or for so long.

        Who sets ``stopping`` calls ``wake`` afterwards.
        """
        end_s = time.monotonic() + seconds
        with self._told:
            while not (self._woken or self._news != News() or stopping.is_set()):
                due_s = min([end_s, self._list_s, *self._unsettled.values()])
                left_s = due_s - time.monotonic()
                if left_s <= 0:
                    return
                self._told.wait(left_s)

    def close(self) -> None:
        """Ends the watch. Idempotent."""
        if self._watch is not None and self._inotify is not None:
            self._inotify.unwatch(self._watch)
            self._watch = None

    def _on_news(self, news: News) -> None:
        """Called by the thread of inotify."""
        with self._told:
            if news.lost or news.gone:
                self._news.lost |= news.lost
                self._news.gone |= news.gone
            wants = self._options.wants
            self._news.complete += filter(wants, news.complete)
            self._news.created += filter(wants, news.created)
            if self._news != News():
                self._told.notify_all()

    def _list(self) -> None:
        """Looks at all names of the folder."""
        began_s = time.monotonic()
        self._keep_watch()
        try:
            names = os.listdir(self._path)
        except (FileNotFoundError, NotADirectoryError):
            names = []  # it may be made again
        for name in self._read.keys() - set(names):
            del self._read[name]
        too_old_ms, wants = self.too_old_ms, self._options.wants
        new = [
            name
            for name in names
            if name not in self._read and wants(name) and self._at(name) not in self._queue
        ]
        new += [name for name, (_, mtime_ms) in self._read.items() if mtime_ms < too_old_ms]
        self._look(new, settled=False)
        ended_s = time.monotonic()
        every_s = self._poll_s if self._watch is None else NET_S
        self._list_s = ended_s + max(every_s, (ended_s - began_s) / MOST_LOAD)

    def _keep_watch(self) -> None:
        """Watches the folder before it is listed, and the one that has taken its place."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self.close()
            return
        identity = found.st_dev, found.st_ino
        if self._inotify is None or (self._watch is not None and identity == self._identity):
            return
        self.close()
        if not inotify_sees(self._path):
            return
        try:
            self._watch = self._inotify.watch(self._path, self._on_news)
        except FileNotFoundError:
            return
        except OSError as error:
            why = f"{error}; the folder is listed every {self._poll_s:g} s instead"
            if self._is_new("polled", self._path):
                self._emit(
                    "folder-polled", why, level=logging.WARNING, stream=self._stream,
                    file=self._path,
                )  # fmt: skip
        self._identity = identity

    def _look(self, names: Iterable[str], *, settled: bool) -> None:
        """Looks at files of these names. ``settled``: they are known to be closed."""
        now_s, shown_ns = time.monotonic(), CLOCK.now_ns()
        wall_s = time.time()
        found: list[FoundFile] = []
        for name in names:
            self._unsettled.pop(name, None)
            file, is_link = self._stat(name)
            if file is None or self._was_read(name, file):
                continue
            if not settled and not is_link and abs(wall_s - file.mtime_ms / 1000) < SETTLED_S:
                self._unsettled[name] = now_s + SETTLED_S
            elif file.mtime_ms >= self.too_old_ms:
                found.append(file)
        new = [file for file in found if file.path in self._queue]
        asked = [file for file in found if file.path not in self._queue]
        fresh = unread(asked, self._known)
        for file in asked:
            if file.path not in fresh:
                self._read[os.path.basename(file.path)] = file.size, file.mtime_ms
        self._queue.add((*new, *fresh.values()), shown_ns)

    def _stat(self, name: str) -> tuple[FoundFile | None, bool]:
        """A file as it is now, and whether it came as a link; None where it is none to be read."""
        path = self._at(name)
        try:
            path.encode()
            found = os.stat(path)
        except UnicodeEncodeError:
            self._skipped("its name is not UTF-8; rename it", repr(os.fsencode(path)))
            return None, False
        except (FileNotFoundError, NotADirectoryError):  # gone, or a link that leads nowhere
            self._queue.remove(path)
            return None, False
        if not stat.S_ISREG(found.st_mode):
            if stat.S_ISDIR(found.st_mode) and "=" in name:
                why = "looks like a partition; start the run again to read its files"
                self._skipped(why, path)
            return None, False
        mtime_ms = found.st_mtime_ns // 1_000_000
        return FoundFile(path, mtime_ms, found.st_size), found.st_nlink > 1

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def _was_read(self, name: str, file: FoundFile) -> bool:
        """Tells whether memory knows that a file was read; reports it if it has changed since."""
        before = self._read.get(name)
        if before is None:
            return False
        size, mtime_ms = before
        if mtime_ms < self.too_old_ms <= file.mtime_ms:  # forgotten: it counts as another file
            del self._read[name]
            return False
        if size != file.size:
            self.changed += 1
            self._read[name] = file.size, mtime_ms
            why = f"was written to after it had been read: {size} bytes then, {file.size} now"
            remedy = "rows added since are not read; write files elsewhere and move them here"
            if self._is_new("changed", name):
                self._emit(
                    "file-changed", f"{why}; {remedy}", level=logging.WARNING,
                    stream=self._stream, file=file.path,
                )  # fmt: skip
        return True

    def _is_new(self, event: str, about: str) -> bool:
        """Tells whether an event is the first of its kind for a file; they are limited, too."""
        if (event, about) in self._reported or len(self._reported) >= _MOST_REPORTED:
            return False
        self._reported.add((event, about))
        return True

    def _skipped(self, why: str, about: str) -> None:
        if self._is_new("skipped", about):
            self._emit(
                "file-skipped", why, level=logging.WARNING, stream=self._stream, file=about
            )  # fmt: skip
