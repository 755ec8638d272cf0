"""The child process of one measurement: runs one side until it is told to stop.

    python -m benchmarks.versus.child TASK.json

Files in the work folder are the protocol: ``ready`` appears when the side reads its input,
``stop`` asks it to end, ``told.json`` is what it has to say at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.versus.sides import SIDES
from benchmarks.versus.workload import Task


def main() -> None:
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    work = Path(task.work)
    task.output.mkdir(parents=True, exist_ok=True)
    with SIDES[task.side].run(task) as check:
        (work / "ready").touch()
        checked = 0.0
        while not (work / "stop").exists():
            if time.monotonic() - checked > 1:  # asking hundreds of queries is not free
                check()
                checked = time.monotonic()
            time.sleep(0.05)
    (work / "told.json").write_text(json.dumps(check()), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # hundreds of streaming queries would take minutes to stop; the parent ends Java


if __name__ == "__main__":
    main()
