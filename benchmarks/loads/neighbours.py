"""Processes that compute all the time, as others on a shared machine do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Ends with whoever has started it, however that ended.
_BUSY = """
import os
parent = os.getppid()
while os.getppid() == parent:
    sum(range(100_000))
"""


@contextmanager
def neighbours(count: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """While this lasts, so many processes want a core each."""
    busy = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield busy
    finally:
        for process in busy:
            process.kill()
            process.wait()
