"""The event log of a run: one line for everything an operator may have to know afterwards.

Events are records of Python's ``logging``, under ``daybreak.run``. A run writes them as JSON lines
to ``RUN/events.jsonl``, over all its starts, in bounded space; a command or a program may add a
handler of its own, for example on standard error. What Spark itself logs is not among them.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from daybreak.model.secrets import without_secrets

EVENTS_FILE = "events.jsonl"
#: The file is renamed to ``events.jsonl.1`` beyond this, which replaces the one before.
MAX_BYTES = 8 * 2**20
#: Lines that wait for room on a full disk, at most; then the oldest go. About 300 KB, and at a
#: failing source's pace of a line in three seconds an hour of events.
MOST_WAITING = 1000
#: So much of the end of the file is searched for half a line: a line of more bytes is none of ours.
LONGEST_HALF = 2**16
#: Where handlers for all runs of a process go.
ROOT = "daybreak"
LEVELS = ("debug", "info", "warning", "error")

Format = Literal["text", "json"]
Level = Literal["debug", "info", "warning", "error"]


class Emit(Protocol):
    """Emits an event of a run."""

    def __call__(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None: ...


def silent(
    event: str,
    message: str,
    *,
    level: int = logging.INFO,
    query: str | None = None,
    **fields: object,
) -> None:
    """For parts whose events nobody reads."""


class EventLog:
    """The events of one run. Any thread may emit them."""

    def __init__(self, root: Path) -> None:
        self._name = root.name
        # Not registered by name: two runs of one process may bear the same.
        self.logger = logging.Logger(f"{ROOT}.run")
        self.logger.parent = logging.getLogger(f"{ROOT}.run")
        self.logger.setLevel(1)  # ``emit`` has looked at the level already
        self._file = _File(root / EVENTS_FILE)
        self._file.setFormatter(JsonLines())
        self.logger.addHandler(self._file)

    def wants(self, level: int) -> bool:
        """Whether events of this level go anywhere, for those that are many."""
        return level >= self._level

    @property
    def _level(self) -> int:
        chosen = logging.getLogger(ROOT).level
        return chosen if chosen != logging.NOTSET else logging.INFO

    def emit(self, event: str, message: str, *, level: int, fields: Mapping[str, object]) -> None:
        """``fields`` without a value are left out."""
        if not self.wants(level):
            return
        known = {key: _shown(value) for key, value in fields.items() if value is not None}
        about = {"run": self._name, "event": event, "fields": known}
        self.logger.log(level, "%s", without_secrets(message), extra={"daybreak": about})

    def close(self) -> None:
        """Idempotent."""
        self.logger.removeHandler(self._file)
        self._file.close()


class _File(logging.Handler):
    """Appends whole lines to a file of bounded size; what a full disk refuses waits in memory."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._handle: int | None = None
        self._bytes = 0
        self._waiting: deque[bytes] = deque(maxlen=MOST_WAITING)

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises: a full disk must not hold up or end a run, nor fill the screen."""
        self._waiting.append(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        with suppress(OSError):
            while self._waiting:
                self._append(self._waiting[0])
                self._waiting.popleft()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        super().close()

    def _append(self, line: bytes) -> None:
        handle = self._opened()
        if self._bytes and self._bytes + len(line) > MAX_BYTES:
            os.close(handle)
            self._handle = None
            self._path.replace(self._path.with_name(f"{EVENTS_FILE}.1"))
            handle = self._opened()
        try:
            if os.write(handle, line) < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with suppress(OSError):
                os.ftruncate(handle, self._bytes)  # half a line is none
            raise
        self._bytes += len(line)

    def _opened(self) -> int:
        """The open file, without the half line that a process may have died on."""
        if self._handle is None:
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._handle = os.open(self._path, flags, 0o666)
            self._bytes = os.fstat(self._handle).st_size
            tail = os.pread(self._handle, LONGEST_HALF, max(0, self._bytes - LONGEST_HALF))
            half = len(tail) - (tail.rfind(b"\n") + 1)
            if 0 < half < LONGEST_HALF and self._bytes:
                self._bytes -= half
                os.ftruncate(self._handle, self._bytes)
        return self._handle


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, run, event, message, then what else is known."""

    def format(self, record: logging.LogRecord) -> str:
        about = _about(record)
        line = {
            "time": _instant(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "run": about.get("run"),
            "event": about.get("event", record.name.removeprefix(f"{ROOT}.")),
            "message": record.getMessage(),
            **about.get("fields", {}),
        }
        return without_secrets(json.dumps(line, default=str, ensure_ascii=False))


class Text(logging.Formatter):
    """For people: time, level, event and message; what is not printable is shown as its code."""

    def format(self, record: logging.LogRecord) -> str:
        about = _about(record)
        fields = about.get("fields", {})
        of = "".join(f" {key}={fields[key]}" for key in ("query", "class") if key in fields)
        event = about.get("event", record.name.removeprefix(f"{ROOT}."))
        at = f"{_instant(record).astimezone():%H:%M:%S}"
        text = f"{at} {record.levelname.lower()} {event}{of}: {record.getMessage()}"
        shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
        return without_secrets("".join(shown))


class StandardError(logging.StreamHandler[Any]):
    """Whatever standard error is at the moment: a live view may stand in for it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _value: Any) -> None:
        pass


def log_to_standard_error(form: Format, level: Level) -> None:
    """For commands: events of all runs, and warnings of other parts; replaces an earlier call."""
    logger = logging.getLogger(ROOT)
    for handler in list(logger.handlers):
        if isinstance(handler, StandardError):
            logger.removeHandler(handler)
    handler = StandardError()
    handler.setFormatter(JsonLines() if form == "json" else Text())
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False


def only_json() -> bool:
    """Whether standard error is to hold JSON lines and nothing else."""
    ours = [h for h in logging.getLogger(ROOT).handlers if isinstance(h, StandardError)]
    return any(isinstance(handler.formatter, JsonLines) for handler in ours)


def _shown(value: object) -> object:
    return without_secrets(value) if isinstance(value, str) else value


def _about(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(record, "daybreak", {})
    return found


def _instant(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)
