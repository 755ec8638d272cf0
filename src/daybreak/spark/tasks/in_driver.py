"""Engines over rows in the driver's memory: by a prepared plan, or as a Spark job."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.tasks.cuts import CutByMask
from daybreak.spark.tasks.prepared.plans import PlanRunner
from daybreak.spark.tasks.task import Cut, LeafRows, Leaves, Since, Task, TaskResult
from daybreak.spark.tasks.worker_session import WorkerSession, is_few


class PreparedPlans:
    """Runs small trains without a Spark job, and longer ones of tasks by row in parts."""

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
        if task.by_row:
            [rows] = leaves.rows.values()
            result = found.made.complete(result, rows.table, found.places)
            since = _since(cut, result, rows, found.places)
        return TaskResult(cut(result), "prepared", since)


class SparkJob:
    """Runs a Spark job whose result the driver collects.

    Over rows in memory where they are few, or over a file however few they are. Over rows in memory
    Spark's optimizer computes expressions by itself, and may compute one that a condition guards.
    The job over a file is authoritative.
    """

    def __init__(self, session: WorkerSession, *, in_memory: bool) -> None:
        self._session = session
        self._in_memory = in_memory

    def accepts(self, task: Task, leaves: Leaves) -> bool:
        if not task.job or leaves.past_driver:
            return False
        return not self._in_memory or any(is_few(rows.table) for rows in leaves.rows.values())

    def run(self, task: Task, leaves: Leaves) -> TaskResult:
        in_memory = {n: self._in_memory and is_few(rows.table) for n, rows in leaves.rows.items()}
        frames = {
            name: self._session.in_memory(rows.table, task.leaves[name], gathers=task.gathers)
            if in_memory[name]
            else self._session.in_file(name, rows.table, task.leaves[name])
            for name, rows in leaves.rows.items()
        }
        built = task.build(self._session.planning, frames)
        result, cut = built.frame.toArrow(), task.cut(built.made)
        all_few = all(in_memory.values())
        since = None
        if task.by_row and all_few:  # a row for each, in their order, which a file may lose
            [rows] = leaves.rows.values()
            since = _since(cut, result, rows)
        return TaskResult(cut(result), "spark-job" if all_few else "spark-job-on-file", since)


def _since(
    cut: Cut, result: pa.Table, rows: LeafRows, places: NDArray[np.int32] | None = None
) -> Since:
    """When the first row that each query keeps had arrived; ``places``: of the result's rows."""
    if rows.arrived is None or not isinstance(cut, CutByMask):
        return None
    return cut.earliest(result, rows.arrived if places is None else rows.arrived[places])
