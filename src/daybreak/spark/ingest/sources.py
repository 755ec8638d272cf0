"""What fills the streams: started when a query reads them, and again when they fail.

A source that fails for a reason of its own is tried again a few times and then stays stopped, it
alone: the other streams go on, and ``resume`` gives it another chance. What passes by itself (a
full disk, a broker that is away) is waited for.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from daybreak.model.errors import ConfigError, ConfigErrors
from daybreak.model.limits import Limits
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.kafka_source import KafkaPosition
from daybreak.spark.ingest.source_failure import PASSING, SourceFailure

#: A source that has run so long since it was started is well again.
WELL_S = 60.0
#: A source whose disk is full is started again after so long at most. Twice as long, and rows wait
#: twice as long once there is room; half, and a stream costs twice the processor time meanwhile
#: (a quarter of a second for each start).
ROOM_S = 5.0
#: How to go on with a stream that stays stopped.
REMEDY = "correct it, then resume the stream or start again; nothing is lost"


class Source(Protocol):
    """What fills one stream."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def failure(self) -> SourceFailure | None:
        """Why it has stopped by itself; None while it is well."""

    def drain(self) -> None:
        """Waits for the end of bounded input."""


@dataclass
class _Kept:
    source: Source
    started_s: float = field(default_factory=time.monotonic)
    #: Of the source's own, lately: too many, and it stays stopped.
    faults: int = 0
    #: Starts that failed in a row, for whatever reason.
    tries: int = 0
    #: When to start it again; None while it runs.
    retry_s: float | None = None
    failure: SourceFailure | None = None
    #: Whether it stays as it is until it is resumed.
    stopped: bool = False


class Sources:
    """The sources of one run. ``tend`` is called now and then, by one thread."""

    def __init__(
        self,
        make: Callable[[str], Source],
        limits: Limits,
        emit: Emit = silent,
        storage_trouble: Callable[[], str | None] = lambda: None,
        backpressure: Backpressure | None = None,
    ) -> None:
        """``storage_trouble``: why the log or the store takes nothing now; None if they do.

        ``backpressure`` is told which streams deliver nothing because their source has failed.
        """
        self._make = make
        self._storage_trouble = storage_trouble
        self._emit = emit
        self._limits = limits
        self._backpressure = backpressure or Backpressure()
        self._kept: dict[str, _Kept] = {}
        self._guard = threading.Lock()

    def start(self, names: Iterable[str]) -> None:
        """Starts those that do not run yet."""
        with self._guard:
            for name in names:
                if name not in self._kept:
                    source = self._make(name)
                    source.start()
                    self._kept[name] = _Kept(source)

    def stop(self) -> None:
        with self._guard:
            for kept in self._kept.values():
                kept.source.stop()

    def drain(self) -> None:
        """Waits for the end of bounded input, through failures; not for streams that stopped."""
        for name in list(self._kept):
            kept = self._kept[name]
            source = None
            while not kept.stopped and (source is not kept.source or kept.retry_s is not None):
                source = kept.source
                source.drain()
                if kept.retry_s is not None or source.failure() is not None:
                    source = None
                    time.sleep(0.05)
        self.check()

    def positions(self) -> dict[str, KafkaPosition]:
        """How far each Kafka source has read."""
        found = {n: getattr(k.source, "position", None) for n, k in list(self._kept.items())}
        return {name: position for name, position in found.items() if position is not None}

    def errors(self) -> dict[str, str]:
        """Streams whose source has failed lately, with why."""
        kept = list(self._kept.items())
        return {name: k.failure.why for name, k in kept if k.failure is not None}

    def stopped(self) -> dict[str, str]:
        """Streams whose source has failed for good, with why."""
        kept = list(self._kept.items())
        return {n: k.failure.why for n, k in kept if k.stopped and k.failure is not None}

    def check(self) -> None:
        """Raises if nothing can arrive any more: every source has failed for good.

        So it does if another driver has the log.
        """
        stopped, kept = self.stopped(), list(self._kept.values())
        lost = any(k.failure is not None and k.failure.kind == "lost" for k in kept)
        if lost or (stopped and len(stopped) == len(kept)):
            errors = [
                ConfigError(f"stream {name!r}", f"its source failed: {why}", "correct it")
                for name, why in stopped.items()
            ]
            raise errors[0] if len(errors) == 1 else ConfigErrors(errors)

    def resume(self, name: str) -> bool:
        """Gives a stream that has stopped another chance; False if it has not stopped."""
        with self._guard:
            kept = self._kept.get(name)
            if kept is None or not kept.stopped:
                return False
            kept.faults = kept.tries = 0
            kept.retry_s, kept.stopped = time.monotonic(), False
            return True

    def tend(self) -> None:
        """Starts failed sources again, each after a wait that doubles."""
        with self._guard:
            for name, kept in self._kept.items():
                self._tend(name, kept)
            failing = (name for name, kept in self._kept.items() if kept.retry_s is not None)
            self._backpressure.failing = frozenset(failing)
            self._backpressure.stopped = self.stopped()

    def _tend(self, name: str, kept: _Kept) -> None:
        now = time.monotonic()
        if kept.retry_s is None:
            failure = kept.source.failure()
            if failure is not None:
                self._failed(name, kept, failure)
            elif kept.failure is not None and now - kept.started_s > WELL_S:
                kept.faults, kept.tries, kept.failure = 0, 0, None
        elif now >= kept.retry_s and not kept.stopped and self._storage_trouble() is None:
            self._restart(name, kept)

    def _failed(self, name: str, kept: _Kept, failure: SourceFailure) -> None:
        if (
            failure.kind == "fault" and self._storage_trouble() is not None
        ):  # its checkpoint and segments are out of reach
            failure = SourceFailure(failure.why, "storage")
        kept.failure = failure
        kept.tries += 1
        kept.faults += failure.kind not in PASSING
        kept.stopped = failure.kind in ("mistake", "lost") or kept.faults > self._limits.retries
        wait_s = self._limits.wait_ns(kept.tries) / 1e9
        kept.retry_s = time.monotonic() + (
            min(wait_s, ROOM_S) if failure.kind == "storage" else wait_s
        )
        level = logging.ERROR if kept.stopped else logging.WARNING
        self._emit(
            "source-failed", failure.why, level=level, stream=name, failures=kept.faults
        )  # fmt: skip
        if kept.stopped:
            self._emit(
                "stream-stopped", REMEDY, level=logging.ERROR, stream=name, error=failure.why
            )

    def _restart(self, name: str, kept: _Kept) -> None:
        kept.source.stop()
        try:
            again = self._make(name)
            again.start()  # before others see it: they may wait for its end
        except Exception as error:
            failure = SourceFailure.of(error)
            # A folder that is away for a moment looks like one that never was.
            kind = "fault" if failure.kind == "mistake" else failure.kind
            self._failed(name, kept, SourceFailure(failure.why, kind))
            return
        kept.source = again
        kept.started_s, kept.retry_s = time.monotonic(), None
        self._emit("source-restarted", "was started again", stream=name)
