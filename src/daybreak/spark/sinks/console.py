"""Rows on standard output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from daybreak.spark.sinks.calls import CallingSink
from daybreak.spark.sinks.refusals import refuse_no_text
from daybreak.spark.sinks.text_formats import plain_rows


class ConsoleSink(CallingSink):
    """Prints rows as ``query: column=value ...``, at most ``most`` of one job."""

    def __init__(
        self, query: str, staging: Path, most: int = 20, show: Callable[[str], object] = print
    ) -> None:
        super().__init__(query, staging, self._print, refuse_no_text)
        self._most = most
        self._show = show

    def _print(self, table: pa.Table, _key: str) -> None:
        for row in plain_rows(table.slice(0, self._most)):
            cells = " ".join(f"{name}={_shown(value)}" for name, value in row.items())
            self._show(f"{self.query}: {cells}")
        if table.num_rows > self._most:
            self._show(f"{self.query}: ... and {table.num_rows - self._most} more rows")


def _shown(value: object) -> object:
    return "null" if value is None else value
