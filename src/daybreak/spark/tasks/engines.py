"""The engines that compute tasks, and the one rule by which a task finds its engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from daybreak.engine.events import Way
from daybreak.spark.tasks.task import Leaves, Task, TaskResult, Unfit


class TaskEngine(Protocol):
    """A way to compute tasks."""

    def accepts(self, task: Task, leaves: Leaves) -> bool:
        """Tells whether the engine is worth a try; this asks nothing of Spark."""

    def run(self, task: Task, leaves: Leaves) -> TaskResult | None:
        """The results of the task's queries; None if the task turns out not to fit.

        Raises whatever Spark raises.
        """


class Engines:
    """The engines of one worker, in the order in which they are tried."""

    def __init__(self, engines: Sequence[TaskEngine]) -> None:
        self._engines = engines
        #: How the tasks of the present job were computed.
        self.ways: set[Way] = set()
        self._cancelled: Callable[[], bool] = lambda: False

    def begin(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """A job begins; ``cancelled`` tells whether its time is over."""
        self.ways.clear()
        self._cancelled = cancelled

    def compute(self, tasks: Sequence[Task], leaves: Leaves) -> TaskResult:
        """The result of the first engine that gives one for one of the tasks.

        The tasks are for the same queries, in the order of preference of each engine. An engine
        that does not accept a task, that gives nothing or fails on Spark leaves it to the next; the
        error of the last one is raised.
        """
        error: Exception = Unfit("no engine accepts it")
        for engine in self._engines:
            for task in tasks:
                if not engine.accepts(task, leaves):
                    continue
                try:
                    outcome = engine.run(task, leaves)
                except (PySparkException, Py4JError) as failed:
                    if self._cancelled():
                        raise
                    error = failed
                    continue
                if outcome is not None:
                    self.ways.add(outcome.way)
                    return outcome
        raise error
