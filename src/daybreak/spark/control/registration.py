"""Queries that are registered while a run is under way become part of it, or no longer are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from daybreak.engine.engine import Engine
from daybreak.engine.events import AddQuery
from daybreak.engine.inbox import Inbox
from daybreak.model.declarations import query_as_json
from daybreak.model.specs import QuerySpec
from daybreak.runtime.monitor import Monitor
from daybreak.spark.control.requests import Start
from daybreak.spark.declared.acceptance import unstarted
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.jobs.facts import facts_of
from daybreak.spark.jobs.inboxes import inbox_of
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.fingerprints import query_fingerprint
from daybreak.spark.sql.forms import OverRetained, OverWindows
from daybreak.spark.tasks.prepared.plans import Plans
from daybreak.spark.tasks.prepared.warmup import WarmUp, warm_cells
from daybreak.spark.tasks.task import Runnable


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
        upcoming = Cursor(self.engine.look().next_seq.get(stream, 0), 0)
        oldest = self.inflow.store.begin(stream)
        return min(oldest, upcoming) if start == "earliest" else upcoming

    def _inbox(self, checked: CheckedQuery, starts: Mapping[str, Cursor]) -> Inbox:
        next_seq = self.engine.look().next_seq
        return inbox_of(
            checked.form, self.inflow.store, starts, end_seq=lambda s: next_seq.get(s, 0)
        )
