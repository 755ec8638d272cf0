"""The driver's memory while it runs: the heap of its JVM, and that of its Python process.

What a heap holds is known only after a collection, and the collector may not come to old objects
for a whole run: so a collection is asked for every few seconds. Peaks are written to a file as they
change, for a driver that is killed tells nothing afterwards.
"""

from __future__ import annotations

import json
import resource
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S, COLLECT_EVERY_S = 0.5, 5.0


class HeapWatch:
    """Looks at the heap twice a second, and at what is left of it after a collection."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._collect = jvm.java.lang.System.gc
        self._heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean()
        self._path = path
        self._peaks: dict[str, float] = {}
        #: What else is written with the peaks: counters of the run.
        self.counted: Callable[[], dict[str, int]] = dict
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="heap", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        collect_s = 0.0
        while not self._ended.wait(EVERY_S):
            try:
                self._note("heap_used_mb", self._used_mb())
                if time.monotonic() >= collect_s:
                    self._collect()
                    self._note("heap_live_mb", self._used_mb())
                    collect_s = time.monotonic() + COLLECT_EVERY_S
            except Exception:  # the JVM has ended
                return
            python_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            self._note("python_mb", python_kb / 2**10)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps({**self._peaks, **self.counted()}))
            new.replace(self._path)

    def _used_mb(self) -> float:
        return int(self._heap.getHeapMemoryUsage().getUsed()) / 2**20

    def _note(self, name: str, value: float) -> None:
        self._peaks[name] = round(max(value, self._peaks.get(name, 0.0)), 1)

    def stop(self) -> dict[str, float]:
        """Peaks in MB: of what was used, of what a collection left, and of Python."""
        self._ended.set()
        self._thread.join()
        return dict(self._peaks)


def both(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Of two drivers of one run: the higher peaks, and all that was counted."""
    peaks = {name for name in {*one, *other} if name.endswith("_mb")}
    counted = {name for name in {*one, *other} if "through_driver" in name or name == "rows"}
    return {
        **other,
        **{name: max(one.get(name, 0.0), other.get(name, 0.0)) for name in peaks},
        **{name: one.get(name, 0) + other.get(name, 0) for name in counted},
    }
