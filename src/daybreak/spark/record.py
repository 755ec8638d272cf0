"""What a Spark run leaves for replays: every arrival and every job, beside the run report."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.jobs import Ran

ARRIVALS_FILE = "arrivals.parquet"
JOBS_FILE = "jobs.parquet"


@dataclass
class Recorder:
    """Columns that grow during the run and become two Parquet files at its end."""

    _arrivals: dict[str, list[Any]] = field(
        default_factory=lambda: {"stream": [], "at_ns": [], "tuples": []}
    )
    _jobs: dict[str, list[Any]] = field(
        default_factory=lambda: {
            "query": [], "committed_ns": [], "tuples": [], "rows": [], "work_ns": [],
            "commit_ns": [],
        }
    )  # fmt: skip

    def arrived(self, stream: str, at_ns: int, tuples: int) -> None:
        for column, value in zip(self._arrivals.values(), (stream, at_ns, tuples), strict=True):
            column.append(value)

    def ran(self, ran: Ran, tuples: int, committed_ns: int) -> None:
        values = (ran.query, committed_ns, tuples, ran.rows, ran.work_ns, ran.commit_ns)
        for column, value in zip(self._jobs.values(), values, strict=True):
            column.append(value)

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        arrivals = pa.schema(
            [("stream", pa.string()), ("at_ns", pa.int64()), ("tuples", pa.int64())]
        )
        numbers = ("committed_ns", "tuples", "rows", "work_ns", "commit_ns")
        jobs = pa.schema([("query", pa.string()), *((n, pa.int64()) for n in numbers)])
        pq.write_table(pa.table(self._arrivals, schema=arrivals), folder / ARRIVALS_FILE)
        pq.write_table(pa.table(self._jobs, schema=jobs), folder / JOBS_FILE)
