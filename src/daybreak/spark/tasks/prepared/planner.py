"""Plans a query once, over leaves whose rows are replaced from train to train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from daybreak.spark.session import cloned
from daybreak.spark.sql.catalyst import Catalyst, views_in
from daybreak.spark.sql.static_tables import NO_TABLES, SessionTables, TableVersions
from daybreak.spark.tasks.prepared.jvm import Java, TrainPlan, active
from daybreak.spark.tasks.task import Built, Frames, Planning, Task

#: Of the session that plans are made in, besides those of the session they are made for.
SETTINGS = {
    # Nothing is planned again at run time, and nothing is kept from one train to the next.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
    "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
    # The sides of a union are partitions of their own, whatever they are made of.
    "spark.sql.unionOutputPartitioning": "false",
    "spark.sql.shuffle.partitions": "1",
    # The JVM never compiles a method that is longer: it would run interpreted.
    "spark.sql.codegen.hugeMethodLimit": "8000",
}
ZONE = "UTC"


#: What a plan does that decides how many rows it is good for.
Shape = Literal["rows", "aggregate", "join"]


@dataclass(frozen=True)
class Leaf:
    """The rows of one stream of a plan."""

    name: str
    #: The positions of the columns that are read, and these as Arrow.
    reads: list[int]
    layout: pa.Schema


@dataclass(frozen=True)
class Planned:
    """A plan in the JVM. One thread at a time may run a copy of it."""

    shape: Shape
    leaves: tuple[Leaf, ...]
    plan: TrainPlan
    #: What its result looks like.
    schema: pa.Schema
    made: Any
    #: What it takes for as long as it is kept, static tables included.
    bytes: int
    #: As in its task.
    by_row: bool = False
    masks: int = 0
    #: The declared tables that it holds rows of, and which version.
    tables: Mapping[str, int] = field(default_factory=dict)
    #: The copies of those who run it, by their tags.
    copies: dict[str, TrainPlan] = field(default_factory=dict)


class Planner:
    """Makes plans on one thread, in a session of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = cloned(spark, SETTINGS)
        self._catalyst = Catalyst(self.session)
        self._java = Java(self.session)
        self._tables = SessionTables(self.session, self._catalyst)

    def plan(self, task: Task, tables: TableVersions = NO_TABLES) -> Planned:
        """Plans a query; ``Unfit`` if it has to be an ordinary job.

        Raises whatever Spark raises where it cannot plan the query at all.
        """
        with active(self.session):
            self._tables.use(tables)
            columns = {name: self._columns(schema) for name, schema in task.leaves.items()}
            frames = {name: self._leaf(i, c) for i, (name, c) in enumerate(columns.items())}
            planning = Planning(self.session, self._catalyst, beside=True)
            frame, made = task.build(planning, frames)
            prepared = self._java.preparation(frame._jdf, list(columns.values()))
        leaves = tuple(
            _leaf(name, schema, prepared.reads(number))
            for number, (name, schema) in enumerate(task.leaves.items())
        )
        schema = _layout(frame.schema)
        used = views_in(frame._jdf.queryExecution().analyzed()) if tables.by_name else set()
        holds = {n: v.number for n, v in tables.by_name.items() if n.lower() in used}
        return Planned(
            prepared.shape(), leaves, prepared.plan(), schema, made, int(prepared.bytes()),
            task.by_row, task.masks, holds,
        )  # fmt: skip

    def _columns(self, schema: StructType) -> Any:
        return self.session._jsparkSession.parseDataType(schema.json())

    def _leaf(self, number: int, columns: Any) -> DataFrame:
        rows = self._java.train(number, columns)
        java = self.session._jsparkSession
        return DataFrame(java.internalCreateDataFrame(rows, columns, False), self.session)


def _leaf(name: str, schema: StructType, reads: str) -> Leaf:
    """``reads``: positions of columns, as the JVM has written them."""
    at = [int(one) for one in reads.split(",")] if reads else list(range(len(schema.fields)))
    return Leaf(name, at, _layout(StructType([schema.fields[one] for one in at])))


def _layout(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone=ZONE)


def _distinct(_planning: Planning, frames: Frames) -> Built:
    return Built(frames["rows"].groupBy("k").count())


#: Small, but with all that a plan takes. ``rows`` has a column ``k``.
PROBE = Task("probe", {"rows": StructType([StructField("k", LongType())])}, _distinct)
