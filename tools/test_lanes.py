"""Runs every test in two processes at once: those that share a Spark session, and all others.

Most of their time both wait. Shows the first as they run, then what the others printed. Exits with
0 only if both did. Arguments go to both, for instance: python tools/test_lanes.py -x
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
#: On Spark too, but mostly in processes or with a broker of their own.
APART = ("test_kill.py", "test_crash.py", "test_eventlog.py", "kafka")


def lanes() -> tuple[list[str], list[str]]:
    """What the two processes are given."""
    apart = [TESTS / "spark" / name for name in APART]
    first = [str(TESTS / "spark"), *(f"--ignore={path}" for path in apart)]
    others = [p for p in TESTS.iterdir() if p.is_dir() and p.name not in ("spark", "__pycache__")]
    return first, [str(path) for path in (*sorted(others), ROOT / "experiments" / "tests", *apart)]


def main() -> int:
    began = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", *sys.argv[1:]]
    first, others = lanes()
    with tempfile.TemporaryFile("w+") as kept:
        second = subprocess.Popen(  # noqa: S603  # our own tests
            [*pytest, "-p", "no:cacheprovider", *others],
            cwd=ROOT,
            stdout=kept,
            stderr=subprocess.STDOUT,
        )
        try:
            print("tests that share a Spark session; the others run meanwhile", flush=True)
            codes = [subprocess.call([*pytest, *first], cwd=ROOT)]  # noqa: S603
            codes.append(second.wait())
        finally:
            second.terminate()
            second.wait()
        kept.seek(0)
        print("all other tests:", kept.read(), sep="\n", end="", flush=True)
    print(f"both took {time.monotonic() - began:.0f} s", flush=True)
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
