"""Runs the tests in two processes at once, one per core of a small machine.

* Everything (``make test``): those that share a Spark session, and all others. Most of their time
  both wait.
* ``--fast`` (``make test-fast``): all that need neither a JVM nor a browser and are not marked
  ``slow``. A test that starts a JVM nevertheless fails.

Shows the first process as it runs, then what the other printed. Exits with 0 only if both did.
Other arguments go to both, for instance: python tools/test_lanes.py --fast -x
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
EXPERIMENTS = ROOT / "experiments" / "tests"
#: On Spark too, but mostly in processes, with a broker or with a browser of their own; and sources,
#: so that neither process waits long for the other.
APART = (
    "test_kill.py", "test_crash.py", "test_eventlog.py", "test_dashboard.py", "test_disk_full.py",
    "governed", "ingest", "kafka", "sinks/test_kill.py", "log/test_lost_drivers.py",
)  # fmt: skip
#: About half of what the fast tests take.
FAST_HALF = (
    TESTS / "policies",
    TESTS / "links",
    TESTS / "model",
    TESTS / "filters",
    TESTS / "runtime",
    EXPERIMENTS,
)
ALL = ("-m", "not soak")
FAST = (
    "-m", "not spark and not browser and not slow", "-p", "no:cacheprovider",
    "--hypothesis-profile=fast",
)  # fmt: skip
NO_JVM = {"JAVA_HOME": str(ROOT / "no-java-here")}


def folders() -> list[Path]:
    found = [p for p in TESTS.iterdir() if p.is_dir() and p.name != "__pycache__"]
    return [*sorted(found), EXPERIMENTS]


def all_lanes() -> tuple[list[str], list[str]]:
    """What the two processes are given."""
    apart = [TESTS / "spark" / name for name in APART]
    first = [*ALL, str(TESTS / "spark"), *(f"--ignore={path}" for path in apart)]
    others = [p for p in folders() if p != TESTS / "spark"]
    return first, [*ALL, "-p", "no:cacheprovider", *(str(path) for path in (*others, *apart))]


def fast_lanes() -> tuple[list[str], list[str]]:
    others = [p for p in folders() if p not in FAST_HALF]
    return [*FAST, *map(str, FAST_HALF)], [*FAST, *map(str, others)]


def run(lanes: tuple[list[str], list[str]], given: list[str], env: Mapping[str, str]) -> int:
    began = time.monotonic()
    pytest = [sys.executable, "-m", "pytest", *given]
    with tempfile.TemporaryFile("w+") as kept:
        second = subprocess.Popen(  # noqa: S603  # our own tests
            [*pytest, *lanes[1]], cwd=ROOT, env=env, stdout=kept, stderr=subprocess.STDOUT
        )
        try:
            codes = [subprocess.call([*pytest, *lanes[0]], cwd=ROOT, env=env)]  # noqa: S603
            codes.append(second.wait())
        finally:
            second.terminate()
            second.wait()
        kept.seek(0)
        print("the other process:", kept.read(), sep="\n", end="", flush=True)
    print(f"both took {time.monotonic() - began:.0f} s", flush=True)
    return int(any(codes))


def main() -> int:
    given = [a for a in sys.argv[1:] if a != "--fast"]
    if "--fast" in sys.argv[1:]:
        print("tests without a JVM and a browser, half of them in another process", flush=True)
        return run(fast_lanes(), given, {**os.environ, **NO_JVM})
    print("tests that share a Spark session; all others run in another process", flush=True)
    return run(all_lanes(), given, os.environ)


if __name__ == "__main__":
    sys.exit(main())
