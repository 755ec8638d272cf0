"""Soak: the engine is killed, its disk is filled, it runs for long, and it is fed with nonsense.

::

    python benchmarks/soak.py [--seed 7] [--json]        # everything, about an hour
    python benchmarks/soak.py --only kills --kills 100
    python benchmarks/soak.py --only drivers|kafka|tables|disk|steady|fuzz --docs docs/results

kills   SIGKILL over all stages of a life, a hundred times: exactly the oracle's rows in the end.
drivers SIGKILL twenty times, and the driver's working directory is deleted; another one continues
        elsewhere from the log in PostgreSQL and the store: exactly the oracle's rows in the end.
kafka   SIGKILL twenty times while rows pass from a topic to files and a topic, with a real broker:
        files hold every row once, the topic at least once with headers that identify
        repetitions.
tables  SIGKILL twenty times while rows pass from files to Delta and PostgreSQL: every row once.
disk    the run directory and the sinks lie on a small tmpfs that is filled at random moments
        (needs the right to mount): exactly the oracle's rows in the end.
steady  100 queries at a steady rate for ten minutes: live heap, handles, threads and bytes of the
        log stay flat, by the rule of soaking/steady.py.
fuzz    pipeline files, records, control messages and run directories full of nonsense: Daybreak's
        own errors, and no others.

Every seed is printed. Exit code 1 if anything is wrong. ``--docs`` writes soak.md, its picture and
the figures (soak.json) there; parts that were not run this time keep what was published.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.soaking.command import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
