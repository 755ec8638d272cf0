"""What overlapping windows cost: 60 s by 1 s against a tumbling one, with panes and without.

    python benchmarks/windows.py [--seconds 600] [--rows-per-s 1000] [--json]

The same log (one segment a second of stream, twelve keys) is answered by one query at a time, in
trains of 60 s of stream, on one worker. Cost: time of the jobs with their commits, per second of
stream. Stated before measuring: with panes a window of 60 s by 1 s costs at most 3 times a
tumbling one of 60 s.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from daybreak.policies.registry import make_policy_with
from daybreak.spark.app import App
from daybreak.spark.ingest import generator
from daybreak.spark.session import local_session

START_US = 1_767_225_600_000_000
KEYS = 12
LIMIT = 3.0
VARIANTS = {
    "tumbling 60 s": ("window(at, '60 seconds')", True),
    "tumbling 1 s": ("window(at, '1 second')", True),
    "60 s by 1 s, panes": ("window(at, '60 seconds', '1 second')", True),
    "60 s by 1 s, rows": ("window(at, '60 seconds', '1 second')", False),
}


def second(number: int, rows: int) -> pa.Table:
    """One second of the stream."""
    n = np.arange(number * rows, (number + 1) * rows, dtype=np.int64)
    at = START_US + number * 1_000_000 + np.arange(rows) * 1_000_000 // rows
    return pa.table(
        {
            "n": n,
            "k": (n * 7919 % KEYS).astype(np.int32),
            "v": (n * 104_729 % 1000).astype(np.int32),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )


BY_HAND = generator.Rows("n BIGINT, k INT, v INT, at TIMESTAMP", lambda _s, _n, _now: second(0, 0))
cast("dict[str, generator.Rows]", generator.KINDS)["windows-benchmark"] = BY_HAND


def measure(spark: SparkSession, window: str, panes: bool, seconds: int, rows: int) -> Any:
    """One query over the whole log, all of which waits before its first job."""
    app = App(spark, name="windows", panes=panes)
    options = {"rows": "windows-benchmark", "limit": 0}
    app.stream("s", format="generator", options=options, time="at")
    app.query(
        "q",
        sql="SELECT window.end AS e, k, count(*) AS n, avg(v) AS m, max(v) AS top FROM s "
        f"GROUP BY {window}, k",
    )
    folder = Path(tempfile.mkdtemp())
    gate = threading.Event()

    def hold() -> None:
        gate.wait()

    try:
        policy = make_policy_with("fcfs", train=60 * rows)
        with app.run(policy, run_dir=folder / "run", workers=1, on_failure="report") as run:
            run.parts.scheduling.driver.ask(hold)
            for number in range(seconds):
                made = run.parts.storage.store.append(
                    "s", "by-hand", number, [0, 0], second(number, rows), time.time_ns()
                )
                assert made is not None
                run.parts.scheduling.arrivals.on_segment(made)
            gate.set()
            run.drain(timeout_s=3600, flush=True)
        if run.failures:
            raise RuntimeError(str(run.failures))
        spent = run.report().spent
        found = run.rows("q")
        assert found is not None
        return {
            "ms_per_s": (spent.work_ns + spent.call_ns) / 1e6 / seconds,
            "jobs": int(sum(run.report().boxes["calls"])),
            "windows": found.num_rows // KEYS,
        }
    finally:
        gate.set()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600, help="length of the stream")
    parser.add_argument("--rows-per-s", type=int, default=1000, help="rows per second of stream")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    spark = local_session("windows", cores=2)
    for window, panes in VARIANTS.values():  # warm up
        measure(spark, window, panes, 120, args.rows_per_s)
    found = {
        name: measure(spark, window, panes, args.seconds, args.rows_per_s)
        for name, (window, panes) in VARIANTS.items()
    }
    spark.stop()
    base = found["tumbling 60 s"]["ms_per_s"]
    for variant in found.values():
        variant["ratio"] = variant["ms_per_s"] / base
    holds = found["60 s by 1 s, panes"]["ratio"] <= LIMIT
    if args.json:
        print(json.dumps({"variants": found, "limit": LIMIT, "holds": holds}, indent=2))
    else:
        print(f"{args.seconds} s of stream, {args.rows_per_s} rows a second, {KEYS} keys")
        for name, v in found.items():
            print(
                f"{name:20} {v['ms_per_s']:8.2f} ms per s of stream  {v['ratio']:6.2f} x  "
                f"{v['jobs']:4} jobs  {v['windows']:5} windows"
            )
        print(f"with panes at most {LIMIT:g} x a tumbling window: {'yes' if holds else 'NO'}")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
