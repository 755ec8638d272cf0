"""The driver's memory while it runs: the heap of its JVM, and that of its Python process."""

from __future__ import annotations

import resource
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVERY_S = 0.5


class HeapWatch:
    """Looks at the heap twice a second; a peak counts what garbage collection left, too."""

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        factory = jvm.java.lang.management.ManagementFactory
        self._heap = factory.getMemoryMXBean()
        pools = list(factory.getMemoryPoolMXBeans())
        self._pools = [p for p in pools if p.getCollectionUsage() is not None]
        self._most_used = self._most_kept = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, name="heap", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(EVERY_S):
            try:
                used = self._heap.getHeapMemoryUsage().getUsed()
                kept = sum(pool.getCollectionUsage().getUsed() for pool in self._pools)
            except Exception:  # the JVM has ended
                return
            self._most_used = max(self._most_used, used)
            self._most_kept = max(self._most_kept, kept)

    def stop(self) -> dict[str, float]:
        """Peaks in MB: of what was used, of what survived a collection, and of Python."""
        self._ended.set()
        self._thread.join()
        python_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return {
            "heap_used_mb": round(self._most_used / 2**20, 1),
            "heap_after_gc_mb": round(self._most_kept / 2**20, 1),
            "python_mb": round(python_kb / 2**10, 1),
        }
