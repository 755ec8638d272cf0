"""A snapshot of a run that goes on, taken in its process by any thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.classes import inversion_ratios
from daybreak.runtime.snapshot import (
    ChangeRow,
    ClassPoint,
    ClassRow,
    Edge,
    QueryRow,
    Snapshot,
    StreamRow,
    Underway,
)
from daybreak.spark.control.operations import streams
from daybreak.spark.sinks.views import FORMAT as VIEW
from daybreak.spark.sinks.views import ViewSink

if TYPE_CHECKING:
    from daybreak.spark.run import Run

_NOTHING_YET = ClassPoint(0, None, None, None, None, None, 0.0, 0)


def take_snapshot(
    run: Run, jobs_after: int = -1, points_after: int = -1, changes_after: int = -1
) -> Snapshot:
    """How the run stands; of jobs, points and changes only those after the given numbers."""
    monitor, history, policy = run.monitor, run.history, run.policy
    elapsed_s = run.elapsed_s
    queries = _queries(run)
    return Snapshot(
        pipeline=run.prepared.name,
        state="running",
        policy=policy.name,
        parameters=dict(policy.settings()),
        elapsed_s=round(elapsed_s, 3),
        started_s=round(run.start_ns / NS_PER_S, 3),
        workers=run.state.threads,
        decisions=monitor.decisions,
        scheduling_s=round(monitor.scheduling_ns / NS_PER_S, 6),
        work_s=round(monitor.work_ns / NS_PER_S, 6),
        commit_s=round(monitor.call_ns / NS_PER_S, 6),
        total_s=round(elapsed_s * (run.state.threads + 1), 3),
        classes=_classes(run, queries),
        queries=queries,
        streams=_streams(run),
        edges=_edges(run, queries),
        underway=_underway(run),
        points=tuple(p for p in list(history.points) if p.seq > points_after),
        jobs=tuple(j for j in list(history.jobs) if j.seq > jobs_after),
        changes=_changes(run, changes_after),
        troubles=run.troubles,
        log_bytes=run.room.unread_bytes,
        log_max_bytes=run.limits.log_max_bytes,
        offsets=run.kafka.status(),
        plan=policy.told(run.start_ns).get("plan"),
    )


def _classes(run: Run, queries: tuple[QueryRow, ...]) -> tuple[ClassRow, ...]:
    state, history = run.state, run.history
    points = list(history.points)[-1:]
    recent = points[0].classes if points else (_NOTHING_YET,) * len(state.class_priority)
    means = np.array([np.nan if c.mean_s is None else c.mean_s for c in recent])
    inversion = [*inversion_ratios(state.class_priority, means).tolist(), 0.0]
    starving, found = history.starving(), []
    for c, (declared, spread) in enumerate(
        zip(run.prepared.network.classes, history.spreads(), strict=True)
    ):
        members = [q for q in queries if q.cls == declared.name]
        found.append(
            ClassRow(
                name=declared.name,
                priority=state.class_priority[c],
                queries=len(members),
                recent=recent[c],
                spread=spread,
                oldest_s=max((q.oldest_s for q in members), default=0.0),
                inversion=round(inversion[c], 4),
                starving=c in starving,
                answered=int(history.answered_total[c]),
                response_sum_s=round(float(history.response_total_s[c]), 3),
            )
        )
    return tuple(found)


def _queries(run: Run) -> tuple[QueryRow, ...]:
    network, state, driver = run.prepared.network, run.state, run.driver
    now_ns, losses = time.time_ns(), run.log.losses()
    rate = run.history.arrived_per_s().tolist()
    stale = run.history.staleness().tolist()
    found: list[QueryRow] = []
    for q, runnable in enumerate(list(driver.queries)):
        standing = driver.engine.queries.status[q]
        if standing.state == "dropped":
            continue
        waiting, head_ns = driver.waiting(q)
        checked, sink = runnable.checked, runnable.sink
        found.append(
            QueryRow(
                number=q,
                name=runnable.name,
                cls=network.classes[state.query_class[q]].name,
                priority=state.class_priority[state.query_class[q]],
                weight=state.query_weight[q],
                state=standing.state,
                kind=checked.kind,
                reads=tuple(checked.reads),
                view=sink.view if isinstance(sink, ViewSink) else None,
                waiting=waiting,
                oldest_s=round((now_ns - head_ns) / NS_PER_S, 3) if waiting and head_ns else 0.0,
                arrived_per_s=round(rate[q], 1) if q < len(rate) else 0.0,
                tuples=state.tuples_in[q],
                rows=state.tuples_out[q],
                jobs=state.calls[q],
                cost_us=round(state.cost_ns[q] / 1e3, 2),
                selectivity=round(state.selectivity[q], 5),
                staleness=round(stale[q], 4) if q < len(stale) else 0.0,
                failures=standing.failures,
                error=standing.error,
                lost=sum(losses.get(runnable.name, {}).values()),
            )
        )
    return tuple(found)


def _streams(run: Run) -> tuple[StreamRow, ...]:
    arrived = run.driver.engine.arrived_rows
    return tuple(
        StreamRow(
            name=name,
            view=run.prepared.streams[name].format == VIEW,
            arrived=arrived.get(name, 0),
            arrived_per_s=round(run.rates.per_s(name), 1),
            **{key: about[key] for key in StreamRow._fields if key in about},
        )
        for name, about in streams(run).items()
    )


def _edges(run: Run, queries: tuple[QueryRow, ...]) -> tuple[Edge, ...]:
    return tuple(
        Edge(stream, q.number, waiting)
        for q in queries
        for stream, waiting in run.driver.waiting_by_stream(q.number).items()
    )


def _underway(run: Run) -> tuple[Underway, ...]:
    return tuple(
        Underway(worker, tuple(group.boxes), sum(w.tuples for w in group.taken), round(for_s, 3))
        for worker, group, for_s in run.driver.underway()
    )


def _changes(run: Run, after: int) -> tuple[ChangeRow, ...]:
    return tuple(
        ChangeRow.of(seq, change) for seq, change in enumerate(list(run.changes)) if seq > after
    )
