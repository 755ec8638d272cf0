"""What a governor says, and the list of what was changed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from daybreak.model.secrets import without_secrets
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import EventLog

#: Who asks for a change.
_ACTOR: ContextVar[str] = ContextVar("actor", default="program")


class JournalEntry(NamedTuple):
    """Something that was changed."""

    what: str
    subject: str
    was: object
    value: object


class Journal:
    """Any thread may use it."""

    def __init__(self, name: str, start_ns: int, log: EventLog | None = None) -> None:
        """``log``: writes events to the run directory, too."""
        self._name = name
        self._start_ns = start_ns
        self._log = log
        #: Everything that was changed, in order.
        self.changes: list[dict[str, object]] = []

    def emit(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        """Tells Python's ``logging``, under ``daybreak.run``."""
        known = {"query": query, **fields}
        if self._log is not None:
            self._log.emit(event, message, level=level, fields=known)
            return
        about = {key: value for key, value in known.items() if value is not None}
        extra = {"daybreak": {"run": self._name, "event": event, "fields": about}}
        logging.getLogger("daybreak.run").log(level, "%s", without_secrets(message), extra=extra)

    def changed(self, what: str, subject: str, was: object, value: object) -> None:
        """Notes a change, who asked for it and when."""
        self.changes.append(
            {
                "at_s": round((CLOCK.now_ns() - self._start_ns) / 1e9, 3),
                "time_s": round(time.time(), 3),
                "by": _ACTOR.get(),
                "what": what,
                "subject": subject,
                "was": was,
                "value": value,
            }
        )
        self.emit("change", f"{what} {subject}: {was} -> {value}", by=_ACTOR.get())


@contextmanager
def acting(by: str) -> Iterator[None]:
    """Changes inside are noted as this one's."""
    token = _ACTOR.set(by)
    try:
        yield
    finally:
        _ACTOR.reset(token)
