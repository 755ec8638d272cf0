"""Optional packages: what a message says where one is missing."""

from __future__ import annotations

from importlib.util import find_spec

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
