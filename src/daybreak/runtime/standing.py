"""A running system as snapshots show it: the same for own queries and for governed ones.

The change log, too, is one: who changed what, for the report, the event log and the dashboard.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daybreak.engine.view import EngineView, PolicyView
from daybreak.model.qos import NS_PER_S
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit
from daybreak.runtime.history import History, class_rows
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.snapshot import ChangeRow, QueryRow, Snapshot

#: What is changed of the run as a whole, or of a class, and not of a query.
_OF_NO_QUERY = ("class-priority", "policy", "stream-resumed")


class ChangeLog:
    """Lists what was changed, in order. Any thread may use it."""

    def __init__(self, start_ns: int, emit: Emit) -> None:
        self._start_ns = start_ns
        self._emit = emit
        self.entries: list[dict[str, object]] = []

    def note(self, by: str, what: str, subject: str, was: Any, value: Any) -> None:
        change = {"by": by, "what": what, "subject": subject, "was": was, "value": value}
        self.entries.append(
            {
                "at_s": round((CLOCK.now_ns() - self._start_ns) / 1e9, 3),
                "time_s": round(time.time(), 3),
                **change,
            }
        )
        query = None if what in _OF_NO_QUERY else subject
        self._emit("change", f"{what} {subject}: {was} -> {value}", query=query, **change)

    def rows(self, after: int) -> tuple[ChangeRow, ...]:
        """Lists those after this number, as a snapshot shows them."""
        entries = enumerate(list(self.entries))
        return tuple(ChangeRow.of(seq, change) for seq, change in entries if seq > after)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A system at one moment; of a governor without a query, only the policy is known."""

    policy: PolicyView
    workers: int
    start_ns: int
    elapsed_s: float
    changes: ChangeLog
    view: EngineView | None
    monitor: Monitor | None
    history: History | None

    def query_rows(self, named: Sequence[tuple[int, str, str, Sequence[str]]]) -> list[QueryRow]:
        """Makes rows of queries that the engine knows: by index, with name, kind and streams."""
        view, history, now_ns = self.view, self.history, CLOCK.now_ns()
        if view is None or history is None:
            return []
        rate, stale = history.arrived_per_s().tolist(), history.staleness().tolist()
        found = []
        for q, name, kind, reads in named:
            waiting, head_ns, cls = view.waiting[q], view.oldest_ns[q], view.query_class[q]
            row = QueryRow(
                number=q,
                name=name,
                cls=view.network.classes[cls].name,
                priority=view.class_priority[cls],
                weight=view.query_weight[q],
                state=view.states[q],
                kind=kind,
                reads=tuple(reads),
                view=None,
                waiting=waiting,
                oldest_s=round((now_ns - head_ns) / NS_PER_S, 3) if waiting and head_ns else 0.0,
                arrived_per_s=round(rate[q], 1) if q < len(rate) else 0.0,
                tuples=view.tuples_in[q],
                rows=view.tuples_out[q],
                jobs=view.calls[q],
                cost_us=round(view.cost_ns[q] / 1e3, 2),
                selectivity=round(view.selectivity[q], 5),
                staleness=round(stale[q], 4) if q < len(stale) else 0.0,
                failures=view.failures[q],
                error=view.errors[q],
                lost=0,
            )
            found.append(row)
        return found

    def snapshot(
        self,
        name: str,
        queries: Sequence[QueryRow],
        jobs_after: int = -1,
        points_after: int = -1,
        changes_after: int = -1,
    ) -> Snapshot:
        """Makes the snapshot without its streams, edges and jobs under way, which the caller adds.

        Of jobs, points and changes only those after the given numbers.
        """
        monitor, history, view = self.monitor, self.history, self.view
        known = view is not None and history is not None
        return Snapshot(
            pipeline=name,
            state="running",
            policy=self.policy.name,
            parameters=dict(self.policy.parameters),
            elapsed_s=round(self.elapsed_s, 3),
            started_s=round(self.start_ns / NS_PER_S, 3),
            workers=self.workers,
            decisions=monitor.decisions if monitor else 0,
            scheduling_s=round(monitor.scheduling_ns / NS_PER_S, 6) if monitor else 0.0,
            work_s=round(monitor.work_ns / NS_PER_S, 6) if monitor else 0.0,
            commit_s=round(monitor.call_ns / NS_PER_S, 6) if monitor else 0.0,
            total_s=round(self.elapsed_s * (self.workers + 1), 3),
            classes=class_rows(view, history, queries) if view and history else (),
            queries=tuple(queries),
            streams=(),
            edges=(),
            underway=(),
            points=tuple(p for p in list(history.points) if p.seq > points_after)
            if history
            else (),
            jobs=tuple(j for j in list(history.jobs) if j.seq > jobs_after) if history else (),
            changes=self.changes.rows(changes_after),
            troubles={},
            plan=self.policy.report(self.start_ns).get("plan") if known else None,
        )
