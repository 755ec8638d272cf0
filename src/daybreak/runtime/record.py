"""What a run on Spark leaves for replays: every arrival and every job, beside its report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ARRIVALS_FILE = "arrivals.parquet"
JOBS_FILE = "jobs.parquet"
JOURNAL_FILE = "journal.parquet"


def _columns(*names: str) -> dict[str, list[Any]]:
    return {name: [] for name in names}


@dataclass
class Recorder:
    """Columns that grow until they are taken, and become parts of two Parquet series."""

    _arrivals: dict[str, list[Any]] = field(
        default_factory=lambda: _columns("stream", "at_ns", "tuples")
    )
    _jobs: dict[str, list[Any]] = field(
        default_factory=lambda: _columns(
            "query", "committed_ns", "tuples", "rows", "cost_ns", "together"
        )
    )

    def arrived(self, stream: str, at_ns: int, tuples: int) -> None:
        """``at_ns`` since the start of the run, as everywhere in a report."""
        for column, value in zip(self._arrivals.values(), (stream, at_ns, tuples), strict=True):
            column.append(value)

    def ran(
        self, query: str, committed_ns: int, tuples: int, rows: int, cost_ns: int, together: int
    ) -> None:
        """A query's share of a job that ran so many queries together."""
        values = (query, committed_ns, tuples, rows, cost_ns, together)
        for column, value in zip(self._jobs.values(), values, strict=True):
            column.append(value)

    def take(self) -> dict[str, Any]:
        """What was recorded since the last call, as Arrow tables by series."""
        import pyarrow as pa

        tables = {}
        for columns, file in ((self._arrivals, ARRIVALS_FILE), (self._jobs, JOBS_FILE)):
            kinds = [(n, pa.string() if n in ("stream", "query") else pa.int64()) for n in columns]
            tables[file] = pa.table(columns, schema=pa.schema(kinds))
            for column in columns.values():
                column.clear()
        return tables
