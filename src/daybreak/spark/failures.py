"""Errors of a run, and what went wrong in one line."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

from py4j.protocol import Py4JError

from daybreak.engine.events import Failure
from daybreak.model.errors import ConfigError, DaybreakError
from daybreak.model.secrets import without_secrets

#: The disk, or the user's share of it.
FULL = (errno.ENOSPC, errno.EDQUOT)


class JobTimeout(DaybreakError):
    """A job was cancelled because it took longer than ``job_timeout``."""


class SinkUnavailable(DaybreakError):
    """What a sink writes to is out of reach for now: it is tried again for as long as it takes."""


class LogUnavailable(DaybreakError):
    """The commit log or the store takes nothing now (full, out of reach). Nothing has changed."""


class LeaseLost(ConfigError):
    """Another driver works on the same log: this one can commit and deliver nothing any more."""


def failure_of(error: Exception) -> Failure:
    """A failure as the engine is told of it."""
    # Where our own log would not take it, its sink is down, or a disk that the driver writes to is
    # full, it is no fault of the query's. A Spark job may have filled its scratch space itself.
    ours = isinstance(error, LogUnavailable | LeaseLost | SinkUnavailable)
    ours = ours or (isinstance(error, OSError) and error.errno in FULL)
    return Failure(one_line(error), ours, isinstance(error, JobTimeout))


#: How Python, the JVM and SQLite say that a disk, or the user's share of it, is full: the kernel's
#: own words (in the language of this process, too), or the number of the error.
_FULL = re.compile(
    "|".join(
        (
            "No space left on device", "Disk quota exceeded", "database or disk is full",
            *(re.escape(os.strerror(number)) for number in FULL),
            *(rf"\[Errno {number}\]" for number in FULL),
        )
    ),
    re.IGNORECASE,
)  # fmt: skip


def disk_is_full(text: str) -> bool:
    """Whether the text of a failure, with those of its causes, speaks of a full disk."""
    return _FULL.search(text) is not None


#: Longer messages are cut: a line of a log or a table cell has to hold them.
_MOST_CHARACTERS = 600
#: How Spark begins the messages that are meant for users.
_ERROR_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] ")
#: Such a message names a file; what is wrong with it is what its reader says, an inner cause.
_ONLY_WHERE = re.compile(r"\[FAILED_READ_FILE\.")
#: What follows is for tools, or repeats the query.
_APPENDIX = re.compile(r"\s*(?:SQLSTATE: \w{5}|\n== |\n\s*at [\w.$]+\(|\nDriver stacktrace)")
_LOST_TASK = re.compile(r"Lost task [^\n]*?\): ([^\n]*)")
_TRACEBACK = "Traceback (most recent call last):"


def one_line(failure: BaseException) -> str:
    """A failure in one line: the most specific message there is, with Spark's error class.

    A failed job comes as "An error occurred while calling ..."; its cause is in the JVM.
    """
    causes = _java_causes(getattr(failure, "java_exception", None))
    return _told(causes or [(type(failure).__name__, str(failure))])


def one_line_of_java(exception: Any) -> str:
    """As ``one_line``, of a Java exception that no Python exception stands for."""
    return _told(_java_causes(exception) or [("Exception", "no message")])


def _told(causes: list[tuple[str, str]]) -> str:
    with_class = [cause for cause in causes if _ERROR_CLASS.search(cause[1])]
    telling = [cause for cause in causes if cause[1].strip()]
    said = (with_class or telling or causes)[-1]
    where = next((cause for cause in reversed(causes) if _ONLY_WHERE.search(cause[1])), None)
    name, text = where or said
    told = _one_line(text)
    reader = telling[-1] if where is said else said
    if where is not None and reader[1] != text:
        told = _cut(f"{told.rstrip('. ')}: {_one_line(reader[1])}")
    return without_secrets(f"{name}: {told}")


def _java_causes(exception: Any) -> list[tuple[str, str]]:
    """Class and message of a Java exception and its causes, the innermost last."""
    found: list[tuple[str, str]] = []
    cause = exception
    try:
        while cause is not None and len(found) < 20:
            name = str(cause.getClass().getSimpleName())
            found.append((name, str(cause.getMessage() or "")))
            cause = cause.getCause()
    except (Py4JError, OSError):  # the JVM is gone; what it had reported is all there is
        return found
    return found


def _one_line(text: str) -> str:
    if _TRACEBACK in text:  # of Python code in a worker: its last line says what happened
        lines = _APPENDIX.split(text.rsplit(_TRACEBACK, maxsplit=1)[-1])[0].strip().splitlines()
        raised = [line for line in lines if line[:1].strip()]
        return _cut(raised[-1] if raised else text)
    lost = _LOST_TASK.search(text)
    if lost is not None:
        text = lost[1]
    marked = _ERROR_CLASS.search(text)
    if marked is not None:
        return _cut(_APPENDIX.split(text[marked.start() :])[0])
    return _cut((text.strip() or "no message").splitlines()[0])


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _MOST_CHARACTERS else f"{plain[: _MOST_CHARACTERS - 3]}..."


_POSITION = re.compile(r"line (\d+),? pos (\d+)")


def position_in(text: str) -> tuple[int, int] | None:
    """Line and column from 1, as editors count."""
    match = _POSITION.search(text)
    return (int(match[1]), int(match[2]) + 1) if match else None


def first_line(text: str) -> str:
    """Spark's message without its error class, SQLSTATE, position and plan."""
    first = text.strip().split("\n")[0]
    first = re.sub(r"^\[[A-Z0-9_.]+\] ", "", first)
    return re.split(r"\s*SQLSTATE:", first)[0].rstrip(" .;")
