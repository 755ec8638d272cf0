"""What the engine has to know of a query on Spark."""

from __future__ import annotations

from daybreak.engine.queries import QueryFacts
from daybreak.model.specs import QuerySpec
from daybreak.spark.event_time import Grid
from daybreak.spark.jobs.runner import Runnable
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.sql.check import CheckedQuery


def facts_of(runnable: Runnable, spec: QuerySpec) -> QueryFacts:
    checked = runnable.checked
    return QueryFacts(
        name=runnable.name,
        reads=tuple(checked.reads),
        kind=checked.job_kind,
        kin=checked.kin,
        slide_ns=_slide_ns(checked),
        # Rows dropped at a view would be missing in several queries and counted in none.
        spared=checked.windowing is not None or isinstance(runnable.sink, ViewSink),
        on_full=spec.on_full,
    )


def _slide_ns(checked: CheckedQuery) -> int:
    """How far apart its windows close; a band around each row closes with the rows."""
    windowing = checked.windowing
    if windowing is None or not isinstance(windowing.over, Grid):
        return 0
    return 1000 * (windowing.pane_us or windowing.over.slide_us)
