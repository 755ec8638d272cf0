"""Housekeeping on a thread of its own: what must happen now and then, and must not hold jobs up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from daybreak.spark.commitlog import CommitLog
from daybreak.spark.executor import SparkExecutor
from daybreak.spark.settle import Settler
from daybreak.spark.sinks import Sink
from daybreak.spark.standing import said


class Keeper:
    """Calls each task every so many seconds; a task that fails is called again next time."""

    def __init__(self, tasks: Sequence[tuple[float, Callable[[], None]]]) -> None:
        self._tasks = tasks
        #: What the last call of each task that failed said, by its name.
        self.troubles: dict[str, str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="daybreak-keeper", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        due = [time.monotonic() + every_s for every_s, _ in self._tasks]
        while not self._stopping.wait(max(0.0, min(due) - time.monotonic())):
            for i, (every_s, task) in enumerate(self._tasks):
                if time.monotonic() < due[i]:
                    continue
                try:
                    task()
                    self.troubles.pop(task.__name__, None)
                except Exception as error:  # a full disk, perhaps: it may be well next time
                    self.troubles[task.__name__] = said(error)
                due[i] = time.monotonic() + every_s


def redeliver(
    executor: SparkExecutor, log: CommitLog, sinks: Mapping[str, Sink], settler: Settler
) -> None:
    """Brings committed results to sinks that would not take them before, in order."""
    for box, standing in enumerate(executor.standings):
        if not standing.behind or standing.state != "retrying":
            continue
        if executor.now_ns < standing.retry_ns:
            continue
        name = executor.queries[box].name
        failure: Exception | None = None
        try:
            for file in log.undelivered():
                if file.query == name:
                    sinks[name].deliver(file)  # nothing happens where it was delivered before
                    settler.add(file)
        except Exception as error:
            failure = error
        executor.delivered(box, failure).result()
