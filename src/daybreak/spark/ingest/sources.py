"""What fills the streams: started when a query reads them, and again when they fail."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.runtime.eventlog import Emit, silent
from daybreak.spark.failures import LeaseLost, LogUnavailable
from daybreak.spark.ingest.kafka_source import Position
from daybreak.spark.kafka.outage import passes

#: In the text of a streaming query's failure.
_UNAVAILABLE = LogUnavailable.__name__
#: A source that has run so long since it was started is well again.
WELL_S = 60.0


class Source(Protocol):
    """What fills one stream."""

    name: str

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def error(self) -> str | None:
        """Why it has stopped by itself; None while it is well."""

    def drain(self) -> None:
        """Waits for the end of bounded input."""


@dataclass
class _Kept:
    source: Source
    started_s: float = field(default_factory=time.monotonic)
    failures: int = 0
    #: When to start it again; None while it runs.
    retry_s: float | None = None
    error: str | None = None


class Sources:
    """The sources of one run. ``tend`` is called now and then, by one thread."""

    def __init__(
        self,
        make: Callable[[str], Source],
        limits: Limits,
        emit: Emit = silent,
        storage_trouble: Callable[[], str | None] = lambda: None,
    ) -> None:
        """``storage_trouble``: why the log or the store takes nothing now; None if they do."""
        self._make = make
        self._storage_trouble = storage_trouble
        self._emit = emit
        self._limits = limits
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
        """Waits for the end of bounded input, through failures."""
        for name in list(self._kept):
            kept = self._kept[name]
            source = None
            while source is not kept.source or kept.retry_s is not None:
                source = kept.source
                source.drain()
                self.check()
                if kept.retry_s is not None or source.error() is not None:
                    source = None
                    time.sleep(0.05)

    def positions(self) -> dict[str, Position]:
        """How far each Kafka source has read."""
        found = {n: getattr(k.source, "position", None) for n, k in list(self._kept.items())}
        return {name: position for name, position in found.items() if position is not None}

    def errors(self) -> dict[str, str]:
        """Streams whose source has failed lately, with why."""
        return {name: k.error for name, k in self._kept.items() if k.error is not None}

    def check(self) -> None:
        """Raises if a source has failed for good."""
        for name, kept in self._kept.items():
            if kept.error is not None and self._hopeless(kept):
                raise ConfigError(
                    f"stream {name!r}", f"its source failed: {kept.error}", "correct it"
                )

    def tend(self) -> None:
        """Starts failed sources again, each after a wait that doubles."""
        with self._guard:
            for name, kept in self._kept.items():
                self._tend(name, kept)

    def _tend(self, name: str, kept: _Kept) -> None:
        now = time.monotonic()
        if kept.retry_s is None:
            error = kept.source.error()
            if error is None:
                if kept.error is not None and now - kept.started_s > WELL_S:
                    kept.failures, kept.error = 0, None
                return
            # Its checkpoint and its segments are out of reach: no fault of the source's.
            counts = self._storage_trouble() is None and _UNAVAILABLE not in error
            kept.failures, kept.error = max(1, kept.failures + counts), error
            kept.retry_s = now + self._limits.wait_ns(kept.failures) / 1e9
            level = logging.ERROR if self._hopeless(kept) else logging.WARNING
            self._emit("source-failed", error, level=level, stream=name, failures=kept.failures)
        elif now >= kept.retry_s and not self._hopeless(kept) and self._storage_trouble() is None:
            kept.source.stop()
            again = self._make(name)
            again.start()  # before others see it: they may wait for its end
            kept.source = again
            kept.started_s, kept.retry_s = now, None
            self._emit("source-restarted", "was started again", stream=name)

    def _hopeless(self, kept: _Kept) -> bool:
        """Too often, or a mistake that only its user can fix; an outage ends by itself."""
        error = kept.error or ""
        if passes(error):
            return False
        mistake = "ConfigError" in error or LeaseLost.__name__ in error
        return kept.failures > self._limits.retries or mistake
