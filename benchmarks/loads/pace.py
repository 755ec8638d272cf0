"""How fast this machine is while something runs: hosts of virtual machines share their cores.

A guest is not always shown what its host takes away, so ``/proc/stat`` is no help. A process does
the same small piece of work again and again and takes the processor time of each. That grows where
another guest uses the core, or where its frequency falls; waiting for a core of this machine does
not count. Compare figures that were taken while as much ran here.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: A run is disturbed if the machine is so many times slower than when its capacity was measured. It
#: is repeated then, up to so many runs in all, and the least disturbed one counts.
DISTURBED, TRIES = 1.15, 3

#: About a hundredth of a core. It ends with whoever has started it, however that ended.
_PIECES = """
import os, sys, time
parent = os.getppid()
while os.getppid() == parent:
    begun = time.process_time_ns()
    sum(range(50_000))
    sys.stdout.write(f"{time.process_time_ns() - begun}\\n")
    sys.stdout.flush()
    time.sleep(0.1)
"""


class Pace:
    """What a piece of work takes, in ms; 0 until it is known."""

    def __init__(self) -> None:
        self.piece_ms = 0.0


@contextmanager
def paced() -> Iterator[Pace]:
    """Takes the mean over this time; it is known when that has ended."""
    pace = Pace()
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _PIECES], stdout=subprocess.PIPE, encoding="ascii"
    )
    assert process.stdout is not None
    first = process.stdout.readline()  # it has started
    try:
        yield pace
    finally:
        process.terminate()
        rest, _ = process.communicate()
        whole = [line for line in (first + rest).splitlines(keepends=True) if line.endswith("\n")]
        pace.piece_ms = sum(map(int, whole)) / len(whole) / 1e6
