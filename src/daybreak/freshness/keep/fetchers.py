"""Visits of several hosts at once: a slow host delays nobody but itself.

Threads only fetch. One thread, the caller's, decides what is visited and writes the store.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread

from daybreak.freshness.keep.keeper import MirrorKeeper, Visit
from daybreak.freshness.keep.mirror_source import Fetched, SourceError

#: Waits are cut to this, so that a clock that was set is noticed.
_LONGEST_WAIT_S = 60.0


class Fetchers:
    """A keeper's visits, at most one per host and ``parallel_hosts`` in all at a time."""

    def __init__(self, keeper: MirrorKeeper, clock_s: Callable[[], float]) -> None:
        self._keeper = keeper
        self._clock_s = clock_s
        self._most = keeper.params.parallel_hosts
        #: By host.
        self._under_way: dict[str, Visit] = {}
        self._visits: SimpleQueue[Visit | None] = SimpleQueue()
        self._ended: SimpleQueue[tuple[Visit, Fetched | SourceError] | None] = SimpleQueue()
        self._threads: list[Thread] = []

    def stop(self) -> None:
        """Makes `run` return soon. May be called by a signal handler."""
        self._ended.put(None)

    def run(self, until_s: float, on_visit: Callable[[str], None]) -> None:
        """Keeps the mirror until this moment or `stop`; describes each visit that ended.

        A visit under way at the end is given up, as if the process had been killed.
        """
        try:
            while (now_s := self._clock_s()) < until_s:
                while len(self._under_way) < self._most and (
                    visit := self._keeper.next_visit(now_s, self._under_way)
                ):
                    self._start(visit)
                wait_s = min(self._keeper.wake_s(now_s), until_s) - now_s
                try:
                    ended = self._ended.get(timeout=max(0.0, min(wait_s, _LONGEST_WAIT_S)))
                except Empty:
                    continue
                if ended is None:
                    return
                visit, found = ended
                del self._under_way[visit.row.host]
                on_visit(self._keeper.record(visit, found, self._clock_s()))
        finally:
            for _ in self._threads:
                self._visits.put(None)

    def _start(self, visit: Visit) -> None:
        self._under_way[visit.row.host] = visit
        if len(self._threads) < len(self._under_way):
            # A daemon: a source that hangs must not hold up the end of the process.
            thread = Thread(target=self._fetch, name="daybreak-fetch", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._visits.put(visit)

    def _fetch(self) -> None:
        while (visit := self._visits.get()) is not None:
            self._ended.put((visit, self._keeper.fetch(visit)))
