"""A snapshot of governed queries: what the dashboard shows, as for Daybreak's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.history import NOTHING_YET, class_rows
from daybreak.runtime.snapshot import (
    ChangeRow,
    ClassRow,
    Edge,
    QueryRow,
    Snapshot,
    StreamRow,
    Underway,
)

if TYPE_CHECKING:
    from daybreak.engine.view import EngineView
    from daybreak.runtime.history import History
    from daybreak.spark.governed.roster import Roster

#: Numbers of queries that are not governed; the others count from 0.
_FREE = 1_000_000


class Shown(NamedTuple):
    """What a snapshot shows beside the engine's queries."""

    name: str
    elapsed_s: float
    workers: int
    #: Queries that are not governed, and why.
    free: Mapping[str, str]
    changes: Sequence[Mapping[str, object]]


def take_snapshot(
    shown: Shown,
    roster: Roster,
    jobs_after: int = -1,
    points_after: int = -1,
    changes_after: int = -1,
) -> Snapshot:
    """How everything stands; of jobs, points and changes only those after the given numbers."""
    accounts, engine = roster.accounts, roster.engine
    history = None if accounts is None else accounts.history
    monitor = None if accounts is None else accounts.monitor
    elapsed_s, threads = shown.elapsed_s, shown.workers
    if engine is None or history is None:
        queries: tuple[QueryRow, ...] = ()
        classes = _declared(roster)
    else:
        queries = _queries(roster, engine.view, history)
        classes = class_rows(engine.view, history, queries)
    policy = roster.policy
    return Snapshot(
        pipeline=shown.name,
        state="running",
        policy=policy.name,
        parameters=dict(policy.parameters),
        elapsed_s=round(elapsed_s, 3),
        started_s=round(roster.start_ns / NS_PER_S, 3),
        workers=threads,
        decisions=monitor.decisions if monitor else 0,
        scheduling_s=round(monitor.scheduling_ns / NS_PER_S, 6) if monitor else 0.0,
        work_s=round(monitor.work_ns / NS_PER_S, 6) if monitor else 0.0,
        commit_s=0.0,
        total_s=round(elapsed_s * (threads + 1), 3),
        classes=classes,
        queries=(*queries, *_free(shown.free)),
        streams=_streams(queries),
        edges=tuple(Edge(q.reads[0], q.number, q.waiting) for q in queries if q.reads),
        underway=_underway(roster),
        points=tuple(p for p in list(history.points) if p.seq > points_after) if history else (),
        jobs=tuple(j for j in list(history.jobs) if j.seq > jobs_after) if history else (),
        changes=tuple(
            ChangeRow.of(seq, change)
            for seq, change in enumerate(shown.changes)
            if seq > changes_after
        ),
        troubles={},
        plan=policy.report(roster.start_ns).get("plan") if engine is not None else None,
    )


def _queries(roster: Roster, view: EngineView, history: History) -> tuple[QueryRow, ...]:
    now_ns = CLOCK.now_ns()
    rate, stale = history.arrived_per_s().tolist(), history.staleness().tolist()
    found: list[QueryRow] = []
    for governed in list(roster.queries.values()):
        q = governed.box
        if not 0 <= q < len(view.query_class):
            continue
        waiting, head_ns, cls = view.waiting[q], view.oldest_ns[q], view.query_class[q]
        found.append(
            QueryRow(
                number=q,
                name=governed.name,
                cls=view.network.classes[cls].name,
                priority=view.class_priority[cls],
                weight=view.query_weight[q],
                state="failed" if governed.failed is not None else view.states[q],
                kind="governed",
                reads=tuple(dict.fromkeys(governed.sources)),
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
                error=governed.failed or view.errors[q],
                lost=0,
            )
        )
    return tuple(found)


def _free(free: Mapping[str, str]) -> tuple[QueryRow, ...]:
    """Queries that are not governed: nothing is known of them but why."""
    return tuple(
        QueryRow(
            number=_FREE + i, name=name, cls="-", priority=0.0, weight=1.0, state="free",
            kind="ungoverned", reads=(), view=None, waiting=0, oldest_s=0.0, arrived_per_s=0.0,
            tuples=0, rows=0, jobs=0, cost_us=0.0, selectivity=0.0, staleness=0.0, failures=0,
            error=why, lost=0,
        )
        for i, (name, why) in enumerate(free.items())
    )  # fmt: skip


def _declared(roster: Roster) -> tuple[ClassRow, ...]:
    """Before the first query comes."""
    declared = sorted(roster.book.declared.values(), key=lambda c: -c.priority)
    return tuple(
        ClassRow(c.name, c.priority, 0, NOTHING_YET, None, 0.0, 0.0, False, 0, 0.0)
        for c in declared
    )


def _streams(queries: tuple[QueryRow, ...]) -> tuple[StreamRow, ...]:
    """Spark's sources; what Daybreak keeps of its own streams is not kept of these."""
    rates: dict[str, float] = {}
    read: dict[str, int] = {}
    for q in queries:
        for name in q.reads:
            rates[name] = max(rates.get(name, 0.0), q.arrived_per_s)
            read[name] = max(read.get(name, 0), q.tuples + q.waiting)
    return tuple(
        StreamRow(name, False, read[name], rates[name], 0, 0, 0, False, None) for name in rates
    )


def _underway(roster: Roster) -> tuple[Underway, ...]:
    found, now_ns = [], CLOCK.now_ns()
    for governed in list(roster.queries.values()):
        if (job := governed.job) is not None:
            tuples = sum(item.tuples for item in job.taken)
            for_s = round((now_ns - job.began_ns) / NS_PER_S, 3)
            found.append(Underway(job.order.started.worker, (governed.box,), tuples, for_s))
    return tuple(found)
