"""What the engine has to know of a query on Spark."""

from __future__ import annotations

from daybreak.engine.costs import Kind
from daybreak.engine.queries import QueryFacts
from daybreak.model.specs import QuerySpec
from daybreak.spark.event_time import Grid
from daybreak.spark.jobs.runner import Runnable
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.sql.check import CheckedQuery


def facts_of(runnable: Runnable, spec: QuerySpec, *, prepared: bool) -> QueryFacts:
    """``prepared``: whether small trains run without Spark jobs, where their plan allows it."""
    checked = runnable.checked
    return QueryFacts(
        name=runnable.name,
        reads=tuple(checked.reads),
        kind=_kind(checked, prepared),
        share_key=checked.kin,
        slide_ns=_slide_ns(checked),
        # Rows dropped at a view would be missing in several queries and counted in none.
        spared=checked.windowing is not None or isinstance(runnable.sink, ViewSink),
        on_full=spec.on_full,
    )


def _kind(checked: CheckedQuery, prepared: bool) -> Kind:
    is_sql = checked.parsed is not None
    return "prepared" if prepared and is_sql and checked.job_kind != "filter" else checked.job_kind


def _slide_ns(checked: CheckedQuery) -> int:
    """How far apart its windows close; a band around each row closes with the rows."""
    windowing = checked.windowing
    if windowing is None or not isinstance(windowing.over, Grid):
        return 0
    return 1000 * (windowing.pane_us or windowing.over.slide_us)
