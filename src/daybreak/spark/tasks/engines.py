"""The engines that compute tasks, and the one rule by which a task finds its engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from daybreak.engine.events import Way
from daybreak.spark.tasks.executors import Executors
from daybreak.spark.tasks.in_driver import PreparedPlans, SparkJob
from daybreak.spark.tasks.prepared.plans import PlanRunner
from daybreak.spark.tasks.segment_frames import SegmentFrames
from daybreak.spark.tasks.task import Leaves, Task, TaskResult, Unfit
from daybreak.spark.tasks.worker_session import WorkerSession

#: Tasks that are known to have run on a worker. Where there are more, all count as new again: what
#: Spark compiled for them is gone from its cache of 1 000 classes as well.
MOST_KNOWN = 1000


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
        #: Time for tasks that ran for the first time here, so that Spark planned and compiled them.
        self.cold_ns = 0
        self._known: set[Hashable] = set()

    def begin(self, cancelled: Callable[[], bool] = lambda: False) -> None:
        """A job begins; ``cancelled`` tells whether its time is over."""
        self.ways.clear()
        self.cold_ns = 0
        self._cancelled = cancelled

    def compute(self, tasks: Sequence[Task], leaves: Leaves) -> TaskResult:
        """The result of the first engine that gives one for one of the tasks.

        The tasks are for the same queries, in the order of preference of each engine. An engine
        that does not accept a task, that gives nothing or fails on Spark leaves it to the next; the
        error of the last one is raised.
        """
        began_ns = time.perf_counter_ns()
        result = self._first_result(tasks, leaves)
        run = (result.way, tasks[0].key)
        if run not in self._known:
            self.cold_ns += time.perf_counter_ns() - began_ns
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known.add(run)
        return result

    def _first_result(self, tasks: Sequence[Task], leaves: Leaves) -> TaskResult:
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


def worker_engines(
    session: WorkerSession,
    frames: SegmentFrames,
    prepared: PlanRunner | None,
    number: Callable[[], str],
) -> Engines:
    """The engines of a worker; ``number``: of its present job, under which executors stage."""
    by_plan = [] if prepared is None else [PreparedPlans(session, prepared)]
    return Engines(
        [
            *by_plan,
            SparkJob(session, in_memory=True),
            SparkJob(session, in_memory=False),
            Executors(session, frames, number),
        ]
    )
