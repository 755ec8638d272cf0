"""Backpressure: sources wait while the log is full; some have failed.

A stream whose source waits, or has failed, is not silent: rows are there that did not come in.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

_POLL_S = 0.05


class Stopped(Exception):
    """A source was stopped while it waited for room in the log."""


class Backpressure:
    """Whether sources have to wait. Set by the loop's thread, waited for by the sources'."""

    def __init__(self) -> None:
        self.full = False
        #: What queries have not read yet, when it was last looked at.
        self.unread_bytes = 0
        #: Streams that deliver nothing because their source has failed.
        self.failing: frozenset[str] = frozenset()
        #: Those of them that stay so until they are resumed, with why.
        self.stopped: Mapping[str, str] = {}

    def wait(self, stopping: threading.Event) -> None:
        """Returns when there is room; raises ``Stopped`` if the source is to stop.

        Polls: a StreamingQuery's stop() does not return while its batch waits.
        """
        while self.full:
            if stopping.wait(_POLL_S):
                raise Stopped
