"""Computes tasks by prepared plans, without a Spark job."""

from __future__ import annotations

from daybreak.spark.tasks.cuts import CutByMask
from daybreak.spark.tasks.prepared.plans import PlanRunner
from daybreak.spark.tasks.task import Leaves, Task, TaskResult
from daybreak.spark.tasks.worker_session import WorkerSession


class PreparedPlans:
    """Runs small trains, and longer ones of tasks by row in parts."""

    def __init__(self, session: WorkerSession, runner: PlanRunner) -> None:
        self._session = session
        self._runner = runner

    def accepts(self, task: Task, leaves: Leaves) -> bool:
        return task.prepared and not leaves.past_driver

    def run(self, task: Task, leaves: Leaves) -> TaskResult | None:
        """None, with the reason counted, if the plan cannot be made or run."""
        found = self._runner.run(task, leaves.tables, self._session.versions)
        if found is None:
            return None
        cut, result, since = task.cut(found.made), found.table, None
        if task.by_row and isinstance(cut, CutByMask):
            [rows] = leaves.rows.values()
            result = found.made.complete(result, rows.table, found.places)
            if rows.arrived is not None:
                kept = rows.arrived if found.places is None else rows.arrived[found.places]
                since = cut.earliest(result, kept)
        return TaskResult(cut(result), "prepared", since)
