"""Both ways for a micro-batch: through the driver, and past it.

::

    python benchmarks/dataplane.py [--rows 1000 ... 5000000] [--json]

One micro-batch of rows of 250 bytes through 25 filters, on a standalone cluster on this machine
(two workers of one core, executors of 900 MB, a driver heap of 1 GB), each in a process of its own,
after a first batch of 1000 rows. Measured from the moment the file is there until every filter's
rows are delivered, with the peaks of the driver's memory. A way that fails or takes longer than
``--patience`` seconds is shown as such.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from benchmarks.large.ways import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
