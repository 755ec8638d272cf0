"""How many rows have passed the driver: what it collected or read, not what executors wrote."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping


class DriverRows:
    """Counts since the start. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._streams = Counter[str]()
        self._queries = Counter[str]()

    def of_stream(self, stream: str, rows: int) -> None:
        """Rows of a stream were in the driver's memory: at ingest, or where a job had to read them
        there."""
        with self._guard:
            self._streams[stream] += rows

    def of_queries(self, rows: Mapping[str, int]) -> None:
        """Rows of results were, by query."""
        with self._guard:
            self._queries.update(rows)

    @property
    def streams(self) -> dict[str, int]:
        with self._guard:
            return dict(self._streams)

    @property
    def queries(self) -> dict[str, int]:
        with self._guard:
            return dict(self._queries)
