"""How a query stands: at work, paused, waiting to be tried again, parked or dropped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from py4j.protocol import Py4JError

from daybreak.model.limits import Limits
from daybreak.model.secrets import without_secrets

State = Literal["running", "paused", "retrying", "parked", "dropped"]


@dataclass(slots=True)
class Standing:
    """One query's standing. Written by the loop's thread alone."""

    state: State = "running"
    #: What it said when it last failed, while that still matters.
    error: str | None = None
    #: Failures since its last success.
    failures: int = 0
    retry_ns: int = 0
    #: Tuples it took when it last failed: a bad record is among them.
    failed_on: int = 0
    #: Tuples it may take at once: halved by every failure, so that a bad record is found.
    limit: int | None = None
    #: Tuples of the range it last failed on that it has not answered yet.
    doubtful: int = 0
    #: A committed result has not reached its sink; nothing runs before it has.
    behind: bool = False

    @property
    def held(self) -> bool:
        """Whether policies must not see it."""
        return self.state != "running"

    def failed(
        self, error: str, taken: int, limits: Limits, now_ns: int, *, ours: bool = False
    ) -> None:
        """Notes a failure; ``ours``: the run's own disk refused, so it is tried for ever."""
        self.error, self.failed_on = error, taken
        self.doubtful = max(self.doubtful, taken)
        self.failures += 1
        if self.state in ("paused", "dropped"):
            return
        if self.failures > limits.retries and not ours:
            self.state = "parked"
            return
        self.state = "retrying"
        self.retry_ns = now_ns + limits.wait_ns(self.failures)
        if taken and not ours:
            self.limit = max(1, taken // 2)

    def succeeded(self, tuples: int = 0) -> None:
        """Notes that it has answered so many tuples."""
        self.doubtful = max(0, self.doubtful - tuples)
        self.failures, self.error, self.failed_on = 0, None, 0
        if self.limit is not None:  # grows back slowly: the rest of a bad range is near
            self.limit = None if self.limit >= 2**20 else self.limit * 2

    def resume(self, now_ns: int) -> None:
        """Whatever held it, it may run again, once its sink has what it is owed."""
        self.state, self.failures, self.error = "running", 0, None
        if self.behind:
            self.state, self.retry_ns = "retrying", now_ns


#: Longer messages are cut: a line of a log or a table cell has to hold them.
_MOST_CHARACTERS = 600
#: How Spark begins the messages that are meant for users.
_ERROR_CLASS = re.compile(r"\[[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*\] ")
#: What follows is for tools, or repeats the query.
_APPENDIX = re.compile(r"\s*(?:SQLSTATE: \w{5}|\n== |\n\s*at [\w.$]+\(|\nDriver stacktrace)")
_LOST_TASK = re.compile(r"Lost task [^\n]*?\): ([^\n]*)")
_TRACEBACK = "Traceback (most recent call last):"


def said(failure: BaseException) -> str:
    """A failure in one line: the most specific message there is, with Spark's error class.

    A failed job comes as "An error occurred while calling ..."; its cause is in the JVM.
    """
    causes = _java_causes(failure) or [(type(failure).__name__, str(failure))]
    with_class = [cause for cause in causes if _ERROR_CLASS.search(cause[1])]
    telling = [cause for cause in causes if cause[1].strip()]
    name, text = (with_class or telling or causes)[-1]
    return without_secrets(f"{name}: {_one_line(text)}")


def _java_causes(failure: BaseException) -> list[tuple[str, str]]:
    """Class and message of a Java exception and its causes, the innermost last."""
    found: list[tuple[str, str]] = []
    cause: Any = getattr(failure, "java_exception", None)
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
