"""Daybreak: many continuous queries in one Spark application, scheduled by what matters.

Importing this package is cheap and needs neither Java nor PySpark. The Spark engine is
loaded when ``daybreak.App`` is first touched.
"""

from __future__ import annotations

__version__ = "0.1.0"
