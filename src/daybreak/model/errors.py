"""The two kinds of error Daybreak raises on purpose.

``ConfigError`` is the user's to fix: it says where, what was found and what to do, and the
command line prints it without a stack trace. ``EngineBug`` is ours: an invariant broke.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DaybreakError(Exception):
    """Base of everything Daybreak raises on purpose."""


class ConfigError(DaybreakError):
    """Something the user declared cannot be used as it stands."""

    def __init__(self, place: str, finding: str, remedy: str) -> None:
        self.place = place
        self.finding = finding
        self.remedy = remedy
        super().__init__(f"{place}: {finding}; {remedy}")


class EngineBug(DaybreakError):
    """An invariant of Daybreak itself broke; please report it with the message."""


def suggestion(found: str, valid: Iterable[str]) -> str:
    """A remedy for a misspelt name: the nearest valid one, then the whole choice."""
    names = sorted(valid)
    if not names:
        return "none is declared"
    close = get_close_matches(found, names, n=1)
    nearest = f"did you mean {close[0]!r}? " if close else ""
    shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
    return f"{nearest}choose from {shown}"
