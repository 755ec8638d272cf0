"""Plans a query once, over leaves whose rows are replaced from train to train."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from daybreak.spark.catalyst import Catalyst, Plan, kind, listed, nodes, replaced
from daybreak.spark.prepared_plans.jvm import Java, TrainPlan, active
from daybreak.spark.prepared_plans.narrow import Reads, columns_read, is_leaf
from daybreak.spark.prepared_plans.single import Single, Unfit

#: Of the session that plans are made in, besides those of the session they are made for.
SETTINGS = {
    # An expression that occurs twice is computed first, even where AND or OR guards it.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
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
_JOINS = ("SortMergeJoinExec", "ShuffledHashJoinExec", "CartesianProductExec")
_AGGREGATES = ("HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec")


class Built(NamedTuple):
    """A query's plan, and whatever knows what to do with its result."""

    frame: DataFrame
    made: Any = None


@dataclass(frozen=True)
class Recipe:
    """How to make a plan."""

    key: Hashable
    #: The rows it reads, by name.
    streams: Mapping[str, StructType]
    build: Callable[[Planner, Mapping[str, DataFrame]], Built]


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


class Planner:
    """Makes plans on one thread, in a session of its own."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        for key, value in SETTINGS.items():
            self.session.conf.set(key, value)
        self.catalyst = Catalyst(self.session)
        context: Any = self.session.sparkContext
        self._jvm = context._jvm
        self._java = Java(self.session)

    def plan(self, recipe: Recipe) -> Planned:
        """Plans a query; ``Unfit`` if it has to be an ordinary job.

        Raises whatever Spark raises where it cannot plan the query at all.
        """
        streams = recipe.streams
        with active(self.session):
            frames = {name: self._leaf(i, s) for i, (name, s) in enumerate(streams.items())}
            result, made = recipe.build(self, frames)
            optimised = result._jdf.queryExecution().optimizedPlan()
            if not optimised.deterministic():
                raise Unfit("an expression is not deterministic")
            leaves = _leaves(streams, columns_read(optimised))
            executed = self._narrowed(optimised, streams, leaves)
            single = Single(self._jvm, self.catalyst.seq)
            plan = single.of(executed)
            files = [self._status(listed) for listed in single.files]
            # Static tables are read here, and broadcast.
            rdd = self._java.with_stages(plan).execute()
            train_plan = self._java.train_plan(rdd, result._jdf.schema(), self._settings(), files)
        return Planned(_shape(plan), leaves, train_plan, _layout(result.schema), made)

    def _narrowed(
        self, optimised: Plan, streams: Mapping[str, StructType], leaves: Sequence[Leaf]
    ) -> Plan:
        """The physical plan, over leaves that have only the columns that are read."""
        schemas = list(streams.values())

        def narrow(plan: Plan) -> Plan | None:
            if not is_leaf(plan):
                return None
            number, output = plan.rdd().number(), listed(plan.output())
            reads = leaves[number].reads
            fields = [schemas[number].fields[at] for at in reads]
            rows = self._leaf(number, StructType(fields))._jdf.queryExecution().analyzed()
            return self.catalyst.aliased(rows, [output[at] for at in reads])

        plan = replaced(optimised, narrow, self.catalyst.seq)
        plan.setAnalyzed()
        return self.catalyst.frame(plan, self.session)._jdf.queryExecution().executedPlan()

    def _leaf(self, number: int, schema: StructType) -> DataFrame:
        java = self.session._jsparkSession
        columns = java.parseDataType(schema.json())
        rows = self._java.train(number, columns)
        return DataFrame(java.internalCreateDataFrame(rows, columns, False), self.session)

    def _settings(self) -> Any:
        """All settings: tasks read them from their own properties."""
        settings = self._jvm.java.util.Properties()
        known = self.session._jsparkSession.sessionState().conf().getAllConfs()
        converters = getattr(self._jvm, "scala.jdk.javaapi.CollectionConverters")
        settings.putAll(converters.asJava(known))
        return settings

    def _status(self, listed: Any) -> Any:
        """A file of a static table as it is now."""
        path = listed.getPath()
        context: Any = self.session.sparkContext
        return path.getFileSystem(context._jsc.sc().hadoopConfiguration()).getFileStatus(path)


def _layout(schema: StructType) -> pa.Schema:
    return to_arrow_schema(schema, timezone=ZONE)


def _leaves(streams: Mapping[str, StructType], read: Reads) -> tuple[Leaf, ...]:
    found = []
    for number, (name, schema) in enumerate(streams.items()):
        wanted = read.get(number, set())
        # A plan that reads nothing still needs to know how many rows there are.
        reads = list(range(len(schema.fields))) if wanted is None else sorted(wanted) or [0]
        layout = _layout(StructType([schema.fields[at] for at in reads]))
        found.append(Leaf(name, reads, layout))
    return tuple(found)


def _shape(plan: Any) -> Shape:
    """By what it does to the rows of streams."""
    found = {kind(node) for node in nodes(plan)}
    if found.intersection(_JOINS):
        return "join"
    return "aggregate" if found.intersection(_AGGREGATES) else "rows"


def _distinct(_planner: Planner, frames: Mapping[str, DataFrame]) -> Built:
    return Built(frames["rows"].groupBy("k").count())


#: Small, but with all that a plan takes. ``rows`` has a column ``k``.
PROBE = Recipe("probe", {"rows": StructType([StructField("k", LongType())])}, _distinct)
