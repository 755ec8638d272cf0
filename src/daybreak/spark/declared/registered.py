"""Queries that are registered while a run is under way: checked as at the start, and recalled."""

from __future__ import annotations

from collections.abc import Container

from daybreak.model.declarations import query_from_text
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import box_name
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.forms import OverWindows
from daybreak.spark.sql.streaming import check_mode, watermarks_of
from daybreak.spark.sql.windows.check import event_times, refuse_long
from daybreak.spark.tasks.task import Runnable


def check_query(application: CheckedApplication, spec: QuerySpec, rundir: RunDirectory) -> Runnable:
    """Checks a query as at the start; nothing is changed."""
    if spec.cls not in application.network.class_index:
        remedy = suggestion(spec.cls, application.network.class_index)
        raise ConfigError(spec.place, f"class {spec.cls!r} is not declared", remedy)
    if not 0 < spec.weight <= 1:
        raise ConfigError(spec.place, f"weight {spec.weight}", "give one in (0, 1]")
    if spec.name in application.streams:
        raise ConfigError(spec.place, "a stream has the same name", "rename one of them")
    times = event_times(application.streams, application.schemas)
    watermarks = watermarks_of(application.streams)
    checker = Checker(application.spark, application.schemas, times, watermarks=watermarks)
    checked = checker.sql(spec.name, spec.sql or "", spec.place, spec.mode)
    check_mode(checked, spec, application.streams)
    for stream in checked.reads:
        is_view = application.streams[stream].format == VIEW
        if is_view and box_name(stream) not in application.checked:
            raise ConfigError(
                spec.place,
                f"reads view {stream!r}, which is not computed: no declared query reads it",
                "declare this query in the pipeline and start again, or read its streams",
            )
    if isinstance(checked.form, OverWindows):
        refuse_long(checked.form.windowing, spec.place, application.max_window_us)
    assert spec.sink is not None
    others = [s for name, s in application.specs.items() if name != spec.name]
    refuse_overlaps(
        [*others, spec],
        application.streams.values(),
        application.folder,
        rundir.root,
        application.store,
    )
    sink = make_sink(
        spec.name, spec.sink, application.folder, rundir.staging, place=spec.place,
        schema=checked.arrow_schema(), mode=checked.sink_mode,
    )  # fmt: skip
    return Runnable(checked, sink)


def recall(catalog: Catalog, log: CommitLog, rundir: RunDirectory, forget: Container[str]) -> None:
    """Queries that were registered in an earlier run belong to this one too."""
    for name, text in log.declarations().items():
        if name in catalog.application.checked or name in forget:
            continue  # the pipeline declares it by now, or nobody wants it any more
        try:
            spec = query_from_text(name, text)
            runnable = check_query(catalog.application, spec, rundir)
        except ConfigError as error:
            remedy = f"{error.remedy}; it was registered at run time: --forget {name} drops it"
            raise ConfigError(error.place, error.finding, remedy) from error
        catalog.adopt(spec, runnable)
