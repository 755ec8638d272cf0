"""Where a composited job's time goes: from a row's creation to its files in their sinks.

Runs Daybreak on the filters of versus_spark.py in this process, with a clock around each step.

    python benchmarks/composited_job.py [--queries 250] [--seconds 15] [--rate 800] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql.classic.dataframe import DataFrame
from pyspark.sql.session import SparkSession

from daybreak.spark.ingest.stream_source import StreamSource
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.sinks.files import FileSink
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.composite import Cutter
from daybreak.spark.tasks.prepared.planner import Planner
from daybreak.spark.tasks.prepared.plans import PlanRunner

#: Where there is a clock, and what the step is called; steps nest as calls do.
STEPS: tuple[tuple[Any, str, str], ...] = (
    (StreamSource, "_batch", "ingest"),
    (SegmentStore, "append", "segment"),
    (CommitLog, "add_segment", "SQLite: segment"),
    (JobRunner, "run", "job"),
    (SegmentStore, "read", "read segments"),
    (SparkSession, "createDataFrame", "createDataFrame"),
    (DataFrame, "createOrReplaceTempView", "temporary view"),
    (Catalyst, "frame", "analyse"),
    (DataFrame, "toArrow", "plan, run, collect"),
    (Planner, "plan", "prepare a plan"),
    (PlanRunner, "run", "run a prepared plan"),
    (Cutter, "cut", "cut"),
    (FileSink, "stage", "stage"),
    (os, "fsync", "fsync"),
    (CommitLog, "commit", "SQLite: commit"),
    (FileSink, "deliver", "deliver"),
    (CommitLog, "mark_delivered", "SQLite: delivered"),
)


class Clock:
    """Time by step; a step inside another is a step of its own."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._guard = threading.Lock()
        self.spent_ns: dict[tuple[str, ...], list[int]] = defaultdict(list)
        #: From a row's creation to its ingest, and from there to the job that takes it.
        self.waits_ns: dict[str, list[int]] = defaultdict(list)
        #: Queries per job.
        self.queries: list[int] = []
        self.on = False

    def around(self, owner: Any, name: str, label: str) -> None:
        inner: Callable[..., Any] = getattr(owner, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            above: tuple[str, ...] = getattr(self._here, "path", ())
            path = self._here.path = (*above, label)
            began = time.perf_counter_ns()
            try:
                self._note(label, args)
                return inner(*args, **kwargs)
            finally:
                self._here.path = above
                if self.on:
                    with self._guard:
                        self.spent_ns[path].append(time.perf_counter_ns() - began)

        setattr(owner, name, timed)

    def _note(self, label: str, args: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if label == "job":
            waited = time.time_ns() - min(w.arrival_ns for w in args[2])
            self.waits_ns["durable segment to job"].append(waited)
            self.queries.append(len(args[1]))
        elif label == "segment" and args[5].num_rows:
            newest_us = args[5]["created_us"].to_numpy().max()
            self.waits_ns["creation to collected batch"].append(
                time.time_ns() - int(newest_us) * 1000
            )


def profile(queries: int, rate_per_s: float, seconds: float) -> Clock:
    """A run of so many seconds after as long a warm-up."""
    from benchmarks.versus.feeder import Feeder
    from benchmarks.versus.sides.ours import running
    from benchmarks.versus.workload import Task

    clock = Clock()
    for owner, name, label in STEPS:
        clock.around(owner, name, label)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="job-", dir="."))
        task = Task("daybreak", queries, rate_per_s, str(Path(folder).resolve()))
        feeder = Feeder(task.input, rate_per_s, task.filters)
        stack.enter_context(running()(task))
        feeder.run(seconds, lambda: None)
        clock.on = True
        feeder.run(seconds, lambda: None)
        clock.on = False
    return clock


def rows(clock: Clock) -> list[dict[str, object]]:
    """Every step with its calls and time per ingested batch or per job."""
    found: list[dict[str, object]] = []
    for path, times in sorted(clock.spent_ns.items(), key=lambda item: item[0]):
        top = clock.spent_ns.get(path[:1], times)
        found.append(
            {
                "step": " > ".join(path),
                "calls": len(times) / len(top),
                "mean_ms": sum(times) / len(top) / 1e6,
                "p95_ms": float(np.percentile(times, 95)) / 1e6,
                "share": sum(times) / sum(top),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queries", type=int, default=250, help="filter queries, default 250")
    parser.add_argument("--seconds", type=float, default=15.0, help="measured, and warm-up")
    parser.add_argument("--rate", type=float, default=800.0, help="rows per second, default 800")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    clock = profile(args.queries, args.rate, args.seconds)
    waits = {name: np.percentile(w, [50, 95]) / 1e6 for name, w in clock.waits_ns.items()}
    if args.json:
        found = {"steps": rows(clock), "queries_per_job": float(np.mean(clock.queries))}
        shown = {name: {"p50_ms": w[0], "p95_ms": w[1]} for name, w in waits.items()}
        print(json.dumps({**found, "waits": shown}, indent=2))
        return
    print(f"{len(clock.queries)} jobs, {np.mean(clock.queries):.1f} queries each on average")
    for name, (p50, p95) in waits.items():
        print(f"{name:34}{p50:9.1f} ms p50{p95:9.1f} ms p95")
    print(f"\n{'step':34}{'calls':>8}{'mean ms':>10}{'p95 of a call':>14}{'share':>8}")
    for row in rows(clock):
        *above, label = str(row["step"]).split(" > ")
        print(
            f"{'  ' * len(above) + label:34}{row['calls']:8.1f}{row['mean_ms']:10.2f}"
            f"{row['p95_ms']:14.2f}{row['share']:8.0%}"
        )


if __name__ == "__main__":
    main()
