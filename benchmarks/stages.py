"""Where the time of an answer goes, stage by stage, from a row's creation to its visible result.

Runs Daybreak on the filters of versus_spark.py, each number of queries in a fresh process. The
stamps are those of the run's own record: when rows were created, *seen* by the source, *read* into
the driver, *listed* in the log; when the policy *decided*, when the worker began to *run*, when
results were *computed*, *committed* and *delivered*. A figure is over all answers of a class.

    python benchmarks/stages.py [--json] [--queries 1,25,250,1000] [--ingest direct]
    python benchmarks/stages.py --quick     # 1 and 25 queries: two minutes
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CLASS = "critical"


def breakdown(answers: Sequence[Mapping[str, Any]], cls: str) -> dict[str, Any]:
    """p50 and p95 (ms) of every stage over the answers of a class, and of the whole."""
    from benchmarks.versus.stage_child import STAGES

    mine = [a for a in answers if a["class"] == cls]
    if not mine:
        return {"answers": 0}
    weights = [a["queries"] for a in mine]
    spent = np.repeat(np.array([a["stages_ns"] for a in mine]) / 1e6, weights, axis=0)
    columns = dict(zip(STAGES, spent.T, strict=True)) | {"whole": spent.sum(axis=1)}
    return {"answers": len(spent)} | {
        name: dict(zip(("p50_ms", "p95_ms"), np.percentile(column, [50, 95]).tolist(), strict=True))
        for name, column in columns.items()
    }


def measure(queries: int, args: argparse.Namespace) -> dict[str, Any]:
    import time

    from benchmarks.versus.feeder import Feeder
    from benchmarks.versus.measure import Child, wait_for_all
    from benchmarks.versus.visible import Delivered
    from benchmarks.versus.workload import CLASSES, Task

    side = {"spark": "today", "auto": "daybreak"}.get(args.ingest, "direct")
    work = (args.out / "stages").resolve()
    task = Task(side, queries, args.rate, str(work), timed=True)
    shutil.rmtree(work, ignore_errors=True)
    task.input.mkdir(parents=True)
    child = Child(work, task.as_json(), "benchmarks.versus.stage_child")
    try:
        child.wait_ready()
        feeder = Feeder(task.input, args.rate, task.filters)
        delivered = Delivered(task.output, task.filters)
        feeder.run(args.warmup, child.check)
        wait_for_all(child, feeder, delivered, 60.0)
        from_ns = time.time_ns()
        feeder.run(args.seconds, child.check)
        wait_for_all(child, feeder, delivered, 60.0)
        answers = [a for a in child.stop()["answers"] if a["arrival_ns"] >= from_ns]
    finally:
        child.kill()
        shutil.rmtree(work, ignore_errors=True)
    return {"queries": queries, "classes": {cls: breakdown(answers, cls) for cls in CLASSES}}


def rows(found: Sequence[Mapping[str, Any]], cls: str = CLASS) -> list[list[str]]:
    """One row per stage, one column per number of queries: p50 and p95 in ms."""
    from benchmarks.versus.stage_child import STAGES

    head = ["until", *(f"{f['queries']} queries" for f in found)]
    return [head, *([stage, *(_cell(f["classes"][cls], stage) for f in found)]
                    for stage in (*STAGES, "whole"))]  # fmt: skip


def _cell(found: Mapping[str, Any], stage: str) -> str:
    if not found["answers"]:
        return "-"
    return " / ".join(f"{found[stage][key]:.1f}" for key in ("p50_ms", "p95_ms"))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="stages.py",
        description="Where the time of an answer goes, stage by stage (p50 / p95 in ms).",
        epilog="example: python benchmarks/stages.py --queries 25,250",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="1 and 25 queries, 8 s each: two minutes")
    add("--json", action="store_true", help="print JSON instead of a table; all classes")
    add("--queries", help="numbers of queries, default 1,25,250; quick 1,25")
    add("--rate", type=float, default=800.0, help="rows per second, default %(default)g")
    add("--seconds", type=float, help="measured time of each, default 30, quick 8")
    add("--warmup", type=float, help="fed before that, default 20, quick 6")
    add("--ingest", choices=("direct", "spark", "auto"), default="direct")
    add("--out", type=Path, default=Path("reproduced"), help="where it works")
    args = parser.parse_args(argv)
    args.queries = args.queries or ("1,25" if args.quick else "1,25,250")
    args.seconds = args.seconds or (8.0 if args.quick else 30.0)
    args.warmup = args.warmup or (6.0 if args.quick else 20.0)
    return args


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from daybreak.cli.console import console
    from daybreak.report.text import table
    from daybreak.spark.session import require_java

    args, found = parse(), []
    require_java()
    for text in args.queries.split(","):
        sys.stderr.write(f"{text} queries ...\n")
        found.append(measure(int(text), args))
    if args.json:
        sys.stdout.write(json.dumps(found, indent=2) + "\n")
    else:
        console().print(table(rows(found), title=f"Stages of answers, class {CLASS}, ms p50 / p95"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
