"""What a source of objects is to the keeper."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from daybreak.model.errors import DaybreakError
from daybreak.model.redaction import redacted

#: Reasons are stored and shown with each object; a server decides what stands in them.
_MOST_REASON = 300


@dataclass(frozen=True, slots=True)
class Listed:
    """An object a source has, and the host that must not be asked too often for it."""

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a visit found; ``content`` is None if it is the same as at the last visit."""

    version: str
    content: bytes | None


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in text)


class SourceError(DaybreakError):
    """A visit that learnt nothing about the object: the keeper retries it later."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        self.reason = reason = printable(redacted(reason))[:_MOST_REASON]
        #: The host's own wish, which holds for all its objects.
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class MirrorSource(Protocol):
    """A place that objects are copied from.

    ``fetch`` is called by several threads, but only by one at a time for the objects of a host.
    """

    def objects(self) -> Iterable[Listed]:
        """All objects there are now; called at the start and before every new plan."""
        ...

    def fetch(self, name: str, version: str | None) -> Fetched:
        """Visits one object; ``version`` is what the last visit returned, None at the first.

        Raises SourceError if nothing could be learnt. Any other error counts as one, too.
        """
        ...

    def close(self) -> None:
        """Lets go of connections; called once, last."""
        ...
