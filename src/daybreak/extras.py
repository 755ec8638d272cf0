"""Optional packages and those of third parties: what a message says if one cannot be used."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Any

from daybreak.model.errors import ConfigError


class MissingPackage(ConfigError, ImportError):
    """An optional package is not installed; an ImportError too, as importers expect one."""


def need_pyspark(place: str) -> None:
    """Raises ``MissingPackage``, with the command that installs it, unless PySpark is there."""
    if find_spec("pyspark") is None:
        raise MissingPackage(place, "PySpark is not installed", "pip install 'daybreak[spark]'")


def need_package(module: str, extra: str, place: str) -> None:
    """Raises ``MissingPackage``, with the command that installs it, unless a module is there."""
    if find_spec(module) is None:
        raise MissingPackage(
            place, f"{module} is not installed", f"pip install 'daybreak[{extra}]'"
        )


def load_class(entry: EntryPoint, kind: str, base: type[object], see: str) -> type[Any]:
    """The class that a third party's entry point names; ``ConfigError`` if it cannot be used."""
    place = f"{kind} {entry.name!r}"
    try:
        found = entry.load()
    except Exception as error:
        raise ConfigError(
            place, f"its package cannot be loaded ({error})", f"repair or uninstall {entry.value}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(place, f"{entry.value} is not a subclass of {base.__name__}", see)
    return found
