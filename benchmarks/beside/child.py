"""The child process of one measurement: runs the application until it is told to stop.

python -m benchmarks.beside.child TASK.json
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.beside.workload import Beside, running


def main() -> None:
    task = Beside(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    work = Path(task.work)
    with running(task) as run:
        (work / "ready").touch()
        while not (work / "stop").exists():
            run.healthy()
            time.sleep(0.05)
        failures = dict(run.failures)
    (work / "told.json").write_text(json.dumps({"failures": failures}), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
