"""How the plans of queries are made, alone and together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from daybreak.spark.event_time import ANCHORS
from daybreak.spark.jobs.prepared.jvm import Unfit
from daybreak.spark.jobs.prepared.planner import Built, Planner, Recipe
from daybreak.spark.jobs.windows import with_anchors
from daybreak.spark.sql.catalyst import Plan
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.composite import Composite, masks_of, quoted
from daybreak.spark.sql.forms import (
    Composable,
    FunctionBody,
    OverRetained,
    OverState,
    PanedAggregate,
    SqlBody,
    aggregates_of,
    panes_in,
    parts_of,
)
from daybreak.spark.sql.windows.aggregate import Aggregate
from daybreak.spark.sql.windows.pane_plans import Fill, Merge, Panes, merged_schema
from daybreak.spark.sql.windows.together import Together

#: The name of the rows of a plan that is made of parts.
ROWS = "rows"
Frames = Mapping[str, DataFrame]
Schemas = Mapping[str, StructType]


def of_query(query: CheckedQuery, schemas: Schemas) -> Recipe:
    """A query in SQL by itself, as it was parsed."""
    body = query.body
    assert isinstance(body, SqlBody)

    def build(planner: Planner, frames: Frames) -> Built:
        _register(frames)
        for view, parsed in body.through:
            frame = planner.catalyst.frame(parsed, planner.session)
            frame.createOrReplaceTempView(quoted(view))
        return Built(planner.catalyst.frame(body.parsed, planner.session))

    names = with_anchors(query.windows, dict.fromkeys(query.reads))
    streams = {name: schemas[name.removeprefix(ANCHORS)] for name in names}
    return Recipe((query.name, body.text), streams, build)


def of_composite(cell: Sequence[CheckedQuery], schemas: Schemas) -> Recipe:
    """Filters of one stream, or queries over the same join of it with static tables.

    The result of filters lacks the stream's own columns, and rows that nobody keeps
    (``Composite.complete``).
    """
    parts = parts_of(query.form for query in cell)
    source = parts[0].source

    def build(planner: Planner, frames: Frames) -> Built:
        composite = Composite(parts, planner.catalyst)
        if source.parsed is None:
            plan = composite.beside(_analysed(frames[source.stream]))
        else:
            _register(frames)
            rows = _analysed(planner.catalyst.frame(source.parsed, planner.session))
            if rows.schema().json() != source.schema:
                raise Unfit("a static table has other columns than when the queries were checked")
            plan = composite.over(rows)
        return Built(planner.catalyst.frame(plan, planner.session), composite)

    streams = {source.stream: schemas[source.stream]}
    by_row = source.parsed is None
    masks = masks_of(parts) if by_row else 0
    return Recipe(_key("composite", cell), streams, build, by_row, masks)


def of_together(queries: Sequence[CheckedQuery], schemas: Schemas) -> Recipe:
    """Aggregates over the same windows and keys."""
    aggregates = _aggregates(queries)

    def build(planner: Planner, frames: Frames) -> Built:
        return _over(planner, frames, Together(planner.catalyst, aggregates))

    return Recipe(_key("together", queries), {ROWS: schemas[aggregates[0].stream]}, build)


def of_fill(queries: Sequence[CheckedQuery]) -> Recipe:
    """What makes the partials of panes."""

    def build(planner: Planner, frames: Frames) -> Built:
        return _over(planner, frames, Fill(planner.catalyst, _aggregates(queries)))

    return Recipe(_key("fill", queries), {ROWS: _panes(queries)[0].paned_schema}, build)


def of_merge(queries: Sequence[CheckedQuery]) -> Recipe:
    """What makes windows of partials."""
    panes = _panes(queries)

    def build(planner: Planner, frames: Frames) -> Built:
        return _over(planner, frames, Merge(planner.catalyst, panes))

    return Recipe(_key("merge", queries), {ROWS: merged_schema(panes)}, build)


def of_cell(cell: Sequence[CheckedQuery], schemas: Schemas) -> list[Recipe]:
    """All that jobs of a cell take; nothing for functions."""
    first = cell[0]
    if isinstance(first.body, FunctionBody):
        return []
    match first.form:
        case OverRetained() | OverState():  # not over rows of a train
            return []
        case PanedAggregate():
            return [of_fill(cell), of_merge(cell)]
        case Composable():
            return [of_composite(cell, schemas)]
        case _ if len(cell) == 1:
            return [of_query(first, schemas)]
        case _:
            return [of_together(cell, schemas)]


def _register(frames: Frames) -> None:
    """Makes them known by their names, for plans that are not analysed yet."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(quoted(name))


class _Over(Protocol):
    def over(self, rows: Plan) -> Plan: ...


def _over(planner: Planner, frames: Frames, made: _Over) -> Built:
    plan = made.over(_analysed(frames[ROWS]))
    return Built(planner.catalyst.frame(plan, planner.session), made)


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _key(kind: str, queries: Sequence[CheckedQuery]) -> tuple[object, ...]:
    # A name may come back with other SQL.
    return kind, *((query.name, query.body) for query in queries)


def _aggregates(queries: Sequence[CheckedQuery]) -> list[Aggregate]:
    return aggregates_of(query.form for query in queries)


def _panes(queries: Sequence[CheckedQuery]) -> list[Panes]:
    return panes_in(query.form for query in queries)
