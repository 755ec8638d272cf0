"""A fourth engine is one class: it says which tasks it accepts, and computes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.composite import typed
from daybreak.spark.sql.forms import Composable
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.in_driver import SparkJob
from daybreak.spark.tasks.shapes import of_rows
from daybreak.spark.tasks.task import Leaves, Runnable, Task, TaskResult
from daybreak.spark.tasks.worker_session import WorkerSession

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = pa.table({"n": pa.array([1, 2, 3], pa.int32()), "text": ["a", None, "c"]})


def queries_of(task: Task) -> Sequence[Runnable]:
    return cast(Sequence[Runnable], task.queries)


class Projections:
    """Queries that keep every row and name columns alone: Arrow has their rows already."""

    def __init__(self) -> None:
        self.computed: list[tuple[str, ...]] = []

    def accepts(self, task: Task, leaves: Leaves) -> bool:
        return not leaves.past_driver and all(map(self._places, queries_of(task)))

    def run(self, task: Task, leaves: Leaves) -> TaskResult:
        queries = queries_of(task)
        self.computed.append(tuple(query.name for query in queries))
        [rows] = leaves.tables.values()
        results = [typed(rows.select(self._places(q)), q.schema) for q in queries]
        return TaskResult(results, "prepared")

    @staticmethod
    def _places(query: Runnable) -> list[int]:
        """Which columns of the stream a query gives; none if it does more than that."""
        form = query.checked.form
        if not isinstance(form, Composable) or form.parts.condition is not None:
            return []
        places = [column.at for column in form.parts.columns if column.at is not None]
        return places if len(places) == len(form.parts.columns) else []


def test_a_fourth_engine_computes_what_it_accepts_and_leaves_the_rest(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = cast(StructType, StructType.fromDDL("n INT, text STRING"))
    checker = Checker(spark, {"s": schema})
    columns = {"some": "text, n", "all": "*", "more": "n + 1"}
    texts = {name: f"SELECT {some} FROM s" for name, some in columns.items()}
    queries = [Runnable(checker.sql(n, sql), cast(Any, None)) for n, sql in texts.items()]
    session = WorkerSession(spark, {"s": schema}, tmp_path / "scratch")
    engines = Engines([fourth := Projections(), SparkJob(session, in_memory=True)])
    spark.createDataFrame(cast(Any, ROWS), schema).createOrReplaceTempView("s")
    leaves = Leaves.of({"s": ROWS})
    for together in (queries[:2], queries):
        results = engines.compute(of_rows(together, queries, {"s": schema}), leaves).results
        for query, result in zip(together, results, strict=True):
            wanted = spark.sql(texts[query.name]).toArrow().cast(query.schema)
            assert isinstance(result, pa.Table)
            assert result.equals(wanted)
    assert (fourth.computed, engines.ways) == ([("some", "all")], {"prepared", "spark-job"})
