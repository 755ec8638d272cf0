"""Plans and compiles, in the background, what jobs will need before their rows arrive.

The first job of a query in a fresh JVM takes up to fifty times as long as later ones. A thread
prepares one plan after the other, most important class first, and runs each once over no rows.
It never delays a job: a worker that needs a plan makes it by itself, unless it is under way here.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress

from daybreak.engine.engine import Engine
from daybreak.runtime.eventlog import Emit
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.shapes import of_cell
from daybreak.spark.tasks.task import Runnable, Schemas, Task


class WarmUp:
    """Prepares plans on a thread of its own, until it is closed."""

    def __init__(self, plans: Plans, emit: Emit) -> None:
        self._plans = plans
        self._emit = emit
        self._waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        #: How many plans were asked for, and with how many it is done.
        self.asked = 0
        self.done = 0
        self._thread = threading.Thread(target=self._work, name="warm-up", daemon=True)
        self._thread.start()

    def add(self, tasks: Iterable[Task]) -> None:
        """To be prepared after what was asked for before."""
        if self._plans.runs is None:
            return
        for task in tasks:
            self.asked += 1
            self._waiting.put(task)

    def status(self) -> dict[str, object]:
        """How far it is, and why trains took Spark jobs so far."""
        plans = self._plans
        return {
            "wanted": self.asked,
            "ready": self.done,
            "missing": plans.missing or None,
            "ordinary_because": plans.why(),
        }

    def close(self) -> None:
        """Ends after the plan that is under way."""
        self._closed.set()
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        runner = self._plans.worker("warm-up")
        try:
            self._plans.probe(runner)
            self._announce()
            while (task := self._waiting.get()) is not None and not self._closed.is_set():
                with suppress(Exception):  # the job that needs it finds out, and counts it
                    runner.prepare(task)
                self.done += 1
        finally:
            runner.close()

    def _announce(self) -> None:
        """Once per run: whether this Spark has what it takes."""
        missing = self._plans.missing
        if missing:
            self._emit("ordinary-jobs", f"every train takes a Spark job: {missing}", why=missing)
        else:
            self._emit("prepared-plans", "small trains run without Spark jobs")


def warm_cells(
    warmup: WarmUp,
    engine: Engine,
    queries: Sequence[Runnable],
    schemas: Schemas,
    boxes: Iterable[int],
) -> None:
    """Prepares, in the background, what the jobs of some of the queries take.

    On the loop's thread, or before it runs. The most important class comes first.
    """
    cells, classes = {engine.cell(box) for box in boxes}, engine.look().query_class
    for cell in sorted(cells, key=lambda cell: (classes[cell[0]], cell)):
        warmup.add(of_cell([queries[box] for box in cell], schemas))
