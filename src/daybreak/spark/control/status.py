"""The status of a run, the one format of it: what a terminal, a web page and Python see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from daybreak.engine import story
from daybreak.engine.view import EngineView
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import NS_PER_S
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.snapshot import (
    Edge,
    QueryRow,
    Snapshot,
    Underway,
)
from daybreak.runtime.standing import ChangeLog, Standing
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.undeclared import Undeclared
from daybreak.spark.loop.driver import Driver
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.tasks.task import Runnable
from daybreak.spark.upkeep.maintenance import Maintenance, PeriodicTasks
from daybreak.spark.upkeep.record import Figures

#: A story over the wire has the newest of its lines: about 200 KB of JSON, and several minutes of a
#: query with one job a second. Twice as many fill more screens than anybody reads.
MOST_LINES = 1000


@dataclass(frozen=True)
class StatusReader:
    """Reads the status of a run in its process. Any thread may use it."""

    catalog: Catalog
    driver: Driver
    figures: Figures
    log: CommitLog
    inflow: Inflow
    undeclared: Undeclared
    changes: ChangeLog
    maintenance: Maintenance
    tasks: tuple[PeriodicTasks, ...]
    log_max_bytes: int
    #: How far prepared plans are.
    prepared: Callable[[], Mapping[str, object]] = dict

    def troubles(self) -> dict[str, str]:
        """What maintenance could not do lately, and will try again."""
        found = [self.maintenance.troubles, *(tasks.troubles for tasks in self.tasks)]
        return {what: why for troubles in found for what, why in troubles.copy().items()}

    def snapshot(
        self, jobs_after: int = -1, points_after: int = -1, changes_after: int = -1
    ) -> Snapshot:
        """The status now; of jobs, points and changes only those after the given numbers."""
        figures, view = self.figures, self.driver.engine.view
        standing, queries = self._standing(view), self._queries(view)
        after = jobs_after, points_after, changes_after
        return replace(
            standing.snapshot(self.catalog.application.name, queries, *after),
            streams=self.inflow.status(view.arrived_rows),
            edges=self._edges(view, queries),
            underway=self._underway(),
            troubles=self.troubles(),
            log_bytes=self.inflow.backpressure.unread_bytes,
            log_max_bytes=self.log_max_bytes,
            offsets=self.inflow.kafka.status(),
            undeclared=dict(self.undeclared.until),
            prepared={**self.prepared(), "jobs": dict(figures.monitor.ways)},
            waited={} if figures.waits is None else figures.waits.lost(),
        )

    def _standing(self, view: EngineView) -> Standing:
        figures = self.figures
        return Standing(
            policy=view.policy, workers=view.threads, start_ns=figures.start_ns,
            elapsed_s=figures.elapsed_s, changes=self.changes, view=view,
            monitor=figures.monitor, history=figures.history,
        )  # fmt: skip

    def story(self, query: str) -> dict[str, Any]:
        """What the engine has heard and answered about a query lately; ``ConfigError`` if it is
        not there."""
        if not self.is_query(query):
            known = [row.name for row in self._queries(self.driver.engine.view)]
            raise ConfigError(f"query {query!r}", "is not declared", suggestion(query, known))
        names = [runnable.name for runnable in self.catalog.runnables]
        box = names.index(query)
        lines = self.driver.engine.story(box)
        return {
            "query": query,
            "left_out": max(0, len(lines) - MOST_LINES),
            "lines": [story.as_json(line, box, names) for line in lines[-MOST_LINES:]],
        }

    def query(self, name: str) -> QueryRow:
        """One query now."""
        return next(row for row in self._queries(self.driver.engine.view) if row.name == name)

    def is_query(self, name: str) -> bool:
        """Whether a query of this name is there; else it is a stream's."""
        return any(row.name == name for row in self._queries(self.driver.engine.view))

    def _queries(self, view: EngineView) -> tuple[QueryRow, ...]:
        losses, passed = self.log.losses(), self.inflow.store.driver_rows.queries
        # The catalog may be a moment ahead of the engine.
        known = enumerate(zip(list(self.catalog.runnables), view.states, strict=False))
        shown = [(q, runnable) for q, (runnable, state) in known if state != "dropped"]
        named = [(q, r.name, r.checked.kind, r.checked.reads) for q, r in shown]
        rows = self._standing(view).query_rows(named)
        return tuple(
            self._own(row, runnable, view, losses.get(row.name, {}), passed.get(row.name, 0))
            for row, (_, runnable) in zip(rows, shown, strict=True)
        )

    def _own(
        self,
        row: QueryRow,
        runnable: Runnable,
        view: EngineView,
        losses: Mapping[str, int],
        passed: int,
    ) -> QueryRow:
        """Adds what only queries of our own have."""
        sink, q = runnable.sink, row.number
        if runnable.checked.is_whole:
            behind, behind_s = self._behind(q, row.waiting, view.oldest_ns[q])
            row = row._replace(behind=behind, behind_s=behind_s)
        return row._replace(
            view=sink.view if isinstance(sink, ViewSink) else None,
            lost=sum(losses.values()),
            losses=losses,
            rows_through_driver=passed,
        )

    def _behind(self, q: int, waiting: int, head_ns: int) -> tuple[int, float]:
        """What the newest result of a query lacks: what waits, and what its job works on."""
        taken = [
            w for _, group, _ in self.driver.underway() if q in group.boxes for w in group.taken
        ]
        rows = waiting + sum(w.tuples for w in taken)
        oldest_ns = min((w.arrival_ns for w in taken), default=head_ns)
        return rows, round(max(0, CLOCK.now_ns() - oldest_ns) / NS_PER_S, 3) if rows else 0.0

    def _edges(self, view: EngineView, queries: tuple[QueryRow, ...]) -> tuple[Edge, ...]:
        return tuple(
            Edge(stream, q.number, waiting)
            for q in queries
            for stream, waiting in view.by_stream(q.number).items()
        )

    def _underway(self) -> tuple[Underway, ...]:
        return tuple(
            Underway(
                worker, tuple(group.boxes), sum(w.tuples for w in group.taken), round(for_s, 3)
            )
            for worker, group, for_s in self.driver.underway()
        )
