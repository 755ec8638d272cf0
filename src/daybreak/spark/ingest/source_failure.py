"""Why a source has stopped by itself, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daybreak.model.errors import ConfigError
from daybreak.spark.failures import LeaseLost, LogUnavailable, disk_is_full, one_line

#: ``fault``: the source's own, tried again a few times. ``mistake``: only its user can fix it.
#: ``lost``: another driver has the log. ``storage``: the log, the store or a disk takes nothing.
#: ``outage``: what it reads from does not answer.
Kind = Literal["fault", "mistake", "lost", "storage", "outage"]
#: What ends by itself, and is waited for.
PASSING: tuple[Kind, ...] = ("storage", "outage")


@dataclass(frozen=True, slots=True)
class SourceFailure:
    """A failure of a source, in one line."""

    why: str
    kind: Kind = "fault"

    @classmethod
    def of(cls, error: BaseException) -> SourceFailure:
        """Judges an exception that a source has raised in Python."""
        why = one_line(error)
        if isinstance(error, LogUnavailable) or disk_is_full(f"{why} {error}"):
            return cls(why, "storage")
        if isinstance(error, LeaseLost):
            return cls(str(error), "lost")
        return cls(str(error), "mistake") if isinstance(error, ConfigError) else cls(why)
