"""Daybreak: many continuous queries in one Spark application, scheduled by what matters.

``App`` declares and runs an application, ``govern`` schedules the queries of an existing Spark
program, ``read_snapshot`` reads what a query in complete mode has written. Every error that
Daybreak raises on purpose is a ``DaybreakError``.

Importing this package is cheap and needs neither Java nor PySpark. The Spark engine is
loaded when ``App``, ``govern`` or ``read_snapshot`` is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daybreak.model.errors import (
    ConfigError,
    ConfigErrors,
    DaybreakError,
    EngineBug,
    QueryFailed,
)
from daybreak.version import __version__

if TYPE_CHECKING:
    from daybreak.spark.app import App
    from daybreak.spark.governed.governor import govern
    from daybreak.spark.sinks.snapshots import read_snapshot

__all__ = [
    "App",
    "ConfigError",
    "ConfigErrors",
    "DaybreakError",
    "EngineBug",
    "QueryFailed",
    "__version__",
    "govern",
    "read_snapshot",
]

#: What needs PySpark, and where it is.
_ON_SPARK = {
    "App": "daybreak.spark.app",
    "govern": "daybreak.spark.governed.governor",
    "read_snapshot": "daybreak.spark.sinks.snapshots",
}


def __getattr__(name: str) -> Any:
    if name not in _ON_SPARK:
        raise AttributeError(f"module 'daybreak' has no attribute {name!r}")
    from daybreak.extras import need_pyspark

    need_pyspark(f"daybreak.{name}")
    return getattr(import_module(_ON_SPARK[name]), name)
