"""Both ways for a micro-batch: through the driver, and past it. See ``benchmarks/dataplane.py``."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cluster_test import Cluster
from benchmarks.large.cluster import driver
from benchmarks.large.driver import Settings
from benchmarks.large.workload import generate, generate_file

ROWS = [1_000, 10_000, 100_000, 300_000, 1_000_000, 2_000_000, 5_000_000]
#: Largest micro-batch that passes the driver, by way.
WAYS = {"driver": 2**50, "executors": 1}
WARM_ROWS = 1000
CONF = {"spark.driver.memory": "1g", "spark.executor.memory": "900m"}


def measure(
    cluster: Cluster, folder: Path, rows: int, way: str, patience_s: float
) -> dict[str, Any]:
    folder.mkdir()
    generate(folder / "in", WARM_ROWS)
    generate_file(folder / "later.parquet", WARM_ROWS, rows)
    given = Settings(
        master=cluster.url, home=str(folder / "home"), events=str(folder / "in"),
        out=str(folder / "out"), driver_batch_bytes=WAYS[way], windows=(), conf=CONF,
        later=str(folder / "later.parquet"),
    )  # fmt: skip
    log = folder.with_suffix(".log")
    process = driver(given, log)
    try:
        code: int | None = process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        code = None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
    lines = [line for line in log.read_text(errors="replace").splitlines() if line[:1] == "{"]
    if code != 0 or not lines:
        return {"failed": "no answer in time" if code is None else f"ended with {code}"}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def crossover(found: dict[int, dict[str, dict[str, Any]]]) -> int | None:
    """The smallest batch from which on the way past the driver is the faster one."""
    faster = None
    for rows in sorted(found, reverse=True):
        by_driver, past = (found[rows][way].get("took_s") for way in WAYS)
        if past is None or (by_driver is not None and by_driver < past):
            return faster
        faster = rows
    return faster


def table(found: dict[int, dict[str, dict[str, Any]]]) -> str:
    lines = ["rows | driver: s | live heap, MB | Python, MB | executors: s | heap | Python"]
    for rows, ways in sorted(found.items()):
        cells = [f"{rows}"]
        for way in WAYS:
            one = ways[way]
            shown = ("took_s", "heap_live_mb", "python_mb")
            cells += (
                [str(one.get("failed", "-"))]
                if "failed" in one
                else [str(one[name]) for name in shown]
            )
        lines.append(" | ".join(cells))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Both ways for a micro-batch: through the driver, and past it."
    )
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--patience", type=float, default=600.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="daybreak-dataplane-"))
    cluster = Cluster(root)
    found: dict[int, dict[str, dict[str, Any]]] = {}
    try:
        for rows in given.rows:
            found[rows] = {}
            for way in WAYS:
                place = root / f"{rows}-{way}"
                found[rows][way] = measure(cluster, place, rows, way, given.patience)
                print(f"{rows} rows, {way}: {found[rows][way]}", file=sys.stderr, flush=True)
    finally:
        cluster.stop()
    from_rows = crossover(found)
    if given.json:
        print(json.dumps({"rows": found, "crossover_rows": from_rows}, indent=2))
    else:
        print(table(found), f"past the driver is faster from {from_rows} rows on", sep="\n")
    shutil.rmtree(root, ignore_errors=True)
    return 0
