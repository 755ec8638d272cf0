"""The snapshot of a finished run, rebuilt from its record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.classes import inversion_ratios, starvation_alarms
from daybreak.runtime.record import ARRIVALS_FILE, JOBS_FILE
from daybreak.runtime.report import RunReport, Summary, summarise
from daybreak.runtime.snapshot import (
    HISTORY_S,
    MINUTE_S,
    MOST_JOBS,
    ChangeRow,
    ClassPoint,
    ClassRow,
    Edge,
    JobRow,
    Point,
    QueryRow,
    Snapshot,
    Spread,
    StreamRow,
    known,
)
from daybreak.runtime.staleness import Stale, covered_until_ns
from daybreak.runtime.starts import record_of

#: Queries that compute views are called so.
_VIEW = "view "


def snapshot_of_record(folder: Path) -> Snapshot:
    """Of a run directory, or of a folder with a run report; ``ConfigError`` if there is none.

    Figures "of late" are those of the whole run; its end is its last moment.
    """
    record = record_of(folder)
    report = RunReport.load(record)
    about, spent = report.manifest, report.spent
    queries = _queries(report)
    return Snapshot(
        pipeline=str(about.get("pipeline", folder.name)),
        state="ended",
        policy=str(about["policy"]),
        parameters=dict(about.get("parameters", {})),
        elapsed_s=round(report.duration_s, 3),
        started_s=about.get("started_s"),
        workers=report.threads,
        decisions=int(about.get("decisions", 0)),
        scheduling_s=round(spent.scheduling_ns / NS_PER_S, 6),
        work_s=round(spent.work_ns / NS_PER_S, 6),
        commit_s=round(spent.call_ns / NS_PER_S, 6),
        total_s=round(spent.total_ns / NS_PER_S, 3),
        classes=_classes(report),
        queries=queries,
        streams=_streams(report, record),
        edges=tuple(
            Edge(stream, q.number, q.waiting if len(q.reads) == 1 else 0)
            for q in queries
            for stream in q.reads
        ),
        underway=(),
        points=_points(report),
        jobs=_jobs(report, record),
        changes=tuple(ChangeRow.of(i, c) for i, c in enumerate(about.get("changes", ()))),
        troubles={},
        plan=about.get("plan"),
    )


def _classes(report: RunReport) -> tuple[ClassRow, ...]:
    by_class = report.by_class()
    starving = {alarm.cls for alarm in starvation_alarms(report)}
    means = np.array([s.mean_s for s in by_class.values()])
    inversion = [*inversion_ratios(report.priorities, means).tolist(), 0.0]
    waiting = report.backlog.pending[-1] if len(report.backlog.at_ns) else [0] * len(by_class)
    return tuple(
        ClassRow(
            name=name,
            priority=report.priorities[c],
            queries=report.query_class.count(c),
            recent=_class_point(one, _staleness(report, c), int(waiting[c])),
            spread=Spread(*(round(one.percentiles_s[p], 6) for p in (10, 25, 50, 75, 90)))
            if one.count
            else None,
            oldest_s=0.0,
            inversion=round(inversion[c], 4),
            starving=name in starving,
            answered=one.count,
            response_sum_s=round(one.mean_s * one.count, 3) if one.count else 0.0,
        )
        for c, (name, one) in enumerate(by_class.items())
    )


def _staleness(report: RunReport, cls: int) -> float:
    members = np.array(report.query_class) == cls
    if not members.any():
        return 0.0
    weights = np.array(report.weights)[members]
    return round(float(np.average(report.staleness[members], weights=weights)), 4)


def _class_point(one: Summary, staleness: float, waiting: int) -> ClassPoint:
    p50_s, p95_s, p99_s = (known(one.percentiles_s[p]) for p in (50, 95, 99))
    return ClassPoint(
        one.count, known(one.mean_s), p50_s, p95_s, p99_s, known(one.utility, 4), staleness, waiting
    )


def _queries(report: RunReport) -> tuple[QueryRow, ...]:
    about = report.manifest
    reads: Mapping[str, Sequence[str]] = about.get("reads", {})
    failures, lost = about.get("failures", {}), about.get("lost", {})
    box = {name: i for i, name in enumerate(report.boxes["box"])}
    found = []
    for q, name in enumerate(report.queries):
        # A query of several boxes, in a simulation, is told by its last.
        b = box.get(name)

        def of(column: str, b: int | None = b) -> Any:
            return report.boxes[column][b] if b is not None else 0

        cls = report.query_class[q]
        tuples = int(of("tuples_in"))
        found.append(
            QueryRow(
                number=q,
                name=name,
                cls=report.classes[cls],
                priority=report.priorities[cls],
                weight=report.weights[q],
                state="parked" if name in failures else "ended",
                kind="view" if name.startswith(_VIEW) else "query",
                reads=tuple(reads.get(name, ())),
                view=name.removeprefix(_VIEW) if name.startswith(_VIEW) else None,
                waiting=int(of("pending")),
                oldest_s=0.0,
                arrived_per_s=round(tuples / max(report.duration_s, 1e-9), 1),
                tuples=tuples,
                rows=int(of("tuples_out")),
                jobs=int(of("calls")),
                cost_us=round(of("cost_ns") / 1e3, 2),
                selectivity=round(of("selectivity"), 5),
                staleness=round(float(report.staleness[q]), 4),
                failures=1 if name in failures else 0,
                error=failures.get(name),
                lost=sum(lost.get(name, {}).values()) + report.dropped[q],
            )
        )
    return tuple(found)


def _streams(report: RunReport, record: Path) -> tuple[StreamRow, ...]:
    import pyarrow.parquet as pq

    arrived: dict[str, int] = {
        s: 0 for reads in report.manifest.get("reads", {}).values() for s in reads
    }
    if (record / ARRIVALS_FILE).exists():
        table = pq.read_table(record / ARRIVALS_FILE, partitioning=None)
        for row in table.group_by("stream").aggregate([("tuples", "sum")]).to_pylist():
            arrived[row["stream"]] = row["tuples_sum"]
    dead = report.manifest.get("dead_letters", {})
    passed = report.manifest.get("rows_through_driver", {}).get("streams", {})
    stopped = report.manifest.get("stopped_streams", {})
    ingest = report.manifest.get("ingest", {})
    views = {name.removeprefix(_VIEW) for name in report.queries if name.startswith(_VIEW)}
    return tuple(
        StreamRow(
            name, name in views, rows, round(rows / max(report.duration_s, 1e-9), 1), 0, 0,
            dead.get(name, 0), blocked=False, error=stopped.get(name),
            rows_through_driver=passed.get(name, 0), stopped=name in stopped,
            ingest=ingest.get(name, ""),
        )
        for name, rows in arrived.items()
    )  # fmt: skip


def _points(report: RunReport) -> tuple[Point, ...]:
    """A point a second, or fewer for a long run."""
    step_s = max(1.0, report.duration_s / HISTORY_S)
    slots = max(1, math.ceil(report.duration_s / step_s))
    out, cls = report.outputs, report.class_of_output
    slot = np.clip(out.departure_ns / NS_PER_S / step_s, 0, slots - 1).astype(np.int64)
    order = np.argsort(slot, kind="stable")
    ends = np.searchsorted(slot[order], np.arange(slots + 1))
    classes = range(len(report.classes))
    times_s = np.minimum(np.arange(1, slots + 1) * step_s, report.duration_s)
    stale = _stale_over_time(report, times_s)
    spent = report.spent
    workers_ns = spent.wall_ns * report.threads
    busy = _share(spent.work_ns + spent.call_ns, workers_ns)
    found = []
    for i in range(slots):
        at_s = float(times_s[i])
        mine = order[ends[i] : ends[i + 1]]
        pending = _pending(report, at_s)
        row = []
        for c in classes:
            of = mine[cls[mine] == c]
            one = summarise(report.response_s[of], report.utility[of], out.tuples[of])
            row.append(_class_point(one, stale[i][c], pending[c]))
        means = np.array([np.nan if p.mean_s is None else p.mean_s for p in row])
        with np.errstate(invalid="ignore", divide="ignore"):
            starvation = known(float(means[-1] / means[0]), 3)
        found.append(
            Point(
                seq=i,
                at_s=round(at_s, 3),
                classes=tuple(row),
                inversion=round(float(inversion_ratios(report.priorities, means).sum()), 4),
                starvation=starvation,
                scheduler_share=_share(report.spent.scheduling_ns, report.spent.total_ns),
                busy_share=busy,
            )
        )
    return tuple(found)


def _stale_over_time(report: RunReport, times_s: NDArray[np.float64]) -> list[list[float]]:
    """Of each class at each time: the share of the minute before in which it was stale."""
    out, queries = report.outputs, range(len(report.queries))
    stale = report.stale or Stale(out.query, out.arrival_ns, out.departure_ns)
    ends = np.searchsorted(stale.query, np.arange(len(report.queries) + 1)).tolist()
    since_s = np.maximum(times_s - MINUTE_S, 0.0)
    share = np.zeros((len(times_s), len(report.queries)))
    for q in queries:
        span = slice(ends[q], ends[q + 1])
        begin_ns, end_ns = np.maximum(stale.since_ns[span], 0), stale.until_ns[span]
        upto, before = (
            covered_until_ns(begin_ns, end_ns, at_s * NS_PER_S) for at_s in (times_s, since_s)
        )
        share[:, q] = (upto - before) / NS_PER_S / np.maximum(times_s - since_s, 1e-9)
    of, weights = np.array(report.query_class), np.array(report.weights)
    classes = [
        np.average(share[:, of == c], axis=1, weights=weights[of == c])
        if (of == c).any()
        else np.zeros(len(times_s))
        for c in range(len(report.classes))
    ]
    return [[round(float(v), 4) for v in row] for row in np.column_stack(classes)]


def _pending(report: RunReport, at_s: float) -> list[int]:
    last = int(np.searchsorted(report.backlog.at_ns, at_s * NS_PER_S, side="right")) - 1
    if last < 0:
        return [0] * len(report.classes)
    return [int(n) for n in report.backlog.pending[last]]


def _share(part_ns: int, total_ns: int) -> float:
    return round(part_ns / total_ns, 5) if total_ns else 0.0


def _jobs(report: RunReport, record: Path) -> tuple[JobRow, ...]:
    """The newest jobs: the rows that were committed together, the one that was asked first."""
    import pyarrow.parquet as pq

    if not (record / JOBS_FILE).exists():
        return ()
    rows = pq.read_table(record / JOBS_FILE, partitioning=None).to_pylist()
    number = {name: q for q, name in enumerate(report.queries)}
    found: list[JobRow] = []
    for committed_ns, together in groupby(rows, lambda row: row["committed_ns"]):
        parts = list(together)
        begin_ns = committed_ns - sum(p["cost_ns"] for p in parts)
        found.append(
            JobRow(
                seq=len(found),
                worker=-1,
                begin_s=round(begin_ns / NS_PER_S, 4),
                end_s=round(committed_ns / NS_PER_S, 4),
                queries=tuple(number[p["query"]] for p in parts if p["query"] in number),
                tuples=parts[0]["tuples"],
                rows=sum(p["rows"] for p in parts),
                failed=False,
            )
        )
    return tuple(found[-MOST_JOBS:])
