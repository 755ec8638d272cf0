"""Runs every test in two processes at once: those on Spark, which mostly wait, and all others.

Shows the tests on Spark as they run, then what the others printed. Exits with 0 only if both did.
Arguments go to both, for instance: python tools/test_lanes.py -x
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    began = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    with tempfile.TemporaryFile("w+") as kept:
        others = subprocess.Popen(  # noqa: S603  # our own tests
            [*pytest, "--ignore=tests/spark", "-p", "no:cacheprovider"],
            cwd=ROOT,
            stdout=kept,
            stderr=subprocess.STDOUT,
        )
        try:
            print(
                "tests on Spark; all others run at the same time, and are shown after", flush=True
            )
            on_spark = subprocess.call([*pytest, "tests/spark"], cwd=ROOT)  # noqa: S603
            rest = others.wait()
        finally:
            others.terminate()
            others.wait()
        kept.seek(0)
        print("all other tests:", kept.read(), sep="\n", end="", flush=True)
    print(f"both took {time.monotonic() - began:.0f} s", flush=True)
    return on_spark or rest


if __name__ == "__main__":
    sys.exit(main())
