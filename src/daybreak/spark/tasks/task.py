"""Tasks: what a job computes, whichever engine computes it.

A task is a plan over the rows of its *leaves*, and a *cut* that takes the rows of each query out of
the plan's result. ``shapes`` makes the tasks of queries, ``engines`` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.engine.events import Way
from daybreak.spark.log.rows import StagedFile
from daybreak.spark.sinks.sink import Sink
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.tasks.segment_frames import SegmentFrames

#: Plans of several queries that a session keeps. Each is a few hundred objects in the JVM; with
#: half as many, an application of more cells than that plans a cell again for every job (about
#: 10 ms); twice as many cost memory alone.
MOST_BUILT = 200

Frames: TypeAlias = Mapping[str, DataFrame]
Schemas: TypeAlias = Mapping[str, StructType]
#: Gives each query's rows of a task's result. It may travel to executors.
Cut: TypeAlias = Callable[[pa.Table], Sequence[pa.Table]]
#: When the first tuple that gave a row had arrived, by query; None where that is not known.
Since: TypeAlias = Sequence[int | None] | None

T = TypeVar("T")


class Unfit(Exception):
    """A task that cannot run this way; the message says why."""


class Planning:
    """A session in which plans of tasks are made; it keeps those that are costly to make."""

    def __init__(self, spark: SparkSession, catalyst: Catalyst, *, beside: bool = False) -> None:
        """``beside``: results of tasks by row lack the leaf's own columns, which the caller has."""
        self.spark = spark
        self.catalyst = catalyst
        self.beside = beside
        self._built: dict[Hashable, Any] = {}

    def frame(self, plan: Plan) -> DataFrame:
        """The rows of a plan, analysed here."""
        return self.catalyst.frame(plan, self.spark)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Returns what ``make`` gives, made once per key while it is kept."""
        if key not in self._built:
            if len(self._built) >= MOST_BUILT:
                self._built.clear()
            self._built[key] = make()
        found: T = self._built[key]
        return found


@dataclass(frozen=True)
class Runnable:
    """A checked query with all it takes to run it."""

    checked: CheckedQuery
    sink: Sink
    #: The columns of its result as Arrow.
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.checked.arrow_schema())

    @property
    def name(self) -> str:
        return self.checked.name


class Built(NamedTuple):
    """A task's plan over some frames, and the object that knows how its result is laid out."""

    frame: DataFrame
    made: Any = None


def _whole(_made: Any) -> Cut:
    return lambda result: [result]


@dataclass(frozen=True)
class Task:
    """A plan over leaves, and how each query's rows are cut out of its result."""

    #: Equal for tasks with the same plan; the cut may differ.
    key: Hashable
    #: The columns of the rows it reads, by the name of the leaf.
    leaves: Schemas
    build: Callable[[Planning, Frames], Built]
    #: The cut, given ``Built.made``.
    cut: Callable[[Any], Cut] = _whole
    #: The queries in the order in which the cut gives them.
    queries: tuple[Runnable, ...] = ()
    #: Whether a prepared plan, and whether a Spark job may compute it.
    prepared: bool = True
    job: bool = True
    #: Whether its rows are gathered by some key.
    gathers: bool = False
    #: Whether the driver needs the result, wherever the rows are.
    collects: bool = False
    #: Whether each row is computed by itself, so that parts of a train can be. ``made`` is a
    #: ``Composite`` then, and the cut a ``CutByMask``.
    by_row: bool = False
    #: The first columns of such a result that have a bit for each query. Rows without a bit are
    #: left out by a prepared plan.
    masks: int = 0


@dataclass(frozen=True)
class LeafRows:
    """The rows of one leaf: those in the driver's memory, and those that executors read."""

    table: pa.Table
    #: When each row of the table had arrived, where that is known.
    arrived: NDArray[np.int64] | None = None
    large: tuple[Callable[[SegmentFrames], DataFrame], ...] = ()


@dataclass(frozen=True)
class Leaves:
    """The rows of a task."""

    rows: Mapping[str, LeafRows]
    #: Whether executors compute and stage the result, since the job reads large segments.
    past_driver: bool = False
    #: When the oldest tuple had arrived.
    arrival_ns: int = 0

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Leaves:
        """Rows in the driver's memory."""
        return cls({name: LeafRows(table) for name, table in tables.items()})

    @property
    def tables(self) -> dict[str, pa.Table]:
        return {name: rows.table for name, rows in self.rows.items()}


@dataclass(frozen=True)
class Written:
    """A result that executors have staged."""

    files: tuple[StagedFile, ...]
    num_rows: int


#: Rows of a query, or where executors have staged them.
Result: TypeAlias = pa.Table | Written


@dataclass(frozen=True)
class TaskResult:
    """The results of a task's queries, and how they were computed."""

    results: Sequence[Result]
    way: Way
    since: Since = None
