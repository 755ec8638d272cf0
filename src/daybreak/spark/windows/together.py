"""Window aggregates over the same windows and keys as one SQL text.

Each aggregate function counts only the rows of its own query, ``FILTER (WHERE ...)``, and a flag
tells in which groups a query has rows at all. One text over the rows of the windows; or, from
panes, one that makes the partials of all queries and one that merges them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

from daybreak.spark.composite import quoted
from daybreak.spark.windows.aggregate import Aggregate, Call, filter_clause

if TYPE_CHECKING:
    from daybreak.spark.windows.panes import Panes

#: The rows of a stream with the end of their pane, and the watermark that they missed.
PANED, PANE, LATE = "__paned", "__pane", "__late"
#: Partials, each once for every window it belongs to.
PARTIALS, WINDOW = "__partials", "window"


def _flag(query: int) -> str:
    return f"__in{query}"


def _kept(aggregate: Aggregate) -> str:
    """Whether a group has a row of this query."""
    if aggregate.condition is None:
        return "TRUE"
    return f"count(1){filter_clause(aggregate.condition)} > 0"


def _where(aggregates: Sequence[Aggregate]) -> str:
    """Rows that one of the queries keeps."""
    conditions = [a.condition for a in aggregates]
    given = [f"({condition})" for condition in conditions if condition is not None]
    return f" WHERE {' OR '.join(given)}" if len(given) == len(conditions) else ""


class _Results:
    """The result columns of several aggregates in one table, and each one's own result."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self._aggregates = aggregates
        self._place = [{c.name: j for j, c in enumerate(a.columns)} for a in aggregates]

    def _column(self, query: int, name: str) -> str:
        return f"__c{query}_{self._place[query][name]}"

    def _listed(self, query: int, kept: str, texts: Iterable[str]) -> list[str]:
        named = [f"{text} AS __c{query}_{j}" for j, text in enumerate(texts)]
        return [f"{kept} AS {_flag(query)}", *named]

    def _with_having(self, inner: str) -> str:
        """Takes the flag from groups that HAVING leaves out."""
        conditions = {i: a.having for i, a in enumerate(self._aggregates) if a.having is not None}
        if not conditions:
            return inner
        flags = []
        for i in range(len(self._aggregates)):
            having = conditions.get(i)
            flag = _flag(i)
            if having is not None:
                flag += f" AND ({having.over(partial(self._column, i))})"
            flags.append(f"{flag} AS {_flag(i)}")
        columns = [f"__c{i}_{j}" for i, place in enumerate(self._place) for j in place.values()]
        return f"SELECT {', '.join([*flags, *columns])} FROM ({inner})"  # noqa: S608

    def cut(self, result: pa.Table, schemas: Sequence[pa.Schema]) -> list[pa.Table]:
        """Each query's rows, typed as its own result would be."""
        found = []
        for i, (aggregate, schema) in enumerate(zip(self._aggregates, schemas, strict=True)):
            mine = result.select([self._column(i, name) for name in aggregate.selected])
            mine = mine.filter(result[_flag(i)], null_selection_behavior="drop")
            found.append(mine.rename_columns(list(aggregate.selected)).cast(schema))
        return found


