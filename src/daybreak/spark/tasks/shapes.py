"""The tasks of queries: one query by itself, and the shapes in which several share a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from daybreak.spark.log.event_time import ANCHORS, Band
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.composite import Composite, masks_of, quoted
from daybreak.spark.sql.forms import (
    Composable,
    FunctionBody,
    OverRetained,
    OverState,
    OverWindows,
    PanedAggregate,
    SqlBody,
    aggregates_of,
    panes_in,
    parts_of,
)
from daybreak.spark.sql.windows.pane_plans import CutPartials, Fill, Merge, merged_schema
from daybreak.spark.sql.windows.together import CutTogether, Together
from daybreak.spark.tasks.cuts import CutByMask, CutOne
from daybreak.spark.tasks.task import Built, Cut, Frames, Planning, Runnable, Schemas, Task, Unfit

#: The leaf of a task whose rows are not those of one stream as they are.
ROWS = "rows"


def of_rows(queries: Sequence[Runnable], cell: Sequence[Runnable], schemas: Schemas) -> list[Task]:
    """Lists the tasks of a job over rows, in the order in which engines try them.

    ``queries`` are some of a cell, whose common plan is prepared; which of them a job has changes
    from job to job. The Spark job of one query is its own: it is authoritative.
    """
    alone = of_query(queries[0], schemas)
    if not isinstance(queries[0].checked.form, Composable):
        return [alone]
    common = of_composite(queries, cell, schemas)
    if len(queries) > 1:
        return [common]
    return [replace(common, job=False), replace(alone, prepared=len(cell) > 1)]


def of_windows(queries: Sequence[Runnable], schemas: Schemas) -> Task:
    """Returns the task of a job over the rows of windows."""
    return of_query(queries[0], schemas) if len(queries) == 1 else of_together(queries, schemas)


def of_cell(cell: Sequence[Runnable], schemas: Schemas) -> list[Task]:
    """The tasks whose prepared plans jobs of a cell take; none for functions."""
    checked = cell[0].checked
    if isinstance(checked.body, FunctionBody):
        return []
    match checked.form:
        case OverRetained() | OverState():  # not over rows of a train
            return []
        case PanedAggregate():
            return [of_fill(cell), of_merge(cell)]
        case OverWindows():
            return [of_windows(cell, schemas)]
        case _:
            return of_rows(cell, cell, schemas)[:1]


def of_query(query: Runnable, schemas: Schemas) -> Task:
    """A query by itself, as it was parsed, or as its function makes it."""
    checked, body = query.checked, query.checked.body

    def build(planning: Planning, frames: Frames) -> Built:
        _register(frames)
        if isinstance(body, FunctionBody):
            made = body.function(*(planning.spark.table(quoted(s)) for s in checked.reads))
            assert body.repeatable is not None
            body.repeatable.confirm(planning.catalyst, made)
            return Built(made)
        for view, parsed in body.through:
            planning.frame(parsed).createOrReplaceTempView(quoted(view))
        return Built(planning.frame(body.parsed))

    whole = isinstance(checked.form, OverRetained)
    return Task(
        key=(query.name, body.text if isinstance(body, SqlBody) else None),
        leaves={name: schemas[name.removeprefix(ANCHORS)] for name in _names(query)},
        build=build,
        cut=lambda _made: CutOne(query.schema),
        queries=(query,),
        prepared=isinstance(body, SqlBody) and not whole,
        gathers=whole or isinstance(checked.form, OverWindows),
        collects=whole,
    )


def of_composite(queries: Sequence[Runnable], cell: Sequence[Runnable], schemas: Schemas) -> Task:
    """Filters of one stream, or queries over the same join of it with static tables."""
    parts = parts_of(query.checked.form for query in cell)
    source, key = parts[0].source, _key("composite", cell)
    place = {query.name: at for at, query in enumerate(cell)}
    wanted = {place[query.name]: query.schema for query in queries}

    def build(planning: Planning, frames: Frames) -> Built:
        composite = planning.once(key, lambda: Composite(parts, planning.catalyst))
        if source.parsed is None:
            rows = _analysed(frames[source.stream])
            plan = composite.beside(rows) if planning.beside else composite.over(rows)
        else:  # resolved here: a static table may have other rows by now
            _register(frames)
            rows = planning.frame(source.parsed)._jdf.queryExecution().analyzed()
            if rows.schema().json() != source.schema:
                raise Unfit("a static table has other columns than when the queries were checked")
            plan = composite.over(rows)
        return Built(planning.frame(plan), composite)

    by_row = source.parsed is None
    return Task(
        key=key,
        leaves={source.stream: schemas[source.stream]},
        build=build,
        cut=lambda made: CutByMask(made.cutter.without_expressions(), wanted),
        queries=tuple(queries),
        by_row=by_row,
        masks=masks_of(parts) if by_row else 0,
    )


def of_together(queries: Sequence[Runnable], schemas: Schemas) -> Task:
    """Aggregates over the same windows and keys, from the rows of their stream."""
    aggregates = aggregates_of(query.checked.form for query in queries)
    leaf = {aggregates[0].stream: schemas[aggregates[0].stream]}
    return _gathering("together", queries, leaf, lambda make: Together(make, aggregates))


def of_fill(queries: Sequence[Runnable]) -> Task:
    """The partials of panes, from rows with their panes."""
    aggregates = aggregates_of(query.checked.form for query in queries)
    panes = panes_in(query.checked.form for query in queries)
    keys = tuple(field.name for field in panes[0].key_fields)
    cut = CutPartials(keys, tuple(len(one.partials) for one in panes))
    leaf = {ROWS: panes[0].paned_schema}
    return _gathering("fill", queries, leaf, lambda make: Fill(make, aggregates), cut)


def of_merge(queries: Sequence[Runnable]) -> Task:
    """The windows of partials."""
    panes = panes_in(query.checked.form for query in queries)
    leaf = {ROWS: merged_schema(panes)}
    return _gathering("merge", queries, leaf, lambda make: Merge(make, panes))


def _gathering(
    kind: str,
    queries: Sequence[Runnable],
    leaf: Schemas,
    make: Callable[[Catalyst], Together | Fill | Merge],
    cut: Cut | None = None,
) -> Task:
    """A task over one leaf that several aggregates share."""
    key = _key(kind, queries)
    ends = cut or CutTogether(tuple(query.schema for query in queries))

    def build(planning: Planning, frames: Frames) -> Built:
        made = planning.once(key, lambda: make(planning.catalyst))
        [frame] = frames.values()
        return Built(planning.frame(made.over(_analysed(frame))), made)

    return Task(
        key, leaf, build, lambda _made: ends, tuple(queries),
        gathers=True, collects=kind == "fill",
    )  # fmt: skip


def _names(query: Runnable) -> list[str]:
    """The names by which a query's text reads its streams."""
    windows, reads = query.checked.windows, list(query.checked.reads)
    over = None if windows is None else windows.over
    if isinstance(over, Band) and over.anchor == over.partner:
        reads.append(ANCHORS + over.anchor)
    return reads


def _register(frames: Frames) -> None:
    """Makes them known by their names, for plans that are not analysed yet."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(quoted(name))


def _analysed(frame: Any) -> Plan:
    return frame._jdf.queryExecution().analyzed()


def _key(kind: str, queries: Sequence[Runnable]) -> tuple[object, ...]:
    # A name may come back with other SQL.
    return kind, *((query.name, query.checked.body) for query in queries)
