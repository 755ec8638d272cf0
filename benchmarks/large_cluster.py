"""A large stream on a real standalone cluster: rows that never pass the driver.

::

    python benchmarks/large_cluster.py [--rows 1000000 2000000 5000000] [--json]

A master, two workers of one core with executors of 900 MB, a driver with a heap of 512 MB, the log
in PostgreSQL, the store on a path that all share; everything on loopback. Each number of rows is
one micro-batch of rows of 250 bytes, through 25 filters and 5 windows. In the last and largest run
one worker is killed with its executor, then the driver is killed by SIGKILL, its folder deleted and
another driver started elsewhere. Every row must be in its sink once, none of the stream's may have
passed the driver, and the driver's heap must not grow with the batch. Only processes that were
started here are ended, by their own process groups.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.large.cluster import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
