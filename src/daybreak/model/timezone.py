"""Time zones by name."""

from __future__ import annotations

from zoneinfo import available_timezones

from daybreak.model.errors import ConfigError, suggestion


def check_timezone(name: str, place: str) -> str:
    """Refuses a name that the time zone database does not have.

    Where this machine has no such database, every name passes here and Spark decides.
    """
    known = available_timezones()
    if known and name not in known:
        nearest = suggestion(name, known).partition("choose from")[0].strip()
        remedy = f'{nearest} give a name such as "Europe/Berlin" or "UTC"'.strip()
        raise ConfigError(place, f"timezone {name!r} is not known", remedy)
    return name
