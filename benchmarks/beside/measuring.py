"""Runs the filters alone, the backfill alone, and both: latencies, durations, and what was lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from benchmarks.beside.workload import (
    HISTORY,
    KEPT,
    Beside,
    critical,
    release,
    wanted_of_history,
    write_history,
)
from benchmarks.versus.feeder import EVERY_S, Feeder
from benchmarks.versus.measure import Child, latencies, wait_for_all
from benchmarks.versus.visible import Delivered, visible_files

RATE_PER_S = 800.0
MODULE = "benchmarks.beside.child"
#: How often a backfill is looked at: its end is read from the files' own change times.
LOOK_S = 1.0


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int
    #: Files of the history, in each of its forms.
    forms: tuple[int, ...]
    warmup_s: float
    #: The filters are fed for so long at least.
    seconds: float
    rounds: int
    #: At most so long for a backfill.
    limit_s: float
    #: At most so long until all rows that were fed are visible.
    drain_s: float = 30.0


FULL = Sizes(1_500_000, (1, 1000), warmup_s=20, seconds=30, rounds=2, limit_s=900)
QUICK = Sizes(200_000, (1, 130), warmup_s=10, seconds=12, rounds=1, limit_s=240)


class Backfill:
    """What of the history has arrived in the sinks."""

    def __init__(self, task: Beside, rows: int) -> None:
        self._folders = {kept: task.output / f"{HISTORY}-{kept}" for kept in KEPT}
        self._of_history = rows
        self._seen: set[Path] = set()
        self._rows = 0
        self.last_us = 0

    def look(self) -> bool:
        """True once as many rows are there as the queries give of the history."""
        for folder in self._folders.values():
            for path, at_us in visible_files(folder).items():
                if path not in self._seen:
                    self._seen.add(path)
                    self._rows += pq.read_metadata(path).num_rows
                    self.last_us = max(self.last_us, at_us)
        return self._rows >= sum(wanted_of_history(self._of_history, kept) for kept in KEPT)

    def wrong(self) -> int:
        """Rows that are missing, there twice, or not of their query."""
        found = 0
        for kept, folder in self._folders.items():
            files = [pq.ParquetFile(path).read(["id"]) for path in visible_files(folder)]
            ids = np.concatenate([np.zeros(0, np.int64), *(f["id"].to_numpy() for f in files)])
            wanted = np.arange(kept, self._of_history, 10)
            right = np.intersect1d(ids, wanted)
            found += len(wanted) - len(right) + len(ids) - len(right)
        return found


@contextmanager
def child_of(task: Beside) -> Iterator[Child]:
    """A fresh process that runs the application, ready to read."""
    work = Path(task.work)
    shutil.rmtree(work, ignore_errors=True)
    task.input.mkdir(parents=True)
    task.history.mkdir()
    child = Child(work, task.as_json(), MODULE)
    try:
        child.wait_ready()
        yield child
    finally:
        child.kill()
        shutil.rmtree(work, ignore_errors=True)


def filters_alone(task: Beside, sizes: Sizes) -> dict[str, Any]:
    with child_of(task) as child:
        feeder, delivered = _warm(task, child, sizes)
        from_us = _now_us()
        feeder.run(sizes.seconds, child.check)
        return _critical(child, feeder, delivered, from_us, _now_us(), sizes)


def backfill(task: Beside, sizes: Sizes, files: int, *, beside: bool) -> dict[str, Any]:
    """The backfill's duration; ``beside``: while the filters are fed, and their latencies."""
    prepared = Path(f"{task.work}-history")
    shutil.rmtree(prepared, ignore_errors=True)
    write_history(prepared, sizes.rows, files)
    with child_of(task) as child:
        feeder, delivered = _warm(task, child, sizes)
        history = Backfill(task, sizes.rows)
        from_us = _now_us()
        release(prepared, task.history)
        watch = _Watch(history, from_us, sizes, beside=beside)
        if beside:
            feeder.run_while(watch.goes_on, child.check)
        while watch.goes_on(0):
            child.check()
            time.sleep(EVERY_S)
        done_us = watch.done_us
        if not done_us:
            raise RuntimeError(f"the backfill took longer than {sizes.limit_s:g} s")
        found: dict[str, Any] = {"duration_s": (done_us - from_us) / 1e6, "wrong": history.wrong()}
        if beside:
            # Rows that were made after the backfill's end are not beside it.
            at_least_us = from_us + 10**6
            critical_found = _critical(
                child, feeder, delivered, from_us, max(done_us, at_least_us), sizes
            )
            found |= {**critical_found, "wrong": found["wrong"] + critical_found["wrong"]}
        return found


@dataclass
class _Watch:
    """Looks now and then at how far a backfill is."""

    history: Backfill
    from_us: int
    sizes: Sizes
    beside: bool
    #: When its last row became visible; 0 before.
    done_us: int = 0
    looked_us: int = 0

    def goes_on(self, _files: int) -> bool:
        """False once it is done, and the filters were fed for long enough; or after the limit."""
        now_us = _now_us()
        if not self.done_us and now_us - self.looked_us >= LOOK_S * 1e6:
            self.looked_us = now_us
            self.done_us = self.history.last_us if self.history.look() else 0
        spent_s = (now_us - self.from_us) / 1e6
        if self.done_us:
            return self.beside and spent_s < self.sizes.seconds
        return spent_s < self.sizes.limit_s


def _warm(task: Beside, child: Child, sizes: Sizes) -> tuple[Feeder, Delivered]:
    """Code is loaded and compiled before anything counts."""
    feeder = Feeder(task.input, RATE_PER_S, critical())
    delivered = Delivered(task.output, feeder.queries)
    feeder.run(sizes.warmup_s, child.check)
    wait_for_all(child, feeder, delivered, sizes.drain_s)
    return feeder, delivered


def _critical(
    child: Child, feeder: Feeder, delivered: Delivered, from_us: int, to_us: int, sizes: Sizes
) -> dict[str, Any]:
    wait_for_all(child, feeder, delivered, sizes.drain_s)
    latency_s, wrong = latencies(feeder, delivered, from_us, to_us)
    p50, p95 = (float(p) for p in np.percentile(latency_s, [50, 95]))
    return {"p50_s": p50, "p95_s": p95, "rows": len(latency_s), "wrong": wrong}


def _now_us() -> int:
    return time.time_ns() // 1000
