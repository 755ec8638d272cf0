"""Soak: the engine is killed, its disk is filled, and it runs for long; then the rows are counted.

::

    python benchmarks/soak.py                     # all three, about 40 minutes
    python benchmarks/soak.py --only steady --minutes 10 --queries 100
    python benchmarks/soak.py --only kills --kills 100 --seed 7

kills   the whole process is ended by SIGKILL at random moments of its life, start and recovery
        included; at the end the sinks hold exactly the oracle's rows.
full    the run directory and the sinks lie on a small tmpfs that is filled at random moments
        (needs the right to mount; left out where there is none).
steady  many queries at a steady rate: live heap after a collection, handles, threads and bytes
        of the log, sampled; flat means that the last quarter is no higher than the second.

Every seed is printed. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from daybreak.spark.app import App
    from daybreak.spark.run import Run

PIPELINE = """
[app]
policy = "stride"
[policy]
train = 300
[classes]
high = 5
low = 1
[limits]
retries = 1000
retry_s = 0.05
[streams.readings]
format = "generator"
options = {{ seed = 7, limit = {rows} }}
arrivals = {{ rate_per_s = {rate} }}
[queries.everything]
class = "low"
sql = "SELECT reading, station, temperature, wind FROM readings"
sink = {{ format = "parquet", path = "out/everything" }}
[queries.warm]
class = "high"
sql = "SELECT reading FROM readings WHERE temperature > 20"
sink = {{ format = "json", path = "out/warm" }}
[queries.windy]
class = "low"
sql = "SELECT reading FROM readings WHERE wind > 45"
sink = {{ format = "csv", path = "out/windy" }}
"""


# Kills


def start(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "daybreak", "run", "pipeline.toml", "--json", *options],
            cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip


def kills(count: int, seed: int, folder: Path) -> dict[str, Any]:
    """So many lives, each ended at a random moment; the last one lives to the end."""
    rows, chance = 40 * count, random.Random(seed)
    (folder / "pipeline.toml").write_text(PIPELINE.format(rows=rows, rate=60))
    life_s, survived = 20.0, 0
    for number in range(count):
        process = start(folder, "--until-end")
        moment_s = chance.uniform(0.0, life_s)
        try:
            process.wait(timeout=moment_s)
            survived += 1  # the input had ended: it is killed at its own end next time
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        say(f"kill {number + 1}/{count} after {moment_s:.2f} s, {progress(folder)} rows delivered")
    last = start(folder, "--until-end").wait(timeout=1200)
    wrong = [] if last == 0 else [f"the last life ended with {last}: see log.txt"]
    return {"kills": count - survived, "seed": seed, "wrong": wrong + compare(folder, rows)}


def progress(folder: Path) -> int:
    files = (folder / "out/everything").glob("*.parquet")
    return sum(pq.read_metadata(f).num_rows for f in files)


def compare(folder: Path, rows: int) -> list[str]:
    """What differs from the oracle: the same conditions over every row that was made."""
    from daybreak.spark.generator import KINDS

    wrong: list[str] = []
    import numpy as np

    oracle = KINDS["stations"].make(7, np.arange(rows, dtype=np.int64), 0)
    everything = pq.read_table(folder / "out/everything", partitioning=None)
    expected = {
        "everything": oracle["reading"],
        "warm": oracle.filter(pc.field("temperature") > 20)["reading"],
        "windy": oracle.filter(pc.field("wind") > 45)["reading"],
    }
    found = {
        "everything": everything["reading"].to_pylist(),
        "warm": [json.loads(line)["reading"] for line in lines(folder / "out/warm", "json")],
        "windy": [
            int(line) for line in lines(folder / "out/windy", "csv") if line.strip('"') != "reading"
        ],
    }
    for name, wanted in expected.items():
        if sorted(found[name]) != sorted(wanted.to_pylist()):
            lost = set(wanted.to_pylist()) - set(found[name])
            twice = len(found[name]) - len(set(found[name]))
            wrong.append(f"{name}: {len(lost)} rows lost, {twice} twice")
    for left in (folder / "out").rglob("_staging/*"):
        wrong.append(f"{left} was left behind")
    return wrong


def lines(folder: Path, extension: str) -> list[str]:
    return [t for f in folder.glob(f"*.{extension}") for t in f.read_text().splitlines()]


# A full disk


def full(seed: int, folder: Path, seconds: float = 60.0) -> dict[str, Any]:
    """A tmpfs that a balloon fills at random moments while the engine works on it."""
    disk, chance = folder / "disk", random.Random(seed)
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(disk)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        return {"skipped": "no right to mount a tmpfs", "wrong": []}
    try:
        rows = round(seconds * 50)
        (disk / "pipeline.toml").write_text(PIPELINE.format(rows=rows, rate=100))
        spells, ends = 0, 0
        process = start(disk, "--until-end")
        until = time.monotonic() + seconds
        while time.monotonic() < until or process.poll() is None:
            if process.poll() is not None:
                ends += 1  # it could not go on: a supervisor starts it again
                process = start(disk, "--until-end")
            time.sleep(chance.uniform(0.2, 3.0))
            if time.monotonic() < until:
                spells += blow(disk / "balloon", chance.uniform(0.2, 3.0))
        code = start(disk, "--until-end").wait(timeout=600)
        wrong = [] if code == 0 else [f"the last life ended with {code}"]
        wrong += compare(disk, rows)
        if wrong:
            shutil.copy(disk / "log.txt", folder / "log.txt")
        return {"spells": spells, "restarts": ends, "seed": seed, "wrong": wrong}
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def blow(balloon: Path, seconds: float) -> int:
    """Fills the disk for so long."""
    with contextlib.suppress(OSError), balloon.open("wb") as file:
        while True:
            file.write(bytes(2**16))
            file.flush()
    time.sleep(seconds)
    balloon.unlink(missing_ok=True)
    return 1


# Steady


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
    """What may not grow, at this moment."""
    jvm: Any = run.prepared.spark.sparkContext._jvm
    gc.collect()
    runtime = getattr(jvm, "java.lang.Runtime").getRuntime()
    getattr(jvm, "java.lang.System").gc()
    pid = getattr(jvm, "java.lang.ProcessHandle").current().pid()
    root = run.rundir.root
    return {
        "at_s": round(run.elapsed_s, 1),
        "heap MB": (runtime.totalMemory() - runtime.freeMemory()) / 2**20,
        "python objects": float(len(gc.get_objects())),
        "python MB": status_kb(os.getpid(), "VmRSS") / 2**10,
        "handles": float(len(os.listdir("/proc/self/fd"))),  # noqa: PTH208
        "jvm handles": float(len(os.listdir(f"/proc/{pid}/fd"))),  # noqa: PTH208
        "python threads": float(threading.active_count()),
        "jvm threads": float(status_kb(pid, "Threads")),
        "segments": float(sum(len(run.store.segments(s)) for s in run.prepared.streams)),
        "state.db MB": size(root / "state.db") / 2**20,
        "wal MB": size(root / "state.db-wal") / 2**20,
        "segment MB": tree(root / "segments") / 2**20,
        "checkpoint MB": tree(root / "checkpoints") / 2**20,
        "answered": float(sum(run.state.tuples_in)),
    }


def status_kb(pid: int, key: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1])
    return 0


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def tree(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # removed meanwhile
            total += path.stat().st_size
    return total


@dataclass(frozen=True)
class Flatness:
    """Of one measure: its median in the second and in the last quarter of the run."""

    early: float
    late: float
    flat: bool


#: Beside 10 %: what a measure may differ by without meaning anything.
SLACK = {"heap MB": 8.0, "python objects": 5000.0, "python MB": 16.0, "segments": 40.0}


def verdicts(samples: Sequence[Mapping[str, float]]) -> dict[str, Flatness]:
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    found = {}
    for what in samples[0]:
        if what in ("at_s", "answered"):
            continue
        before = statistics.median(s[what] for s in early)
        after = statistics.median(s[what] for s in late)
        slack = max(0.1 * before, SLACK.get(what, 2.0))
        found[what] = Flatness(before, after, after <= before + slack)
    return found


def steady(minutes: float, queries: int, rate_per_s: float, folder: Path) -> dict[str, Any]:
    from daybreak.spark.session import local_session

    spark = local_session("soak", cores=2)
    samples: list[dict[str, float]] = []
    with steady_app(spark, folder, queries, rate_per_s).run(
        "stride", run_dir=folder / "run"
    ) as run:
        every_s = max(1.0, min(10.0, minutes * 60 / 40))
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            run.wait(every_s)
            samples.append(measure(run))
            newest = samples[-1]
            say("  ".join(f"{k} {v:.6g}" for k, v in newest.items()))
    report = run.report()
    spark.stop()
    flat = verdicts(samples)
    wrong = [
        f"{what} grows: {f.early:.6g} -> {f.late:.6g}" for what, f in flat.items() if not f.flat
    ]
    return {
        "minutes": minutes,
        "queries": queries,
        "rate_per_s": rate_per_s,
        "answered": report.overall().count,
        "p95_s": report.overall().percentiles_s[95],
        "measures": {what: asdict(f) for what, f in flat.items()},
        "wrong": wrong + [f"query {n} was parked: {why}" for n, why in run.failures.items()],
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=("kills", "full", "steady"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    say(f"seed {given.seed}")
    parts: dict[str, Callable[[Path], dict[str, Any]]] = {
        "kills": lambda f: kills(given.kills, given.seed, f),
        "full": lambda f: full(given.seed, f),
        "steady": lambda f: steady(given.minutes, given.queries, given.rate, f),
    }
    outcome: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        if given.only in (None, name):
            folder = Path(tempfile.mkdtemp(prefix=f"soak-{name}-"))
            say(f"{name} in {folder}")
            outcome[name] = part(folder)
            if not outcome[name]["wrong"]:
                shutil.rmtree(folder, ignore_errors=True)
    if given.json:
        print(json.dumps(outcome, indent=2))
    else:
        show(outcome)
    return 1 if any(o["wrong"] for o in outcome.values()) else 0


def show(outcome: Mapping[str, Mapping[str, Any]]) -> None:
    for name, found in outcome.items():
        plain = {k: v for k, v in found.items() if k not in ("measures", "wrong")}
        verdict = "; ".join(found["wrong"]) or "nothing is wrong"
        print(f"{name}: {', '.join(f'{k} {v}' for k, v in plain.items())}: {verdict}")
        for what, f in found.get("measures", {}).items():
            state = "flat" if f["flat"] else "GROWS"
            print(f"  {what:16} {f['early']:12.4g} {f['late']:12.4g}  {state}")


if __name__ == "__main__":
    sys.exit(main())
