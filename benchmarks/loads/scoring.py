"""One utility for all policies, and what else a run is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import NamedTuple

import numpy as np
from benchmarks.loads.workload import BROKEN, CLASSES, STREAM, WATERMARK_S, queries

from daybreak.runtime.report import weighted_percentiles
from daybreak.simulation.recorded import RecordedRun

#: Tuples that arrived so long before the end of a run count, answered or not.
TAIL_S = 10.0


@dataclass(frozen=True)
class Outcome:
    """One run."""

    workload: str
    policy: str
    load: float
    rate_per_s: float
    #: Sum of w U over all (query, tuple) pairs that arrived, over the sum of w.
    utility: float
    #: The same as earlier versions of this page had it: the mean of the classes' utilities.
    utility_by_class: float
    critical_p95_s: float
    answered: float
    scheduling: float
    jobs: int
    #: What no schedule of these cells at these rates and learned costs can exceed, and what was
    #: planned; only of ``planned``.
    bound: float | None = None
    promised: float | None = None
    #: How many times slower the machine was than when the capacity was measured, see ``pace``;
    #: None if it was given.
    slower: float | None = None
    #: Runs of which it is the least disturbed.
    tries: int = 1


class Span(NamedTuple):
    """Whose answers count: of tuples that become pending in a time, and arrived in another."""

    pending_ns: tuple[int, int]
    arrived_ns: tuple[int, int]


def span(window_s: int, from_ns: int, until_ns: int, started_ns: int) -> Span:
    """Whole windows between two instants of a run, which began at the third.

    Rows of a window become pending together, when it closes, some tenths of a second after its
    end. So the time begins and ends between two closings: one more or less would make a difference
    of a whole window.
    """
    if not window_s:
        return Span((from_ns, until_ns), (from_ns, until_ns))
    size_ns, between_ns = round(window_s * 1e9), round((WATERMARK_S + window_s / 2) * 1e9)
    first = ceil((started_ns + from_ns - between_ns) / size_ns)
    last = floor((started_ns + until_ns - between_ns) / size_ns)
    begin_ns, end_ns = first * size_ns - started_ns, last * size_ns - started_ns
    return Span((begin_ns + between_ns, end_ns + between_ns), (begin_ns, end_ns))


def score(
    record: RecordedRun,
    workload: str,
    policy: str,
    load: float,
    rate_per_s: float,
    warm_up_s: float,
) -> Outcome:
    """Counts the pairs that arrived after the warm-up and ``TAIL_S`` before the end."""
    report, end_ns = record.report, record.end_ns
    from_ns, until_ns = round(warm_up_s * 1e9), end_ns - round(TAIL_S * 1e9)
    started_ns = round(report.manifest["started_s"] * 1e9)
    windows = {query.name: query.window_s for query in queries(workload)}
    spans = [span(windows.get(q, 0), from_ns, until_ns, started_ns) for q in report.queries]
    of_stream = np.array([s == STREAM for s in record.stream])
    at_ns, tuples = record.at_ns[of_stream], record.tuples[of_stream]
    arrived = np.concatenate([[0], np.cumsum(tuples)])
    begin, end = np.searchsorted(at_ns, np.array([s.arrived_ns for s in spans]).T)
    rows = arrived[end] - arrived[begin]
    o, worth = report.outputs, np.nan_to_num(report.utility)
    pending_ns = np.array([s.pending_ns for s in spans])[o.query]
    mine = (o.arrival_ns >= pending_ns[:, 0]) & (o.arrival_ns < pending_ns[:, 1])
    mine &= o.departure_ns <= end_ns
    gained = np.bincount(o.query[mine], (worth * o.tuples)[mine], minlength=len(report.queries))
    done = np.bincount(o.query[mine], o.tuples[mine], minlength=len(report.queries))
    counted = np.array([name != BROKEN for name in report.queries])
    # A query is never credited with more than arrived: clocks are read twice.
    share = np.minimum(gained / rows, 1.0)
    weights = np.array([report.priorities[c] for c in report.query_class]) * report.weights
    classes = np.array(report.query_class)
    by_class = [share[counted & (classes == c)].mean() for c in range(len(CLASSES))]
    priorities = np.array(report.priorities)
    critical = mine & (classes[o.query] == report.classes.index("critical"))
    latency_s = (o.departure_ns - o.arrival_ns)[critical] / 1e9
    plan = report.manifest.get("plan") or {}
    return Outcome(
        workload=workload,
        policy=policy,
        load=load,
        rate_per_s=rate_per_s,
        utility=float((weights * share)[counted].sum() / weights[counted].sum()),
        utility_by_class=float((priorities * by_class).sum() / priorities.sum()),
        critical_p95_s=weighted_percentiles(latency_s, o.tuples[critical], [95])[95]
        if len(latency_s)
        else float("inf"),
        answered=float(np.minimum(done / rows, 1.0)[counted].mean()),
        scheduling=report.spent.scheduling_ns / max(1, report.spent.wall_ns),
        jobs=len(record.jobs),
        bound=plan.get("bound"),
        promised=plan.get("utility"),
    )
