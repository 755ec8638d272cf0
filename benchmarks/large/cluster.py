"""A large stream on a real standalone cluster; see ``benchmarks/large_cluster.py``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.cluster_test import Cluster, spark_class
from benchmarks.large.driver import Settings, peaks_file
from benchmarks.large.heap import both
from benchmarks.large.workload import generate, wrong
from benchmarks.servers import PostgresServer
from benchmarks.soaking.application import left_behind

CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "900m",
    "spark.network.timeout": "600s",
}
PATIENCE_S = 2400.0
#: The heap of the largest batch may exceed that of the smallest by so much.
MOST_GROWTH = 1.25
Say = Callable[[str], None]


def driver(settings: Settings, log: Path) -> subprocess.Popen[bytes]:
    """A driver in a process group of its own, by spark-submit; all it prints goes to ``log``."""
    home, here = Path(settings.home), Path(__file__).parent
    home.mkdir()
    given = settings.write(home / "settings.json")
    conf = [part for key, value in settings.conf.items() for part in ("--conf", f"{key}={value}")]
    submit = [str(spark_class().with_name("spark-submit")), "--master", settings.master, *conf]
    with log.open("ab") as said:
        return subprocess.Popen(
            [*submit, str(here / "driver.py"), str(given)],
            stdout=said, stderr=said, cwd=home, start_new_session=True,
            env=_environment(here.parent.parent),
        )  # fmt: skip


def _environment(root: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(root),
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def measured(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    code = process.wait(timeout=PATIENCE_S)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line[:1] == "{"]
    if code != 0 or not lines:
        raise RuntimeError(f"the driver ended with {code}: see {log}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def files(out: Path) -> int:
    return sum(1 for path in out.glob("*/*.parquet"))


def await_files(process: subprocess.Popen[bytes], out: Path, count: int, log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while files(out) < count:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"it delivers nothing: see {log}")
        time.sleep(0.2)


def one_run(
    cluster: Cluster, folder: Path, rows: int, url: str, say: Say, *, kills: bool
) -> dict[str, Any]:
    """So many rows as one micro-batch."""
    folder.mkdir()
    generate(folder / "in", rows)
    log, out = folder / "log.txt", folder / "out"

    def settings(home: str) -> Settings:
        return Settings(
            master=cluster.url, home=str(folder / home), events=str(folder / "in"), out=str(out),
            name=f"large{rows}", log=url, store=str(folder / "store"), conf=CONF,
        )  # fmt: skip

    began, killed, before = time.monotonic(), [], {}
    process = driver(settings("first"), log)
    try:
        if kills:
            await_files(process, out, 30, log)
            cluster.kill_worker()
            killed.append("worker")
            await_files(process, out, files(out) + 1, log)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            shutil.rmtree(folder / "first", ignore_errors=True)
            killed.append("driver")
            before = json.loads(peaks_file(folder / "first").read_text())
            say(f"{rows} rows: worker and driver killed, {files(out)} files were delivered")
            process = driver(settings("second"), log)
        found = both(before, measured(process, log))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    found |= {
        "killed": killed,
        "wall_s": round(time.monotonic() - began, 1),
        "input_mb": round(sum(p.stat().st_size for p in (folder / "in").iterdir()) / 2**20, 1),
        "wrong": wrong(out, rows),
        "left": left_behind(out),
    }
    say(f"{rows} rows: {found}")
    if not found["wrong"]:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def verdict(runs: dict[int, dict[str, Any]]) -> list[str]:
    """What is not as it must be."""
    found = [f"{rows} rows: {what}" for rows, run in runs.items() for what in run["wrong"]]
    found += [f"{rows} rows: {run['left']} was left" for rows, run in runs.items() if run["left"]]
    for rows, run in runs.items():
        if run["rows_through_driver"]:
            found.append(f"{rows} rows: {run['rows_through_driver']} of them passed the driver")
    kept = {rows: run["heap_live_mb"] for rows, run in runs.items()}
    if len(kept) > 1 and kept[max(kept)] > MOST_GROWTH * kept[min(kept)] + 32:
        found.append(f"the driver's heap grows with the batch: {kept} MB")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="A large stream past the driver, on a cluster.")
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 2_000_000, 5_000_000])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="daybreak-large-"))
    server = PostgresServer()
    server.start()
    runs: dict[int, dict[str, Any]] = {}

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    try:
        cluster = Cluster(folder)
        try:
            say(f"{cluster.url}, logs in {folder}")
            for rows in sorted(given.rows):
                last = rows == max(given.rows)
                runs[rows] = one_run(cluster, folder / str(rows), rows, server.dsn, say, kills=last)
        finally:
            cluster.stop()
    finally:
        server.close()
    found = verdict(runs)
    print(json.dumps({"runs": runs, "wrong": found}, indent=2) if given.json else runs)
    for what in found:
        print(f"WRONG: {what}", file=sys.stderr)
    if not found:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if found else 0
