"""The status of a run, the one format of it: what a terminal, a web page and Python see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from daybreak.engine import story
from daybreak.engine.view import EngineView
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.qos import NS_PER_S
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.history import class_rows
from daybreak.runtime.snapshot import (
    ChangeRow,
    Edge,
    QueryRow,
    Snapshot,
    Underway,
)
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.inflow import Inflow
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.undeclared import Undeclared
from daybreak.spark.loop.driver import Driver
from daybreak.spark.sinks.views import ViewSink
from daybreak.spark.tasks.task import Runnable
from daybreak.spark.upkeep.maintenance import Maintenance, PeriodicTasks
from daybreak.spark.upkeep.record import ChangeLog, Figures

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
        monitor, history, threads = figures.monitor, figures.history, view.threads
        elapsed_s = figures.elapsed_s
        queries = self._queries(view)
        return Snapshot(
            pipeline=self.catalog.application.name,
            state="running",
            policy=view.policy.name,
            parameters=dict(view.policy.parameters),
            elapsed_s=round(elapsed_s, 3),
            started_s=round(figures.start_ns / NS_PER_S, 3),
            workers=threads,
            decisions=monitor.decisions,
            scheduling_s=round(monitor.scheduling_ns / NS_PER_S, 6),
            work_s=round(monitor.work_ns / NS_PER_S, 6),
            commit_s=round(monitor.call_ns / NS_PER_S, 6),
            total_s=round(elapsed_s * (threads + 1), 3),
            classes=class_rows(view, history, queries),
            queries=queries,
            streams=self.inflow.status(view.arrived_rows),
            edges=self._edges(view, queries),
            underway=self._underway(),
            points=tuple(p for p in list(history.points) if p.seq > points_after),
            jobs=tuple(j for j in list(history.jobs) if j.seq > jobs_after),
            changes=self._changes(changes_after),
            troubles=self.troubles(),
            log_bytes=self.inflow.backpressure.unread_bytes,
            log_max_bytes=self.log_max_bytes,
            offsets=self.inflow.kafka.status(),
            undeclared=dict(self.undeclared.until),
            plan=view.policy.report(figures.start_ns).get("plan"),
            prepared={**self.prepared(), "jobs": dict(monitor.ways)},
            waited={} if figures.waits is None else figures.waits.lost(),
        )

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
        history, losses = self.figures.history, self.log.losses()
        passed = self.inflow.store.driver_rows.queries
        rate = history.arrived_per_s().tolist()
        stale = history.staleness().tolist()
        # The catalog may be a moment ahead of the engine.
        known = zip(list(self.catalog.runnables), view.states, strict=False)
        return tuple(
            self._query(
                q,
                runnable,
                view,
                arrived_per_s=round(rate[q], 1) if q < len(rate) else 0.0,
                staleness=round(stale[q], 4) if q < len(stale) else 0.0,
                losses=losses.get(runnable.name, {}),
                passed=passed.get(runnable.name, 0),
            )
            for q, (runnable, state) in enumerate(known)
            if state != "dropped"
        )

    def _query(
        self,
        q: int,
        runnable: Runnable,
        view: EngineView,
        *,
        arrived_per_s: float,
        staleness: float,
        losses: Mapping[str, int],
        passed: int,
    ) -> QueryRow:
        sink, checked = runnable.sink, runnable.checked
        cls, waiting, head_ns = view.query_class[q], view.waiting[q], view.oldest_ns[q]
        behind, behind_s = self._behind(q, waiting, head_ns) if checked.is_whole else (None, None)
        waited_s = round((CLOCK.now_ns() - head_ns) / NS_PER_S, 3) if waiting and head_ns else 0.0
        return QueryRow(
            number=q,
            name=runnable.name,
            cls=self.catalog.network.classes[cls].name,
            priority=view.class_priority[cls],
            weight=view.query_weight[q],
            state=view.states[q],
            kind=checked.kind,
            reads=tuple(checked.reads),
            view=sink.view if isinstance(sink, ViewSink) else None,
            waiting=waiting,
            oldest_s=waited_s,
            arrived_per_s=arrived_per_s,
            tuples=view.tuples_in[q],
            rows=view.tuples_out[q],
            jobs=view.calls[q],
            cost_us=round(view.cost_ns[q] / 1e3, 2),
            selectivity=round(view.selectivity[q], 5),
            staleness=staleness,
            failures=view.failures[q],
            error=view.errors[q],
            lost=sum(losses.values()),
            losses=losses,
            rows_through_driver=passed,
            behind=behind,
            behind_s=behind_s,
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

    def _changes(self, after: int) -> tuple[ChangeRow, ...]:
        entries = enumerate(list(self.changes.entries))
        return tuple(ChangeRow.of(seq, change) for seq, change in entries if seq > after)
