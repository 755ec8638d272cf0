"""News of folders from the Linux kernel: one inotify instance for all streams of a run.

A process may have 128 instances (``fs.inotify.max_user_instances``), and a run may have more
streams. So one instance watches all folders, and one thread reads it and hands the names on.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from daybreak.runtime.eventlog import Emit, silent

_CLOSE_WRITE, _MOVED_TO, _CREATE = 0x8, 0x80, 0x100
_DELETE_SELF, _MOVE_SELF, _UNMOUNT, _OVERFLOW, _IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_ONLY_DIRECTORIES, _IS_DIRECTORY = 0x1000000, 0x40000000
_WATCHED = _CLOSE_WRITE | _MOVED_TO | _CREATE | _DELETE_SELF | _MOVE_SELF | _ONLY_DIRECTORIES
_GONE = _DELETE_SELF | _MOVE_SELF | _UNMOUNT | _IGNORED
#: The watch, the mask, a cookie of renames, and the bytes of the name that follows.
_HEAD = struct.Struct("iIII")
#: Bytes of one read: about 2 000 names. Half of it doubles the reads of a burst, 5 us each; twice
#: as much only holds more memory.
_READ_BYTES = 2**16


@dataclass
class News:
    """What the kernel reports of one folder."""

    #: Names of files that were closed after writing, or moved here: they are complete.
    complete: list[str] = field(default_factory=list)
    #: Names of files and links that were made here.
    created: list[str] = field(default_factory=list)
    #: True if there was more than the kernel could keep: only a listing tells.
    lost: bool = False
    #: True if the folder was removed, renamed or unmounted: it is watched no more.
    gone: bool = False

    def add(self, mask: int, name: str) -> None:
        if mask & _IS_DIRECTORY:
            return
        if mask & (_CLOSE_WRITE | _MOVED_TO):
            self.complete.append(name)
        elif mask & _CREATE:
            self.created.append(name)


#: Takes news; called by the thread that reads them, so it must not wait.
OnNews = Callable[[News], None]


@dataclass(frozen=True)
class FolderWatch:
    """A folder that is watched for one reader."""

    number: int
    on_news: OnNews


class Inotify:
    """One inotify instance. Any thread may watch folders with it.

    Raises OSError where the kernel has none to give, or this system has no inotify.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self._fd: int = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        except AttributeError:
            raise OSError("this system has no inotify") from None
        self._succeeded(self._fd)
        self._readers: dict[int, list[FolderWatch]] = {}
        self._guard = threading.Lock()
        self._ended, self._end = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="daybreak-inotify", daemon=True)
        self._thread.start()

    @classmethod
    def opened(cls, emit: Emit = silent) -> Inotify | None:
        """An instance; None, after one event that says why, where folders are listed instead."""
        try:
            return cls()
        except OSError as error:
            why = f"{error}; all folders are listed at each trigger instead"
            emit("folder-polled", why, level=logging.WARNING)
            return None

    def close(self) -> None:
        """Ends all watches. Idempotent."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1
            self._thread.join()
            os.close(self._ended)
            os.close(self._fd)

    def watch(self, folder: str, on_news: OnNews) -> FolderWatch:
        """Watches a folder; OSError if there is none, or the kernel watches no more of them.

        What happens in the folder from the moment this returns is reported.
        """
        with self._guard:  # the thread looks the number up under it
            number = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), _WATCHED)
            self._succeeded(number, folder)
            watch = FolderWatch(number, on_news)
            self._readers.setdefault(number, []).append(watch)
            return watch

    def unwatch(self, watch: FolderWatch) -> None:
        """Ends a watch. Idempotent; the last news may come while this is called."""
        with self._guard:
            readers = self._readers.get(watch.number, [])
            if watch in readers:
                readers.remove(watch)
                if not readers:
                    self._forget(watch.number)

    def _forget(self, number: int) -> None:
        del self._readers[number]
        self._libc.inotify_rm_watch(self._fd, number)

    def _succeeded(self, result: int, about: str = "inotify") -> None:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), about)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        poll.register(self._ended, 0)  # tells of nothing but the other end's closing
        while all(fd == self._fd for fd, _ in poll.poll()):
            with suppress(BlockingIOError):
                self._deliver(os.read(self._fd, _READ_BYTES))

    def _deliver(self, data: bytes) -> None:
        news: dict[int, News] = {}
        lost = False
        for number, mask, name in _events(data):
            lost = lost or bool(mask & _OVERFLOW)
            told = news.setdefault(number, News())
            told.gone = told.gone or bool(mask & _GONE)
            told.add(mask, name)
        with self._guard:
            if lost:
                for number in self._readers:
                    news.setdefault(number, News()).lost = True
            calls = [
                (reader.on_news, told)
                for number, told in news.items()
                for reader in self._readers.get(number, ())
            ]
            for number in [n for n, told in news.items() if told.gone and n in self._readers]:
                self._forget(number)
        for call, told in calls:
            call(told)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    """The watch, the mask and the name of each event; a name that is not UTF-8 has surrogates."""
    at = 0
    while at < len(data):
        number, mask, _, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size + size
        yield number, mask, os.fsdecode(data[at - size : at].rstrip(b"\0"))
