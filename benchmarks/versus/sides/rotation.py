"""Queries take turns: each is started with ``availableNow``, ends, and the next one starts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.versus.sides.common import session, source
from benchmarks.versus.workload import Filter, Task
from pyspark.sql import SparkSession

#: As many at a time as Daybreak has workers.
AT_A_TIME = 2
SETTINGS = (
    "AvailableNow rotation: round after round, critical queries first, "
    f"{AT_A_TIME} at a time; settings as tuned"
)


@contextmanager
def running(task: Task) -> Iterator[Callable[[], dict[str, Any]]]:
    spark = session(task, tuned=True)
    wheel = _Wheel(spark, task)
    threads = [threading.Thread(target=wheel.turn, daemon=True) for _ in range(AT_A_TIME)]
    for thread in threads:
        thread.start()
    yield wheel.check


class _Wheel:
    """Who is next; a query never runs twice at the same time."""

    def __init__(self, spark: SparkSession, task: Task) -> None:
        self._spark = spark
        self._task = task
        self._guard = threading.Lock()
        self._waiting = task.filters
        self._error: Exception | None = None

    def turn(self) -> None:
        try:
            while True:
                with self._guard:
                    query = self._waiting.pop(0) if self._waiting else None
                if query is None:  # fewer queries than threads
                    return
                self._run(query)
                with self._guard:
                    self._waiting.append(query)
        except Exception as error:
            self._error = error

    def check(self) -> dict[str, Any]:
        if self._error is not None:
            raise self._error
        return {}

    def _run(self, query: Filter) -> None:
        (
            source(self._spark, self._task)
            .where(query.condition)
            .select("id", "created_us", "station", "temperature")
            .writeStream.format("parquet")
            .trigger(availableNow=True)
            .option("checkpointLocation", str(self._task.checkpoints / query.name))
            .start(str(self._task.sink(query)))
            .awaitTermination()
        )
