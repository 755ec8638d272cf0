"""The plans behind panes: one makes partials of rows, one merges partials to windows.

Columns of partials are named by us alone: the pane, the watermark that its rows missed, ``g`` and
the position in the stream for each grouping column, ``p0``, ``p1``, ... for the partials.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from daybreak.spark.log.event_time import US_PER_S, Grid
from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, kind, listed
from daybreak.spark.sql.windows.aggregate import Aggregate, aligned_copies
from daybreak.spark.sql.windows.together import Marks, Results, Together

#: The end of a row's pane, and the watermark that the row missed.
PANE, LATE = "__pane", "__late"
WINDOW = "window"
#: A tumbling window longer than this is computed from panes, too.
LONG_US = 60 * US_PER_S

_STAMPS = StructType([StructField(name, TimestampType()) for name in ("start", "end")])


@dataclass(frozen=True)
class Panes:
    """A window aggregate that is computed from partials."""

    aggregate: Aggregate
    width_us: int
    #: The columns of the stream, then ``PANE`` and ``LATE``.
    paned_schema: StructType
    #: ``PANE``, ``LATE``, the grouping columns, the partials.
    partial_schema: StructType
    #: The function of each partial.
    functions: tuple[str, ...]

    @property
    def stream(self) -> str:
        return self.aggregate.stream

    @property
    def grid(self) -> Grid:
        return self.aggregate.grid

    @property
    def partials(self) -> list[StructField]:
        """The fields of the partials alone."""
        return self.partial_schema.fields[2 + len(self.aggregate.keys) :]

    @property
    def key_fields(self) -> list[StructField]:
        return self.partial_schema.fields[2 : 2 + len(self.aggregate.keys)]


def width_us(grid: Grid) -> int | None:
    """How long a pane is; None where panes are of no use."""
    if not grid.overlaps and grid.length_us <= LONG_US:
        return None
    return gcd(grid.length_us, grid.slide_us, LONG_US)


def panes_of(
    aggregate: Aggregate, catalyst: Catalyst, session: SparkSession, row: StructType
) -> Panes | None:
    """How an aggregate is made of panes; None if they are of no use, or cannot be merged.

    ``row``: the columns of its stream. What the merged partials come to must have the types of
    the aggregate itself.
    """
    width = width_us(aggregate.grid)
    try:
        merging = _Merging(catalyst, aggregate)
    except _Unmergeable:
        return None
    if width is None:
        return None
    functions = tuple(call.aggregateFunction().prettyName() for call in merging.partials)

    def empty(schema: StructType) -> Plan:
        return session.createDataFrame([], schema)._jdf.queryExecution().analyzed()

    columns = [StructField(f"c{at}", f.dataType, f.nullable) for at, f in enumerate(row.fields)]
    ends = [StructField(PANE, LongType(), False), StructField(LATE, LongType(), False)]
    paned = StructType([*columns, *ends])
    filled = catalyst.frame(Fill(catalyst, [aggregate]).over(empty(paned)), session).schema
    held = [f for f in filled.fields if not f.name.startswith("in")]
    partial = StructType([StructField(f.name.replace("p0_", "p"), f.dataType) for f in held])
    panes = Panes(aggregate, width, paned, partial, functions)
    merge = Merge(catalyst, [panes])
    merged = catalyst.frame(merge.over(empty(merged_schema([panes]))), session).schema
    whole = catalyst.frame(Together(catalyst, [aggregate]).over(empty(row)), session).schema
    same = [f.dataType for f in merged.fields] == [f.dataType for f in whole.fields]
    return panes if same else None


class _Unmergeable(Exception):
    """An aggregate function whose partials cannot be merged."""


class _Merging:
    """The partials of an aggregate's functions, and its columns in terms of these."""

    def __init__(self, catalyst: Catalyst, aggregate: Aggregate) -> None:
        self._make = catalyst
        self._known = catalyst.numbering()
        #: Calls of aggregate functions over rows, and the columns that hold their results.
        self.partials: list[Expr] = []
        self.held: list[Expr] = []
        self.columns = aggregate.named(self._merged, catalyst)

    def _merged(self, call: Expr) -> Expr:
        function, make = call.aggregateFunction(), self._make
        if call.isDistinct():
            raise _Unmergeable
        match kind(function), function.prettyName():
            case ("Count", "count"):
                return self._sum(call)
            case ("Min" | "Max" as name, _):
                return make.aggregate(make.make(f"aggregate.{name}", self._holder(call)))
            case ("Sum", "sum") if "INTERVAL" not in function.dataType().sql():
                return make.cast(self._sum(call), function.dataType())
            case ("Average", "avg") if function.dataType().sql() == "DOUBLE":
                return self._mean(call, listed(function.children())[0])
        raise _Unmergeable

    def _sum(self, call: Expr) -> Expr:
        return self._make.aggregate(self._make.make("aggregate.Sum", self._holder(call)))

    def _mean(self, call: Expr, argument: Expr) -> Expr:
        """The sum over the count, each of the partials; null of no value."""
        make = self._make
        wide = make.cast(argument, make.type("double"))
        total = self._sum(make.with_function(call, make.make("aggregate.Sum", wide)))
        several = make.make("aggregate.Count", make.seq([argument]))
        count = self._sum(make.with_function(call, several))
        mean = make.make("Divide", total, make.cast(count, make.type("double")))
        is_some = make.make("GreaterThan", count, make.long(0))
        return make.make("If", is_some, mean, make.null(mean))

    def _holder(self, call: Expr) -> Expr:
        """The column that holds a partial, one for all that ask for the same."""
        key = call.canonicalized()
        number = self._known.get(key)
        if number is None:
            number = len(self.partials)
            self._known.put(key, number)
            self.partials.append(call)
            self.held.append(self._make.attribute(f"p{number}", call))
        return self.held[number]


