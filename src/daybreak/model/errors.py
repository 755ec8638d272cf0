"""The errors Daybreak raises on purpose.

``ConfigError`` is the user's to fix: it says where, what was found and what to do, and the
command line prints it without a stack trace; ``ConfigErrors`` are several. ``NewerFormat`` is one
about files of a later Daybreak. ``QueryFailed`` ends a run with parked queries or
stopped streams. ``EngineBug`` is
ours: an invariant broke.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

from daybreak.model.secrets import without_secrets

T = TypeVar("T")
D = TypeVar("D")


class DaybreakError(Exception):
    """Base of everything Daybreak raises on purpose."""


class ConfigError(DaybreakError):
    """Something the user declared cannot be used as it stands."""

    def __init__(self, place: str, finding: str, remedy: str) -> None:
        # Findings quote drivers and declarations, which hold credentials.
        self.place = without_secrets(place)
        self.finding = without_secrets(finding)
        self.remedy = without_secrets(remedy)
        super().__init__(f"{self.place}: {self.finding}; {self.remedy}")


class NewerFormat(ConfigError):
    """Files of a later Daybreak. They are left as they are; a second attempt reads no more."""

    def __init__(
        self,
        place: str,
        what: str,
        found: int,
        known: int,
        *,
        written_by: object = None,
        otherwise: str = "",
    ) -> None:
        """``what`` has this number; ``written_by``: a version of Daybreak, where it is known."""
        by = f", written by Daybreak {written_by}," if isinstance(written_by, str) else ""
        which = "that version" if by else "the Daybreak that wrote it"
        super().__init__(
            place,
            f"{what} {found}{by} is newer than this Daybreak's {known}",
            f"install {which} or a later one" + (f", or {otherwise}" if otherwise else ""),
        )


class ConfigErrors(ConfigError):
    """All that is wrong with a declaration, in its order; the first one's place and finding."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        first = errors[0]
        super().__init__(first.place, first.finding, first.remedy)
        self.errors = tuple(errors)
        self.args = ("\n".join(str(error) for error in errors),)


class Findings:
    """Gathers what is wrong, so that a user sees all of it at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    def __bool__(self) -> bool:
        return bool(self._errors)

    def add(self, error: ConfigError) -> None:
        found = error.errors if isinstance(error, ConfigErrors) else (error,)
        known = {str(e) for e in self._errors}
        self._errors += [e for e in found if str(e) not in known]

    @contextmanager
    def gathering(self) -> Iterator[None]:
        """A ``ConfigError`` within ends the block and is kept."""
        try:
            yield
        except ConfigError as error:
            self.add(error)

    def tried(self, make: Callable[[], T], default: D) -> T | D:
        """What ``make`` gives; ``default`` if it raises a ``ConfigError``, which is kept."""
        try:
            return make()
        except ConfigError as error:
            self.add(error)
            return default

    def raise_any(self) -> None:
        """Raises the one error that was found, or all of them."""
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ConfigErrors(self._errors)


class QueryFailed(DaybreakError):
    """Queries were parked or streams had stopped when a run ended; what they lack is not lost."""

    def __init__(
        self, failures: Mapping[str, str], stopped_streams: Mapping[str, str] | None = None
    ) -> None:
        self.failures = dict(failures)
        self.stopped_streams = dict(stopped_streams or {})
        some = [f"query {name!r} is parked: {why}" for name, why in failures.items()]
        some += [f"stream {name!r} stopped: {why}" for name, why in self.stopped_streams.items()]
        remedy = 'correct it and start again, or run with on_failure="report"'
        super().__init__("\n".join([*some, remedy]))


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
