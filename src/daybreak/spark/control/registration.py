"""Queries that are registered while a run is under way: checked, admitted, adopted, recalled."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from dataclasses import dataclass

from daybreak.engine.engine import Engine
from daybreak.engine.events import AddQuery
from daybreak.engine.inbox import Inbox
from daybreak.model.declarations import query_as_json, query_from_text
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.specs import QuerySpec
from daybreak.runtime.monitor import Monitor
from daybreak.spark.control.requests import Start
from daybreak.spark.declared.acceptance import unstarted
from daybreak.spark.declared.application import CheckedApplication
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.inboxes import inbox_of
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import box_name
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.fingerprints import query_fingerprint
from daybreak.spark.sql.forms import OverRetained, OverWindows
from daybreak.spark.sql.modes import check_mode, watermarks_of
from daybreak.spark.sql.windows.check import event_times, refuse_long
from daybreak.spark.tasks.prepared.cells import warm_cells
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.prepared.warmup import WarmUp
from daybreak.spark.tasks.runnable import Runnable


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


@dataclass(frozen=True)
class Registration:
    """Makes one more query part of a run, or no longer. On the loop's thread."""

    catalog: Catalog
    engine: Engine
    log: CommitLog
    inflow: Inflow
    monitor: Monitor
    plans: Plans
    warmup: WarmUp

    def add(self, spec: QuerySpec, runnable: Runnable, start: Start) -> AddQuery:
        """Durable first; then everything that knows queries knows it; returns it for the engine."""
        checked = runnable.checked
        if isinstance(checked.form, OverWindows):
            self.inflow.clocks.adopt(spec.name, checked.form.windowing)
        if isinstance(checked.form, OverRetained):
            start = "earliest"
        starts = {stream: self._start(stream, start) for stream in checked.reads}
        mark = query_fingerprint(spec)
        self.log.register_query(spec.name, mark, starts, unstarted(checked.form), reset=True)
        self.log.declare(spec.name, json.dumps(query_as_json(spec)))
        box = self.catalog.adopt(spec, runnable)
        network = self.catalog.network
        self.monitor.adopt(network)
        if isinstance(checked.form, OverWindows):
            self.inflow.late.adopt(spec.name, checked.form.windowing)
        facts = facts_of(runnable, spec, prepared=self.plans.usable)
        return AddQuery(box, facts, network, self._inbox(checked, starts))

    def remove(self, name: str) -> None:
        """A query is gone: nothing is done for it any more, and others may have its sink's path."""
        self.catalog.drop(name)
        self.inflow.clocks.drop(name)
        self.inflow.late.drop(name)

    def warm(self, spec: QuerySpec) -> None:
        """Prepares the plan of the jobs that it shares, now that the engine knows it."""
        catalog = self.catalog
        box, schemas = catalog.network.query_index[spec.name], catalog.application.schemas
        warm_cells(self.warmup, self.engine, catalog.runnables, schemas, [box])

    def _start(self, stream: str, start: Start) -> Cursor:
        # Not the store's end: what lies beyond is announced to all queries, this one included.
        upcoming = Cursor(self.engine.next_seq.get(stream, 0), 0)
        oldest = self.inflow.store.begin(stream)
        return min(oldest, upcoming) if start == "earliest" else upcoming

    def _inbox(self, checked: CheckedQuery, starts: Mapping[str, Cursor]) -> Inbox:
        next_seq = self.engine.next_seq
        return inbox_of(
            checked.form, self.inflow.store, starts, end_seq=lambda s: next_seq.get(s, 0)
        )
