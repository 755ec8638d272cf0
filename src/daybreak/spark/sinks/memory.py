"""Rows in memory, for tests and notebooks."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa

from daybreak.spark.sinks.calls import CallingSink


class MemorySink(CallingSink):
    """Keeps all rows of this process's life, for tests and notebooks."""

    def __init__(self, query: str, staging: Path) -> None:
        super().__init__(query, staging, self._keep)
        self._guard = threading.Lock()
        self._tables: list[pa.Table] = []

    def _keep(self, table: pa.Table, _key: str) -> None:
        with self._guard:
            self._tables.append(table)

    def table(self) -> pa.Table | None:
        """Everything delivered so far, in order; None before the first row."""
        with self._guard:
            return pa.concat_tables(self._tables) if self._tables else None
