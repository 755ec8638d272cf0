"""Backpressure: sources wait while the log is full; some have failed, some have rows to read.

A stream whose source waits, has failed, or has shown rows that are not read yet is not silent: rows
are there that did not come in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

_POLL_S = 0.05


class Stopped(Exception):
    """A source was stopped while it waited for room in the log."""


class Backpressure:
    """Whether sources have to wait, and whether streams are silent. Any thread may use it."""

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.full = False
        #: What queries have not read yet, when it was last looked at.
        self.unread_bytes = 0
        #: Streams that deliver nothing because their source has failed.
        self.failing: frozenset[str] = frozenset()
        #: Those of them that stay so until they are resumed, with why.
        self.stopped: Mapping[str, str] = {}
        self._monotonic_ns = monotonic_ns
        #: When each stream's source last said that it has nothing; None: it has shown rows.
        self._empty_ns: dict[str, int | None] = {}
        #: Streams whose sources announce what comes, so that they need not be asked.
        self._listening: set[str] = set()

    def wait(self, stopping: threading.Event) -> None:
        """Returns when there is room; raises ``Stopped`` if the source is to stop.

        Polls: a StreamingQuery's stop() does not return while its batch waits.
        """
        while self.full:
            if stopping.wait(_POLL_S):
                raise Stopped

    def shows(self, stream: str) -> None:
        """A stream's source has rows that are not in the log yet, until ``is_empty`` is called."""
        self._listening.discard(stream)
        self._empty_ns[stream] = None

    def is_empty(self, stream: str, *, listening: bool = False) -> None:
        """A stream's source was asked, and has nothing.

        ``listening``: what comes is announced, so it has nothing until ``shows`` is called. Other
        sources call this at each answer.
        """
        self._empty_ns[stream] = self._monotonic_ns()
        if listening:
            self._listening.add(stream)
        else:
            self._listening.discard(stream)

    def is_blocked(self, stream: str, idle_ns: int) -> bool:
        """Tells whether a stream's rows may be where ingest has not looked for so long.

        Of a source that says nothing of itself this is not known, and taken for no.
        """
        if self.full:
            return True
        if stream not in self._empty_ns or stream in self._listening:
            return False
        empty_ns = self._empty_ns[stream]
        return empty_ns is None or self._monotonic_ns() - empty_ns >= idle_ns
