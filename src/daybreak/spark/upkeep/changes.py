"""The log of changes: who changed what in a run, when, from which value to which."""

from __future__ import annotations

import time
from typing import Any

from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit

#: What is changed of the run as a whole, or of a class, and not of a query.
_OF_NO_QUERY = ("class-priority", "policy", "stream-resumed")


class ChangeLog:
    """Everything that operators changed, in order: for the report, and for the event log."""

    def __init__(self, start_ns: int, emit: Emit) -> None:
        self._start_ns = start_ns
        self._emit = emit
        self.entries: list[dict[str, object]] = []

    def note(self, by: str, what: str, subject: str, was: Any, value: Any) -> None:
        change = {"by": by, "what": what, "subject": subject, "was": was, "value": value}
        self.entries.append(
            {
                "at_s": round((CLOCK.now_ns() - self._start_ns) / 1e9, 3),
                "time_s": round(time.time(), 3),
                **change,
            }
        )
        query = None if what in _OF_NO_QUERY else subject
        self._emit("change", f"{what} {subject}: {was} -> {value}", query=query, **change)
