"""Whether state, feed and segments stay as large as they are: so many minutes of steady input."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.nexmarking.compare import declare
from benchmarks.nexmarking.generator import Generator, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: One of each kind whose state is bounded: rows, windows, sessions that close, what is retained.
STEADY = ("q0", "q8", "q11", "q16", "q18")
EVERY_S, EVENTS, SAMPLE_S = 1.0, 200, 15.0
#: The last third may take this much more than the middle one.
SLACK = 1.25


def steady(spark: SparkSession, folder: Path, minutes: float, seed: int) -> int:
    """Runs, samples the folders and compares thirds; 0 where nothing grows."""
    generator = Generator(seed=seed)
    samples: list[dict[str, int]] = []
    app = declare(spark, folder, STEADY, retain="1 minute")
    number, end_s, next_s = 0, time.monotonic() + 60 * minutes, 0.0
    with app.run(run_dir=folder / "run") as run:
        while time.monotonic() < end_s:
            write_files(folder, generator, EVENTS, 1, first=number)
            number += 1
            if time.monotonic() >= next_s:
                next_s = time.monotonic() + SAMPLE_S
                samples.append(_sizes(folder / "run"))
                sys.stdout.write(json.dumps(samples[-1]) + "\n")
            time.sleep(EVERY_S)
        run.drain()
    third = len(samples) // 3
    grown = {}
    for what in samples[0]:
        middle = max(sample[what] for sample in samples[third : 2 * third])
        last = max(sample[what] for sample in samples[2 * third :])
        grown[what] = last > SLACK * middle + 2**16
    sys.stdout.write(json.dumps({"grows": grown, "events": number * EVENTS}) + "\n")
    return int(any(grown.values()))


def _sizes(root: Path) -> dict[str, int]:
    """Bytes and files by folder of the run directory."""
    found: dict[str, int] = {}
    for name in ("state", "feed", "segments"):
        files = [path for path in (root / name).rglob("*") if path.is_file()]
        found[f"{name}_bytes"] = sum(path.stat().st_size for path in files if path.exists())
        found[f"{name}_files"] = len(files)
    return found
