"""Nexmark's q0 to q22 in one application, each in the mode that fits, compared with a batch.

    python benchmarks/nexmark.py [--events 5000] [--seed 7] [--docs docs/] [--kills 5]
    python benchmarks/nexmark.py --steady 10

``--docs`` writes the table of docs/nexmark.md. ``--kills`` kills the application so many times at
random moments and compares what its sinks hold in the end. ``--steady`` runs for so many minutes
and reports what state, feed and segments take. Exits with 0 only if all results are equal.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.nexmarking.compare import declare, differences, written  # noqa: E402
from benchmarks.nexmarking.generator import Generator, write_files  # noqa: E402
from benchmarks.nexmarking.page import page  # noqa: E402
from benchmarks.nexmarking.queries import QUERIES  # noqa: E402
from benchmarks.nexmarking.steady import steady  # noqa: E402
from benchmarks.nexmarking.stock import stock  # noqa: E402

from daybreak.spark.session import local_session  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 5
#: A life of the application between two kills, from its start, in s.
LIFE_S = (12.0, 30.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--docs", type=Path)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--steady", type=float, default=0.0)
    parser.add_argument("--life", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.life is not None:
        return live(args.life)
    folder = Path(tempfile.mkdtemp(prefix="nexmark-"))
    if not args.steady:
        write_files(folder, Generator(seed=args.seed), args.events, FILES)
        killed(folder, args.kills, args.seed)
    spark = local_session("nexmark", cores=2)
    try:
        if args.steady:
            return steady(spark, folder, args.steady, args.seed)
        figures = finished(spark, folder)
        results = {name: written(folder, name) for name in QUERIES}
        unequal = differences(spark, folder, results)
        rows = {name: result.num_rows for name, result in results.items()}
        text = page(unequal, rows, figures, stock(spark), args.events, args.kills)
        sys.stdout.write(text)
        if args.docs is not None:
            (args.docs / "nexmark.md").write_text(text, encoding="utf-8")
        return int(any(unequal.values()))
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


def finished(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Runs the application to the end of its input; the kind, jobs and time of each query."""
    began = time.monotonic()
    with declare(spark, folder).run(run_dir=folder / "run") as run:
        run.drain(flush=True)
        queries = {q.name: {"kind": q.kind, "jobs": q.jobs} for q in run.snapshot().queries}
    return {"queries": queries, "took_s": time.monotonic() - began}


def live(folder: Path) -> int:
    """A life that somebody ends: the application until its input is read."""
    spark = local_session("nexmark", cores=2)
    with declare(spark, folder).run(run_dir=folder / "run") as run:
        (folder / "started").write_text("")
        run.drain()
    spark.stop()
    return 0


def killed(folder: Path, kills: int, seed: int) -> None:
    """Starts the application and kills it, with its JVM, at random moments."""
    pick = random.Random(seed)  # moments, not secrets
    for number in range(kills):
        (folder / "started").unlink(missing_ok=True)
        command = [sys.executable, str(Path(__file__)), "--life", str(folder)]
        life = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
        while not (folder / "started").exists() and life.poll() is None:
            time.sleep(0.05)
        try:
            life.wait(pick.uniform(0.2, LIFE_S[0] if number else LIFE_S[1]))
        except subprocess.TimeoutExpired:
            life.kill()
            life.wait()
        sys.stderr.write(json.dumps({"kill": number + 1, "code": life.returncode}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
