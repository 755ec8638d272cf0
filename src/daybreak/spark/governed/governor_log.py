"""The log of a governor's events, and who asks for a change."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from daybreak.model.secrets import without_secrets
from daybreak.runtime.eventlog import EventLog
from daybreak.runtime.standing import ChangeLog

#: Who asks for a change.
_ACTOR: ContextVar[str] = ContextVar("actor", default="program")


class ChangeNote(NamedTuple):
    """Something that was changed."""

    what: str
    subject: str
    was: object
    value: object


class GovernorLog:
    """Any thread may use it."""

    def __init__(self, name: str, start_ns: int, log: EventLog | None = None) -> None:
        """``log``: writes events to the run directory, too."""
        self._name = name
        self._log = log
        self.changes = ChangeLog(start_ns, self.emit)

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
        """Notes a change; ``acting`` says who asked for it."""
        self.changes.note(_ACTOR.get(), what, subject, was, value)


@contextmanager
def acting(by: str) -> Iterator[None]:
    """Changes inside are noted as this one's."""
    token = _ACTOR.set(by)
    try:
        yield
    finally:
        _ACTOR.reset(token)
