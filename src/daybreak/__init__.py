"""Daybreak: many continuous queries in one Spark application, scheduled by what matters.

Importing this package is cheap and needs neither Java nor PySpark. The Spark engine is
loaded when ``daybreak.App`` is first touched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daybreak.version import __version__ as __version__

if TYPE_CHECKING:
    from daybreak.spark.app import App as App


def __getattr__(name: str) -> Any:
    if name != "App":
        raise AttributeError(f"module 'daybreak' has no attribute {name!r}")
    from daybreak.extras import need_pyspark

    need_pyspark("daybreak.App")
    return import_module("daybreak.spark.app").App
