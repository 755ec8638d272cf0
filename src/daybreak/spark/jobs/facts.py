"""What the engine has to know of a query on Spark."""

from __future__ import annotations

from daybreak.engine.costs import Kind
from daybreak.engine.queries import QueryFacts
from daybreak.model.specs import QuerySpec
from daybreak.spark.log.event_time import Grid, Windowing
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.forms import Form, OverRows, OverState, OverWindows, PanedAggregate, SqlBody
from daybreak.spark.tasks.task import Runnable


def facts_of(runnable: Runnable, spec: QuerySpec, *, prepared: bool) -> QueryFacts:
    """``prepared``: whether small trains run without Spark jobs, where their plan allows it."""
    checked, form = runnable.checked, runnable.checked.form
    return QueryFacts(
        name=runnable.name,
        reads=tuple(checked.reads),
        kind=_kind(checked, prepared),
        share_key=form.share_key,
        answers="windows" if isinstance(form, OverWindows) else "rows",
        slide_ns=_slide_ns(form),
        # Rows dropped at a view would be missing in several queries and counted in none.
        # A whole result is of all that is retained, whatever is dropped of what waits.
        spared=not isinstance(form, OverRows) or isinstance(runnable.sink, ViewSink),
        # What Spark has planned to read cannot be taken back.
        on_full="block" if isinstance(form, OverState) else spec.on_full,
    )


def _kind(checked: CheckedQuery, prepared: bool) -> Kind:
    is_sql, kind = isinstance(checked.body, SqlBody), checked.form.job_kind
    small = is_sql and kind != "filter" and isinstance(checked.form, OverRows | OverWindows)
    return "prepared" if prepared and small else kind


def _slide_ns(form: Form) -> int:
    """How far apart its windows close; a band around each row closes with the rows."""
    match form:
        case PanedAggregate(panes=panes):
            return 1000 * panes.width_us
        case OverWindows(Windowing(over=Grid(slide_us=slide_us))):
            return 1000 * slide_us
    return 0
