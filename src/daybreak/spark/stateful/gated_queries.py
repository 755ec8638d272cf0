"""Grants micro-batches to the streaming queries of one session, and waits for their ends."""

from __future__ import annotations

import queue
import threading
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from daybreak.spark.failures import one_line
from daybreak.spark.gates.bridge import Bridge, Gone, QueryStarted, Ready

_POLL_MS = 500
#: A query that has been started says so within this.
_PATIENCE_S = 120.0


class Turn(NamedTuple):
    """What a grant came to: whether a micro-batch ran, and whether another may follow by itself."""

    ran: bool
    may_follow: bool


class QueryEnded(Exception):
    """A streaming query ended inside its turn."""


class GatedQueries:
    """All stateful queries of a run.

    Where Spark's internals are not as the gates expect, queries run free: their source shows them
    nothing that they were not allowed to read, so only the polling of idle queries is lost.
    """

    def __init__(self, session: SparkSession) -> None:
        self._guard = threading.Lock()
        self._inboxes: dict[str, queue.SimpleQueue[Any]] = {}
        self._bridge: Bridge | None = None
        #: Why queries run free; None: they do not.
        self.free: str | None = None
        try:
            self._bridge = Bridge(session)
        except Exception as error:
            self.free = one_line(error)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="daybreak-gates", daemon=True)
        self._thread.start()

    def started(self, query: Any) -> bool:
        """Waits for the gate of a query that was started; whether it has one."""
        if self._bridge is None:
            return False
        event = self._next(str(query.runId), QueryStarted)
        if event.free is not None:
            self.free = event.free
            return False
        self._next(str(query.runId), Ready)
        return True

    def turn(self, query: Any, *, gated: bool) -> Turn:
        """One micro-batch, or a look that finds nothing to do; ``QueryEnded`` if it failed."""
        if not gated or self._bridge is None:
            query.processAllAvailable()
            return Turn(ran=True, may_follow=False)
        run = str(query.runId)
        if not self._bridge.grant(run):
            raise QueryEnded("the query has ended")
        ready = self._next(run, Ready, None)
        return Turn(ready.ran, ready.ran and (ready.watermark or ready.timers))

    def cancel(self, query: Any) -> None:
        if self._bridge is not None:
            self._bridge.cancel(str(query.runId))

    def _next(self, run: str, kind: type[Any], patience_s: float | None = _PATIENCE_S) -> Any:
        inbox = self._inbox(run)
        while True:
            try:
                event = inbox.get(timeout=patience_s)
            except queue.Empty:
                raise QueryEnded(f"no answer within {patience_s:g} s") from None
            if isinstance(event, Gone):
                raise QueryEnded(event.error or "the query was stopped")
            if isinstance(event, kind):
                return event

    def _poll(self) -> None:
        while self._bridge is not None and not self._closing.is_set():
            for event in self._bridge.poll(_POLL_MS):
                if isinstance(event, QueryStarted | Ready | Gone):
                    self._inbox(event.run).put(event)

    def _inbox(self, run: str) -> queue.SimpleQueue[Any]:
        """A query reports before the thread that starts it knows its number."""
        with self._guard:
            return self._inboxes.setdefault(run, queue.SimpleQueue())

    def forget(self, query: Any) -> None:
        """Of a query that was stopped nothing is awaited any more."""
        with self._guard:
            self._inboxes.pop(str(query.runId), None)

    def close(self) -> None:
        """Call it when all queries are stopped."""
        self._closing.set()
        if self._bridge is not None:
            self._bridge.nudge()
            self._thread.join()
            self._bridge.close()