class Together(_Results):
    """Aggregates over the rows of their stream."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        super().__init__(aggregates)
        self.stream = aggregates[0].stream
        listed = [
            column
            for i, aggregate in enumerate(aggregates)
            for column in self._listed(i, _kept(aggregate), _own_calls(aggregate))
        ]
        source = f"{quoted(self.stream)}{_where(aggregates)}"
        inner = f"SELECT {', '.join(listed)} FROM {source} GROUP BY {aggregates[0].grouping}"  # noqa: S608
        self.sql = self._with_having(inner)


def _own_calls(aggregate: Aggregate) -> list[str]:
    """The texts of the columns where each call counts only the rows of this query."""

    def own(call: Call) -> str:
        return call.head + filter_clause(aggregate.condition, call.only)

    return [column.with_calls(own) for column in aggregate.columns]


class Fill:
    """The partials of several aggregates, from rows with their panes."""

    def __init__(self, panes: Sequence[Panes]) -> None:
        self._panes = panes
        aggregates = [one.aggregate for one in panes]
        self._by = [PANE, LATE, *aggregates[0].plain_keys]
        listed = list(self._by)
        for i, one in enumerate(panes):
            listed.append(f"{_kept(one.aggregate)} AS {_flag(i)}")
            condition = one.aggregate.condition
            listed += [f"{p.text(condition)} AS __p{i}_{k}" for k, p in enumerate(one.partials)]
        source = f"{PANED}{_where(aggregates)}"
        self.sql = f"SELECT {', '.join(listed)} FROM {source} GROUP BY {', '.join(self._by)}"  # noqa: S608

    @property
    def partial_sql(self) -> str:
        """The partials of the first alone, under the names that they are kept by."""
        [one] = self._panes
        named = [f"__p0_{k} AS __p{k}" for k in range(len(one.partials))]
        return f"SELECT {', '.join([*self._by, *named])} FROM ({self.sql})"  # noqa: S608

    def cut(self, result: pa.Table) -> list[pa.Table]:
        """Each query's partials."""
        keys = result.column_names[: len(self._by)]
        found = []
        for i, one in enumerate(self._panes):
            held = [f"__p{i}_{k}" for k in range(len(one.partials))]
            mine = result.select([*keys, *held]).filter(result[_flag(i)])
            mine = mine.rename_columns([*keys, *(f"__p{k}" for k in range(len(held)))])
            found.append(mine.select(one.partial_schema.names))
        return found


class Merge(_Results):
    """The windows of several aggregates, from their partials."""

    def __init__(self, panes: Sequence[Panes]) -> None:
        super().__init__([one.aggregate for one in panes])
        self._panes = panes
        keys = panes[0].aggregate.plain_keys
        listed = []
        for i, one in enumerate(panes):
            texts = [re.sub(r"\b__p(\d+)\b", rf"__p{i}_\1", text) for _, text in one.merging]
            listed += self._listed(i, f"count({_flag(i)}) > 0", texts)
        by = ", ".join([WINDOW, *keys])
        self.sql = self._with_having(f"SELECT {', '.join(listed)} FROM {PARTIALS} GROUP BY {by}")  # noqa: S608

    @property
    def _key_fields(self) -> list[StructField]:
        panes = self._panes[0]
        fields = panes.partial_schema.fields
        return fields[2 : len(fields) - len(panes.partials)]

    @property
    def schema(self) -> StructType:
        """The columns of ``rows``."""
        ends = [StructField(name, TimestampType()) for name in ("start", "end")]
        fields = [*self._key_fields, StructField(WINDOW, StructType(ends))]
        for i, one in enumerate(self._panes):
            fields.append(StructField(_flag(i), BooleanType()))
            for k in range(len(one.partials)):
                held = one.partial_schema[f"__p{k}"]
                fields.append(StructField(f"__p{i}_{k}", held.dataType))
        return StructType(fields)

    def rows(self, partials: Sequence[pa.Table]) -> pa.Table:
        """The partials of all queries with their windows, each in columns of its own."""
        keys = [field.name for field in self._key_fields]
        parts = []
        for i, (one, table) in enumerate(zip(self._panes, partials, strict=True)):
            held = [f"__p{k}" for k in range(len(one.partials))]
            mine = table.select([*keys, WINDOW, *held])
            mine = mine.rename_columns([*keys, WINDOW, *(f"__p{i}_{k}" for k in range(len(held)))])
            parts.append(mine.append_column(_flag(i), pa.array(np.ones(mine.num_rows, bool))))
        return pa.concat_tables(parts, promote_options="default").select(self.schema.names)
