"""Daybreak: many continuous queries in one Spark application, scheduled by what matters.

Importing this package is cheap and needs neither Java nor PySpark. The Spark engine is
loaded when ``daybreak.App`` is first touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from daybreak.spark.app import App as App

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "App":
        raise AttributeError(f"module 'daybreak' has no attribute {name!r}")
    from daybreak.spark.app import App

    return App
