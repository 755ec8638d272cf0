"""Queries given as Python functions on DataFrames: called, checked, and held to one plan."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows it by
from pyspark.sql.types import StructType

from daybreak.model import ConfigError
from daybreak.spark.sql.catalyst import Catalyst, Plan, listed, replaced
from daybreak.spark.sql.composite import is_stream, quoted

#: Takes one DataFrame per stream, in the order of its parameters.
Function: TypeAlias = Callable[..., DataFrame]

_REMEDY = "let it take one DataFrame per stream and return one, without running a job"


def called(
    function: Function, session: SparkSession, schemas: Mapping[str, StructType], place: str
) -> DataFrame:
    """The frame that a function makes of empty streams; ``ConfigError`` if it makes none.

    First it is called with streaming frames: on these Spark refuses every action.
    """
    endless = session.readStream.format("rate").load()
    streaming = [
        endless.select([F.lit(None).cast(f.dataType).alias(f.name) for f in schema.fields])
        for schema in schemas.values()
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own, about a fallback that it then takes
        try:
            function(*streaming)
        except AnalysisException as error:
            if "writeStream.start()" in str(error):
                raise ConfigError(
                    place, "its function starts a job while it is called", _REMEDY
                ) from error
        except Exception:  # noqa: S110 - the call that counts says so too
            pass
    try:
        result: object = function(*(session.table(quoted(stream)) for stream in schemas))
    except Exception as error:
        shown = str(error).strip().split("\n")[0]
        raise ConfigError(
            place, f"its function fails on empty input ({type(error).__name__}: {shown})", _REMEDY
        ) from error
    if not isinstance(result, DataFrame):
        raise ConfigError(
            place, f"its function returns {type(result).__name__}", "return a DataFrame"
        )
    return result


class AnotherPlan(Exception):
    """A function gave another plan than the one that was checked."""


@dataclass(frozen=True)
class Repeatable:
    """The plan of a function when it was checked. Later calls must give the same."""

    plan: Plan
    #: What stands for the rows of each stream when plans are compared.
    leaves: Mapping[str, Plan]

    @classmethod
    def of(cls, catalyst: Catalyst, plan: Plan, leaves: Mapping[str, Plan]) -> Repeatable:
        return cls(_over(catalyst, plan, leaves), leaves)

    def confirm(self, catalyst: Catalyst, frame: DataFrame) -> None:
        """Raises unless the frame differs in its streams' rows alone."""
        found = frame._jdf.queryExecution().analyzed()
        if not self.plan.sameResult(_over(catalyst, found, self.leaves)):
            raise AnotherPlan(
                "its function gave another plan than when it was checked: let it depend on "
                "nothing but the frames it is given"
            )


def _over(catalyst: Catalyst, plan: Plan, leaves: Mapping[str, Plan]) -> Plan:
    """The plan with the same leaf below it for each stream, whatever rows it was made of."""

    def leaf(node: Plan) -> Plan | None:
        for stream, rows in leaves.items():
            if node.nodeName() == "View" and is_stream(node, stream):
                return catalyst.aliased(rows, listed(node.output()))
        return None

    return replaced(plan, leaf, catalyst.seq)
