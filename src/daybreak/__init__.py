"""Daybreak: many continuous queries in one Spark application, scheduled by what matters.

Importing this package is cheap and needs neither Java nor PySpark. The Spark engine is
loaded when ``daybreak.App`` or ``daybreak.govern`` is first touched.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from daybreak.version import __version__ as __version__

if TYPE_CHECKING:
    from daybreak.spark.app import App as App
    from daybreak.spark.governed.governor import govern as govern
    from daybreak.spark.sinks.snapshots import read_snapshot as read_snapshot


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
