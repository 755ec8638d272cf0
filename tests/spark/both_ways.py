"""Every train through its prepared plan and as an ordinary job, in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.windows.logs import bag

from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.static_tables import TableVersions
from daybreak.spark.tasks.prepared.plans import PlanRunner
from daybreak.spark.tasks.prepared.train_runs import Output
from daybreak.spark.tasks.task import Planning, Task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BothWays:
    """Compares the results of the two ways, for every train of every worker."""

    def __init__(self, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trains = 0
        #: Queries whose results differ.
        self.different: list[object] = []
        self._spark = spark
        prepared = PlanRunner.run

        def run(
            runner: PlanRunner,
            task: Task,
            tables: Mapping[str, pa.Table],
            static: TableVersions | None = None,
        ) -> Output | None:
            found = prepared(runner, task, tables, static)
            if found is not None:
                self.trains += 1
                if not _agree(found, self._ordinary(task, tables), task.masks):
                    self.different.append(task.key)
            return found

        monkeypatch.setattr(PlanRunner, "run", run)

    def _ordinary(self, task: Task, tables: Mapping[str, pa.Table]) -> pa.Table:
        session = type(self._spark)(
            self._spark.sparkContext, self._spark._jsparkSession.cloneSession()
        )
        frames = {}
        for name, schema in task.leaves.items():
            data: Any = tables[name].combine_chunks() if tables[name].num_columns else []
            frames[name] = session.createDataFrame(data, schema).coalesce(1)
        planning = Planning(session, Catalyst(session), beside=True)
        return task.build(planning, frames).frame.toArrow()


def _agree(found: Output, ordinary: pa.Table, masks: int) -> bool:
    """An ordinary job also has the rows that no query keeps: those without a bit in any mask."""
    if found.places is None:
        return bag(found.table) == bag(ordinary)
    places = pa.array(found.places)
    kept = np.any([ordinary.column(i).to_numpy() != 0 for i in range(masks)], axis=0)
    return found.table.equals(ordinary.take(places)) and np.array_equal(
        places, np.flatnonzero(kept)
    )
