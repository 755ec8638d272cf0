"""Compiles queries to plans of Spark's, alone and together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.worker_session import WorkerSession
from daybreak.spark.sql.catalyst import Catalyst
from daybreak.spark.sql.composite import Composite, quoted
from daybreak.spark.sql.forms import Form, FunctionBody, aggregates_of, panes_in, parts_of
from daybreak.spark.sql.windows.aggregate import Aggregate
from daybreak.spark.sql.windows.pane_plans import Fill, Merge
from daybreak.spark.sql.windows.together import Together

#: Sets of queries whose common plan is kept.
MOST_COMPILED = 200

T = TypeVar("T")


class CannotShare(Exception):
    """Queries that were to run together cannot; the one that was asked runs alone then."""


class Compiler:
    """Makes the plans of one worker's session; those of several queries once."""

    def __init__(self, session: WorkerSession) -> None:
        self._session = session
        #: What queries run together are compiled to, by kind of plan and queries.
        self._compiled: dict[tuple[object, ...], Any] = {}

    def result(self, query: Runnable, frames: Mapping[str, DataFrame]) -> DataFrame:
        """One query by itself over these rows of its streams."""
        checked, body, session = query.checked, query.checked.body, self._session
        for stream, frame in frames.items():
            frame.createOrReplaceTempView(quoted(stream))
        if isinstance(body, FunctionBody):
            made = body.function(*(session.spark.table(quoted(s)) for s in checked.reads))
            assert body.repeatable is not None
            body.repeatable.confirm(session.catalyst, made)
            return made
        for view, parsed in body.through:
            session.planned(parsed).createOrReplaceTempView(quoted(view))
        return session.planned(body.parsed)

    def composite(self, cell: Sequence[Runnable]) -> Composite:
        """Queries over the rows of one stream as one plan."""
        catalyst = self._session.catalyst
        return self._once(Composite, cell, lambda: Composite(parts_of(forms(cell)), catalyst))

    def composited(self, composite: Composite, frame: DataFrame) -> DataFrame:
        """A composite over these rows of its stream."""
        source = composite.source
        if source.parsed is not None:  # resolved here: a static table may have other rows by now
            frame.createOrReplaceTempView(quoted(composite.stream))
            frame = self._session.planned(source.parsed)
        plan = frame._jdf.queryExecution().analyzed()
        if source.schema and plan.schema().json() != source.schema:
            raise CannotShare("a static table has other columns than when the queries were checked")
        return self._session.planned(composite.over(plan))

    def together(self, queries: Sequence[Runnable]) -> Together:
        """Aggregates over the same windows as one plan."""
        return self._once(Together, queries, lambda: Together(*self._aggregates(queries)))

    def fill(self, queries: Sequence[Runnable]) -> Fill:
        """The plan that makes partials of rows."""
        return self._once(Fill, queries, lambda: Fill(*self._aggregates(queries)))

    def merge(self, queries: Sequence[Runnable]) -> Merge:
        """The plan that makes windows of partials."""
        catalyst = self._session.catalyst
        return self._once(Merge, queries, lambda: Merge(catalyst, panes_in(forms(queries))))

    def _aggregates(self, queries: Sequence[Runnable]) -> tuple[Catalyst, list[Aggregate]]:
        return self._session.catalyst, aggregates_of(forms(queries))

    def _once(self, kind: type[T], queries: Sequence[Runnable], make: Callable[[], T]) -> T:
        # A name may come back with other SQL.
        key = (kind, *((q.name, q.checked.body) for q in queries))
        if key not in self._compiled:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            self._compiled[key] = make()
        found: T = self._compiled[key]
        return found


def forms(queries: Sequence[Runnable]) -> list[Form]:
    return [query.checked.form for query in queries]
