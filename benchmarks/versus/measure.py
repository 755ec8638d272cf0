"""One measurement: a fresh child process and JVM, warm-up, a fixed time, drain, then the count."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.versus.feeder import Feeder, leave_old_files
from benchmarks.versus.visible import Delivered
from benchmarks.versus.workload import CLASSES, QOS, Filter, Task
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
#: How much later per second rows may become visible before a side counts as falling behind.
FALLING_BEHIND = 0.05
START_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Timing:
    """How long a measurement feeds and waits."""

    #: At most so long for the first second's rows: code is loaded and compiled then, and the
    #: backlog of that time must not be carried into the measured time.
    prime_s: float
    warmup_s: float
    seconds: float
    #: At most so long for what is still under way when feeding has ended.
    drain_s: float
    #: So long nothing is fed in the end, for the CPU time that takes; 0: not measured.
    idle_s: float = 0.0


@dataclass
class ClassResult:
    """Latency from row creation to visibility, of rows created in the measured time.

    Rows that had not arrived at the end count with the time they had waited by then, so with
    ``missing`` above 0 the percentiles are lower bounds.
    """

    p50_s: float
    p95_s: float
    p99_s: float
    #: Rows that had not arrived count as 0.
    mean_utility: float
    staleness_s: float
    rows: int
    missing: int
    #: Growth of latency, seconds per second.
    growth: float
    sustained: bool


@dataclass
class Result:
    """What one side did with one workload."""

    side: str
    queries: int
    rate_per_s: float
    classes: dict[str, ClassResult]
    #: In every class.
    sustained: bool
    #: Share of all that was created in the measured time that was visible at its end.
    delivered_share: float
    duplicates: int
    #: Of all rows that were fed, since the start: those that never arrived, and rows in a sink that
    #: its query does not give.
    lost: int
    unexpected: int
    files: int
    start_s: float
    cpu_s: float | None
    feeder_behind_s: float
    #: While nothing came in; None: not measured.
    idle_cores: float | None
    settings: dict[str, Any] = field(default_factory=dict)
    told: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(task: Task, timing: Timing) -> Result:
    """Runs one side. Raises ``RuntimeError`` with the child's last words if it died."""
    work = Path(task.work)
    shutil.rmtree(work, ignore_errors=True)
    task.input.mkdir(parents=True)
    leave_old_files(task.input, task.old_files)
    feeder = None
    child = Child(work, task.as_json())
    try:
        start_s = child.wait_ready()
        queries = task.filters
        feeder = Feeder(task.input, task.rate_per_s, queries, task.servers)
        delivered = Delivered(task.output, queries)
        feeder.run(1.0, child.check)
        wait_for_all(child, feeder, delivered, timing.prime_s)
        feeder.run(timing.warmup_s, child.check)
        from_us, cpu_before = time.time_ns() // 1000, child.cpu_s()
        feeder.run(timing.seconds, child.check)
        to_us, cpu_after = time.time_ns() // 1000, child.cpu_s()
        wait_for_all(child, feeder, delivered, timing.drain_s)
        end_us = time.time_ns() // 1000
        idle_cores = _idle_cores(child, timing.idle_s)
        told = child.stop()
        count = _Count(queries, feeder, delivered, from_us, to_us, end_us)
        cpu_s = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
        return count.result(task, start_s, cpu_s, idle_cores, told)
    finally:
        child.kill()
        if feeder is not None:
            feeder.close()
        shutil.rmtree(work, ignore_errors=True)


def _idle_cores(child: Child, seconds: float) -> float | None:
    """Cores that the side keeps busy while nothing comes in, once it has come to rest."""
    if not seconds:
        return None
    time.sleep(seconds)  # what was left to compile, sync and remove
    before = child.cpu_s()
    time.sleep(seconds)
    after = child.cpu_s()
    return None if before is None or after is None else (after - before) / seconds


def wait_for_all(child: Child, feeder: Feeder, delivered: Delivered, seconds: float) -> None:
    """Until all that was fed has arrived, at most so long.

    To look takes a while where there are ten thousands of files, so the last look begins after
    that time: what came during the one before is seen.
    """
    wanted = sum(len(feeder.wanted(query).ids) for query in feeder.queries)
    until = time.monotonic() + seconds
    is_last = False
    while delivered.look() < wanted and not is_last:
        child.check()
        time.sleep(0.2)
        is_last = time.monotonic() >= until


