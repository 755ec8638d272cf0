"""Many queries at a steady rate for long: what may not grow is sampled, and judged by one rule.

The rule, fixed before there were data: over the last two thirds of the run a straight line is laid
through the samples of each measure (least squares). It is flat if that line rises by at most
``MOST_RISE`` of the mean per ten minutes, or by no more than ``SLACK``, which is what the measure
may differ by without meaning anything (a buffer, a pool's spare thread).
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.app import App
    from daybreak.spark.run import Run

MOST_RISE = 0.10
PER_S = 600.0
#: The measures that are judged, and what each may rise by in any case.
SLACK = {
    "JVM heap MB": 5.0,
    "Python objects": 5000.0,
    "JVM handles": 4.0,
    "Python handles": 4.0,
    "JVM threads": 4.0,
    "Python threads": 2.0,
    "log MB": 1.0,
    "segments": 20.0,
}
Say = Callable[[str], None]


def steady_app(spark: SparkSession, folder: Path, queries: int, rate_per_s: float) -> App:
    """Filters of three classes over one stream, each with Parquet files of its own."""
    from daybreak.model import Arrivals
    from daybreak.spark.app import App

    app = App(spark, name="soak", folder=folder)
    for cls, priority in (("high", 60), ("normal", 30), ("low", 10)):
        app.query_class(cls, priority)
    app.stream("readings", format="generator", arrivals=Arrivals(rate_per_s=rate_per_s))
    for i in range(queries):
        app.query(
            f"q{i}",
            sql=f"SELECT reading, station, temperature FROM readings WHERE station = {i % 240}",
            cls=("high", "normal", "low")[i % 3],
            sink={"format": "parquet", "path": f"out/q{i}"},
        )
    return app


def measure(run: Run) -> dict[str, float]:
    """What may not grow, at this moment, after a collection of both heaps."""
    jvm: Any = run.parts.accepted.catalog.application.spark.sparkContext._jvm
    gc.collect()
    runtime = getattr(jvm, "java.lang.Runtime").getRuntime()
    getattr(jvm, "java.lang.System").gc()
    pid = int(getattr(jvm, "java.lang.ProcessHandle").current().pid())
    root = run.folder
    log = [root / "state.db", root / "state.db-wal", root / "segments", root / "checkpoints"]
    return {
        "at_s": round(run.elapsed_s, 1),
        "JVM heap MB": (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
        "Python objects": float(len(gc.get_objects())),
        "JVM handles": float(len(list(Path(f"/proc/{pid}/fd").iterdir()))),
        "Python handles": float(len(list(Path("/proc/self/fd").iterdir()))),
        "JVM threads": float(status(pid, "Threads")),
        "Python threads": float(threading.active_count()),
        "log MB": sum(size_bytes(path) for path in log) / 2**20,
        "segments": float(
            sum(
                len(run.parts.storage.store.segments(s))
                for s in run.parts.accepted.catalog.application.streams
            )
        ),
        "waiting": float(sum(run.parts.keeping.figures.view.waiting)),
        "answered": float(sum(run.parts.keeping.figures.view.tuples_in)),
        "Python MB": status(os.getpid(), "VmRSS") / 2**10,
        "JVM MB": status(pid, "VmRSS") / 2**10,
    }


def status(pid: int, key: str) -> int:
    """A number of /proc/PID/status."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def size_bytes(path: Path) -> int:
    """Of a file, or of all files below a folder."""
    total = 0
    for part in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):  # removed meanwhile
            total += part.stat().st_size if part.is_file() else 0
    return total


@dataclass(frozen=True)
class Flatness:
    """Of one measure over the last two thirds of the run."""

    mean: float
    #: How much the line through the samples rises in ten minutes.
    rise: float
    flat: bool


def verdicts(samples: Sequence[Mapping[str, float]]) -> dict[str, Flatness]:
    """The rule, applied to every measure that is judged."""
    judged = samples[len(samples) // 3 :]
    at_s = np.array([s["at_s"] for s in judged])
    found = {}
    for what, slack in SLACK.items():
        values = np.array([s[what] for s in judged])
        rise = float(np.polyfit(at_s - at_s[0], values, 1)[0]) * PER_S
        mean = float(values.mean())
        found[what] = Flatness(mean, rise, rise <= max(MOST_RISE * mean, slack))
    return found


def steady(
    minutes: float, queries: int, rate_per_s: float, folder: Path, say: Say = lambda _line: None
) -> dict[str, Any]:
    """So many queries for so long."""
    from daybreak.spark.session import local_session

    spark = local_session("soak", cores=2)
    samples: list[dict[str, float]] = []
    app = steady_app(spark, folder, queries, rate_per_s)
    with app.run("stride", run_dir=folder / "run") as run:
        every_s = max(1.0, min(10.0, minutes * 60 / 40))
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            run.wait(every_s)
            samples.append(measure(run))
            say("  ".join(f"{what} {value:.6g}" for what, value in samples[-1].items()))
    report = run.report()
    spark.stop()
    found = verdicts(samples)
    wrong = [
        f"{what} rises by {f.rise:.4g} per ten minutes, from a mean of {f.mean:.4g}"
        for what, f in found.items()
        if not f.flat
    ]
    wrong += [f"query {name} was parked: {why}" for name, why in run.failures.items()]
    return {
        "minutes": minutes,
        "queries": queries,
        "rate_per_s": rate_per_s,
        "answered": report.overall().count,
        "p95_s": report.overall().percentiles_s[95],
        "measures": {what: asdict(f) for what, f in found.items()},
        "samples": samples,
        "wrong": wrong,
    }
