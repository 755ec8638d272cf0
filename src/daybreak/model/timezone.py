"""Time zones by name."""

from __future__ import annotations

import re
from zoneinfo import available_timezones

from daybreak.model.errors import ConfigError, suggestion

_OFFSET = re.compile(r"[+-]\d\d:\d\d")


def check_timezone(name: str, place: str) -> str:
    """Refuses what is neither a name of the time zone database nor an offset such as +09:00.

    Where this machine has no such database, every name passes here and Spark decides.
    """
    known = available_timezones()
    if known and name not in known and not _OFFSET.fullmatch(name):
        nearest = suggestion(name, known).partition("choose from")[0].strip()
        remedy = f'{nearest} give a name such as "Europe/Berlin" or "UTC"'.strip()
        raise ConfigError(place, f"timezone {name!r} is not known", remedy)
    return name