class Fill:
    """The partials of several aggregates with one share key, from rows with their panes."""

    def __init__(self, catalyst: Catalyst, aggregates: Sequence[Aggregate]) -> None:
        make, aligned = catalyst, aligned_copies(catalyst, aggregates)
        first = aligned[0]
        self._catalyst, self._node = catalyst, first.node
        self._marks = Marks(catalyst, aligned)
        pane, late = (make.attribute(name, make.long(0)) for name in (PANE, LATE))
        self._row = [*first.row, pane, late]
        keys = sorted(first.keys)
        self._grouping = make.seq([pane, late, *(first.row[at] for at in keys)])
        columns = [pane, late, *(make.alias(first.row[at], f"g{at}") for at in keys)]
        for i, aggregate in enumerate(aligned):
            columns.append(make.alias(self._marks.flag(i), f"in{i}"))
            for k, call in enumerate(_Merging(catalyst, aggregate).partials):
                columns.append(make.alias(self._marks.only(i, call), f"p{i}_{k}"))
        self._columns = make.seq(columns)

    def over(self, rows: Plan) -> Plan:
        """All partials of rows as ``Panes.paned_schema`` has them."""
        rows = self._marks.rows(self._catalyst.aliased(rows, self._row))
        return self._catalyst.copied(self._node, self._grouping, self._columns, rows)


class Merge:
    """The windows of several aggregates with one share key, from their partials."""

    def __init__(self, catalyst: Catalyst, panes: Sequence[Panes]) -> None:
        make, aligned = catalyst, aligned_copies(catalyst, [one.aggregate for one in panes])
        first = aligned[0]
        self._catalyst = catalyst
        keys = [first.row[at] for at in sorted(first.keys)]
        self._row = [*keys, first.window]
        columns, flags = [], []
        for i, aggregate in enumerate(aligned):
            inside = make.attribute(f"in{i}", make.true())
            merging = _Merging(catalyst, aggregate)
            self._row += [inside, *merging.held]
            columns.append(merging.columns)
            flags.append(make.aggregate(make.make("aggregate.Max", inside)))
        self._results = Results(catalyst, aligned, [first.window, *keys], columns, flags)

    def over(self, rows: Plan) -> Plan:
        """All results of rows as ``merged_schema`` has them."""
        return self._results.grouped(self._catalyst.aliased(rows, self._row))


def merged_schema(panes: Sequence[Panes]) -> StructType:
    """The columns of what ``Merge`` reads (``merged_rows``)."""
    fields = [*panes[0].key_fields, StructField(WINDOW, _STAMPS)]
    for i, one in enumerate(panes):
        fields.append(StructField(f"in{i}", BooleanType()))
        fields += [StructField(f"p{i}_{k}", f.dataType) for k, f in enumerate(one.partials)]
    return StructType(fields)


def merged_rows(panes: Sequence[Panes], partials: Sequence[pa.Table]) -> pa.Table:
    """The partials of all queries with their windows, each in columns of its own."""
    keys = [field.name for field in panes[0].key_fields]
    parts = []
    for i, (one, table) in enumerate(zip(panes, partials, strict=True)):
        held = [field.name for field in one.partials]
        mine = table.select([*keys, WINDOW, *held])
        mine = mine.rename_columns([*keys, WINDOW, *(f"p{i}_{k}" for k in range(len(held)))])
        parts.append(mine.append_column(f"in{i}", pa.array(np.ones(mine.num_rows, bool))))
    names = merged_schema(panes).names
    return pa.concat_tables(parts, promote_options="default").select(names)


@dataclass(frozen=True)
class CutPartials:
    """Takes each query's partials out of a result of ``Fill``, as ``Panes.partial_schema`` says."""

    #: The grouping columns, and how many partials each query has.
    keys: tuple[str, ...]
    counts: tuple[int, ...]

    def __call__(self, result: pa.Table) -> list[pa.Table]:
        common = [PANE, LATE, *self.keys]
        found = []
        for i, count in enumerate(self.counts):
            mine = result.select([*common, *(f"p{i}_{k}" for k in range(count))])
            mine = mine.filter(result[f"in{i}"], null_selection_behavior="drop")
            found.append(mine.rename_columns([*common, *(f"p{k}" for k in range(count))]))
        return found
