"""Computes tasks over rows of the driver as Spark jobs whose result the driver collects."""

from __future__ import annotations

from daybreak.spark.tasks.cuts import CutByMask
from daybreak.spark.tasks.task import Leaves, Task, TaskResult
from daybreak.spark.tasks.worker_session import WorkerSession, is_few


class SparkJob:
    """Over rows in memory where they are few, or over a file however few they are.

    Over rows in memory Spark's optimizer computes expressions by itself, and may compute one that a
    condition guards. The job over a file is authoritative.
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
        # One row for each, in their order; but what executors read from a file may lose it.
        if task.by_row and all_few and isinstance(cut, CutByMask):
            [rows] = leaves.rows.values()
            since = None if rows.arrived is None else cut.earliest(result, rows.arrived)
        return TaskResult(cut(result), "spark-job" if all_few else "spark-job-on-file", since)
