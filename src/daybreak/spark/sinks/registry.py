"""Finds destinations by name: ours, and those third parties add by the entry-point group."""

from __future__ import annotations

from importlib.metadata import entry_points

from daybreak.extras import load_class
from daybreak.model.errors import ConfigError
from daybreak.spark.sinks.destination import Destination
from daybreak.spark.sinks.postgres_sink import PostgresDestination

ENTRY_POINTS = "daybreak.sinks"
BUILTIN: dict[str, type[Destination]] = {"postgres": PostgresDestination}


def destination_names() -> tuple[str, ...]:
    """Formats that ``find_destination`` knows, without loading any of them."""
    return (*BUILTIN, *(entry.name for entry in entry_points(group=ENTRY_POINTS)))


def find_destination(name: str) -> type[Destination] | None:
    """The class of a format; None if there is none of this name.

    ``ConfigError`` if a package offers one that cannot be used.
    """
    offered = list(entry_points(group=ENTRY_POINTS, name=name))
    values = [entry.value for entry in offered]
    if len(offered) > (name not in BUILTIN):
        raise ConfigError(f"sink {name!r}", f"is defined again by {values[-1]}", "rename it")
    if not offered:
        return BUILTIN.get(name)
    [entry] = offered
    return load_class(entry, "sink", Destination, "see docs/sinks.md")
