"""The rules for an analysed plan: what it reads and results in, and whether any cut will do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructType, VariantType

from daybreak.model.errors import suggestion
from daybreak.spark.failures import first_line
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.sql.allowlist import Refused, Shape, shape_of, streams_in, subqueries_read
from daybreak.spark.sql.catalyst import Catalyst, Plan, listed
from daybreak.spark.sql.determinism import OPTIMIZER, Determinism
from daybreak.spark.sql.leaves import refuse_moving_rows
from daybreak.spark.sql.plan_nodes import Node, tree_of
from daybreak.spark.sql.row_order import refuse_ordered, refuse_picking
from daybreak.spark.sql.windows.check import windowing_of


@dataclass(frozen=True)
class Analysed:
    """A plan with its subqueries, outermost first: in the JVM and as trees."""

    plans: list[Plan]
    trees: list[Node]
    #: The columns of its result.
    schema: StructType

    @classmethod
    def of(cls, frame: DataFrame) -> Analysed:
        plans = _with_subqueries(frame._jdf.queryExecution().analyzed())
        return cls(plans, [tree_of(plan) for plan in plans], frame.schema)

    @property
    def plan(self) -> Plan:
        """The outermost one."""
        return self.plans[0]

    @property
    def has_subqueries(self) -> bool:
        return len(self.plans) > 1


@dataclass(frozen=True)
class PlanRules:
    """The rules over one set of streams."""

    catalyst: Catalyst
    determinism: Determinism
    #: The declared name of each stream by the lower-case name of its view.
    streams: Mapping[str, str]
    #: The column with the event time, of each stream that declares one.
    times: Mapping[str, str]

    def linear(self, analysed: Analysed) -> tuple[Shape, Windowing | None]:
        """What a plan does, and its windows; ``Refused`` unless any cut gives the same rows."""
        refuse_moving_rows(analysed.plans, analysed.trees, self.streams)
        shape = self._shape(analysed)
        self._reads_some(shape.reads)
        self.repeatable(analysed)
        return shape, windowing_of(shape, analysed.schema.names, self.times)

    def reads(self, analysed: Analysed) -> frozenset[str]:
        """The streams that any repeatable plan reads; ``Refused`` if it is not one."""
        refuse_moving_rows(analysed.plans, analysed.trees, self.streams)
        self.repeatable(analysed)
        plan, *inner = analysed.trees
        return self._reads_some(streams_in(plan, inner, self.streams))

    def whole(self, analysed: Analysed) -> frozenset[str]:
        """The streams that a plan over all retained rows reads; ``Refused`` if it may not run."""
        reads = self.reads(analysed)
        refuse_picking(analysed.plans)
        return reads

    def repeatable(self, analysed: Analysed) -> None:
        """``Refused`` if a plan gives other rows each time, or rows that no sink can hold."""
        self.determinism.check(analysed.plans, analysed.trees)
        refuse_ordered(analysed.trees)
        check_columns(analysed.schema)

    def _reads_some(self, reads: frozenset[str]) -> frozenset[str]:
        if not reads:
            raise Refused("reads no stream", suggestion("", self.streams.values()))
        return reads

    def _shape(self, analysed: Analysed) -> Shape:
        plan, *inner = analysed.trees
        try:
            return shape_of(plan, inner, self.streams, self.times)
        except Refused as refused:
            if not subqueries_read(plan, inner, self.streams):
                raise
            joins = self._as_joins(analysed.plan)
            if joins is None:
                raise
            try:
                return shape_of(joins[0], joins[1:], self.streams, self.times)
            except Refused:
                raise refused from None

    def _as_joins(self, plan: Plan) -> list[Node] | None:
        """The plan with IN and EXISTS over streams as the semi and anti joins that Spark makes.

        Whether such joins keep to windows is then asked as of any other; what runs is the query as
        written. None where Spark makes no joins of them.
        """
        try:
            for rule in ("PullupCorrelatedPredicates", "RewritePredicateSubquery"):
                plan = self.catalyst.scala_object(f"{OPTIMIZER}.{rule}").apply(plan)
        except (PySparkException, Py4JError):
            return None
        return [tree_of(tree) for tree in _with_subqueries(plan)]


def _with_subqueries(plan: Plan) -> list[Plan]:
    return [plan, *listed(plan.subqueriesAll())]


def check_columns(schema: StructType) -> None:
    """``Refused`` unless each column has a name of its own and a type that can be written."""
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise Refused(f"has two columns {name!r}", "name them apart with AS")
        seen.add(name.lower())
    if not seen:
        raise Refused("has no columns", "select at least one")
    for column in schema.fields:
        kinds = _kinds(column.dataType)
        if NullType in kinds:
            raise Refused(f"column {column.name!r} has no type", "cast its NULL to one")
        if VariantType in kinds:  # Arrow has it as a struct that no reader knows as a variant
            raise Refused(
                f"has a column no sink can hold ({column.name!r} is a variant)",
                "take values out of it with variant_get, or write it with to_json",
            )
        try:
            to_arrow_schema(StructType([column]), timezone="UTC")
        except PySparkException as error:
            raise Refused(
                f"has a column no sink can hold ({column.name!r}: {first_line(str(error))})",
                "cast it to a text",
            ) from error


def _kinds(kind: DataType) -> set[type[DataType]]:
    """The classes of a type and of all types in it."""
    match kind:
        case StructType():
            inner = [field.dataType for field in kind.fields]
        case ArrayType():
            inner = [kind.elementType]
        case MapType():
            inner = [kind.keyType, kind.valueType]
        case _:
            inner = []
    return {type(kind)}.union(*(_kinds(one) for one in inner))