class Child:
    """The process that runs a side, with its JVM, in a process group of its own."""

    def __init__(
        self, work: Path, task: Mapping[str, object], module: str = "benchmarks.versus.child"
    ) -> None:
        """``module``: what it runs, over a file with the task in the folder ``work``."""
        self._work = work
        file = self._work / "task.json"
        file.write_text(json.dumps(task), encoding="utf-8")
        self._log = self._work / "child.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, str(file)],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                start_new_session=True,
            )

    def wait_ready(self) -> float:
        began = time.monotonic()
        while not (self._work / "ready").exists():
            self.check()
            if time.monotonic() - began > START_TIMEOUT_S:
                raise RuntimeError(f"did not start within {START_TIMEOUT_S:g} s")
            time.sleep(0.05)
        return time.monotonic() - began

    def check(self) -> None:
        if self._process.poll() is not None:
            raise RuntimeError(f"the child process has ended: {self._last_words()}")

    def stop(self) -> dict[str, Any]:
        (self._work / "stop").touch()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            return {"stopped": False}
        told = self._work / "told.json"
        if not told.exists():
            raise RuntimeError(f"the child process failed: {self._last_words()}")
        found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
        return found

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def cpu_s(self) -> float | None:
        """CPU time of the whole group so far; None where there is no /proc."""
        ticks = 0
        if not Path("/proc/self/stat").exists():
            return None
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[2]) == self._process.pid:
                    ticks += sum(int(f) for f in fields[11:15])  # its own and its children's
        return ticks / os.sysconf("SC_CLK_TCK")

    def _last_words(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


@dataclass
class _Count:
    """Sets what arrived against what had to arrive."""

    queries: list[Filter]
    feeder: Feeder
    delivered: Delivered
    from_us: int
    to_us: int
    end_us: int

    def result(
        self,
        task: Task,
        start_s: float,
        cpu_s: float | None,
        idle_cores: float | None,
        told: dict[str, Any],
    ) -> Result:
        classes, seen, wanted = {}, 0, 0
        for cls in CLASSES:
            members = [q for q in self.queries if q.cls == cls]
            if not members:
                continue
            created, latency_s, arrived = self.latencies(members)
            growth = _slope(created / 1e6, latency_s)
            classes[cls] = self._summary(cls, members, latency_s, arrived, growth)
            wanted += len(latency_s)
            seen += int(np.count_nonzero(created + latency_s * 1e6 <= self.to_us))
        return Result(
            side=task.side,
            queries=task.queries,
            rate_per_s=task.rate_per_s,
            classes=classes,
            sustained=all(c.sustained for c in classes.values()),
            delivered_share=seen / max(1, wanted),
            duplicates=self.duplicates(),
            **self.beside_a_batch(),
            files=self.delivered.files,
            start_s=start_s,
            cpu_s=cpu_s,
            feeder_behind_s=self.feeder.behind_s,
            idle_cores=idle_cores,
            settings={
                k: v for k, v in task.as_json().items() if k in ("policy", "rider_bound_s", "cores")
            },
            told=told,
        )

    def latencies(self, members: list[Filter]) -> tuple[Any, Any, Any]:
        """Creation (µs) and latency (s) of all rows that had to arrive, and which of them did."""
        created_all, latency_all, here_all = [], [], []
        for query in members:
            wanted = self.feeder.wanted(query, self.from_us, self.to_us)
            arrived = np.full(len(wanted.ids), self.end_us, dtype=np.int64)
            ids, _, visible = self.delivered.of(query.name)
            ids, first = np.unique(ids, return_index=True)  # of a repeated row, the first
            here = np.isin(wanted.ids, ids, assume_unique=True)
            arrived[here] = visible[first][np.searchsorted(ids, wanted.ids[here])]
            here_all.append(here)
            created_all.append(wanted.created_us)
            latency_all.append((arrived - wanted.created_us) / 1e6)
        return (
            np.concatenate(created_all),
            np.concatenate(latency_all),
            np.concatenate(here_all),
        )

    def _summary(
        self, cls: str, members: list[Filter], latency_s: Any, arrived: Any, growth: float
    ) -> ClassResult:
        if not len(latency_s):
            raise RuntimeError(f"no row had to arrive in class {cls}: feed longer or faster")
        p50, p95, p99 = (float(p) for p in np.percentile(latency_s, [50, 95, 99]))
        utility = QOS[cls].utility(np.round(latency_s * 1e9).astype(np.int64))
        missing = int(np.count_nonzero(~arrived))
        stale = [self._staleness(q) for q in members]
        return ClassResult(
            p50, p95, p99, float(np.mean(utility * arrived)), float(np.mean(stale)),
            len(latency_s) - missing, missing,
            growth, not missing and growth < FALLING_BEHIND,
        )  # fmt: skip

    def _staleness(self, query: Filter) -> float:
        """Mean age, over the measured time, of the newest row the sink shows."""
        _, created, visible = self.delivered.of(query.name)
        at = np.clip(visible, self.from_us, self.to_us)
        newest = np.maximum.accumulate(created)
        at = np.concatenate([[self.from_us], at, [self.to_us]])
        # Before the first row it is as if the newest were of the beginning.
        newest = np.concatenate([[min([self.from_us, *newest[:1]])], newest])
        age = (at[:-1] + at[1:]) / 2 - newest
        span = np.diff(at)
        return float(np.sum(age * span) / max(1, span.sum()) / 1e6)

    def beside_a_batch(self) -> dict[str, int]:
        """What differs from a batch over all rows that were fed, row by row."""
        lost = unexpected = 0
        for query in self.queries:
            wanted, found = self.feeder.wanted(query).ids, self.delivered.of(query.name)[0]
            lost += len(np.setdiff1d(wanted, found))
            unexpected += len(np.setdiff1d(found, wanted))
        return {"lost": lost, "unexpected": unexpected}

    def duplicates(self) -> int:
        found = [self.delivered.of(q.name)[0] for q in self.queries]
        return sum(len(ids) - len(np.unique(ids)) for ids in found)


def latencies(
    feeder: Feeder, delivered: Delivered, from_us: int, to_us: int
) -> tuple[NDArray[np.float64], int]:
    """Seconds from creation to visibility of the rows that were made in [from, to).

    And how many rows, of all that were fed, are missing, there twice, or in the wrong sink.
    """
    queries = list(feeder.queries)
    count = _Count(queries, feeder, delivered, from_us, to_us, time.time_ns() // 1000)
    _, latency_s, _ = count.latencies(queries)
    return latency_s, sum(count.beside_a_batch().values()) + count.duplicates()


def _slope(at_s: Any, latency_s: Any) -> float:
    if len(at_s) < 2 or np.ptp(at_s) == 0:
        return 0.0
    return float(np.polyfit(at_s - at_s[0], latency_s, 1)[0])
