"""What is different in the record of a governor: Spark owns the offsets of its queries.

Queries of one source read it from different places on, in files or offsets, and one that joins it
with itself counts each row twice. So a replay takes what a query had to read from the query itself:
its answers, each with the arrival of what was answered, and what waited for it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.inbox import Waiting
from daybreak.simulation.jobcosts import RecordedJob
from daybreak.simulation.jobs import Delivery
from daybreak.simulation.recorded import RecordedRun

#: Instants in order, and how many deliveries there were at each.
Arrived = tuple[NDArray[np.int64], NDArray[np.int64]]


def is_governed(record: RecordedRun) -> bool:
    """Whether it is the record of a governor."""
    return record.report.manifest.get("unit_rows") is not None


def answered(record: RecordedRun) -> Arrived:
    """When what governed queries have read had arrived."""
    at_ns = np.sort(record.report.outputs.arrival_ns)
    return at_ns, np.ones(len(at_ns), dtype=np.int64)


def left_waiting(record: RecordedRun, from_ns: int) -> Iterator[Delivery]:
    """What was known at the end and had not been read."""
    query = {name: q for q, name in enumerate(record.report.queries)}
    for name, items in record.report.manifest.get("waiting", {}).items():
        for arrival_ns, tuples in items:
            at_ns = arrival_ns - from_ns
            # The head of a record that was cut off may be newer than its series.
            if arrival_ns <= record.end_ns:
                yield Delivery(max(0, at_ns), (query[name],), Waiting(at_ns, "", tuples, -1))


def with_data(record: RecordedRun) -> list[RecordedJob]:
    """Micro-batches that read something: only these are replayed."""
    return [job for job in record.jobs if job.tuples]


def unit_tuples(record: RecordedRun) -> list[float]:
    """Tuples in a file or offset, by query: the mean over its sources."""
    about = record.report.manifest
    known: Mapping[str, float] = about["unit_rows"]
    return [
        float(np.mean([max(known.get(source, 1.0), 1e-9) for source in about["reads"][name]]))
        for name in record.report.queries
    ]


def governed_caveats(record: RecordedRun) -> Iterator[str]:
    """What happened among governed queries and is not in the model."""
    if not is_governed(record):
        return
    about: Mapping[str, Any] = record.report.manifest
    empty_ns = [job.cost_ns for job in record.jobs if not job.tuples]
    if empty_ns:
        yield (
            f"micro-batches without data are not replayed: {len(empty_ns)} of them took "
            f"{sum(empty_ns) / 1e9:.3g} s"
        )
    waiting = sum(tuples for items in about.get("waiting", {}).values() for _, tuples in items)
    if waiting:
        yield f"what waited at the end, about {waiting} tuples, is estimated from files and offsets"
    for key, what in (
        ("failed_batches", "micro-batches that failed cost nothing in replays"),
        ("unseen", "no probe sees the sources of these queries: rows arrive when they were found"),
        ("paced", "these queries do not wait for the intervals of their triggers in replays"),
        ("free_seen", "queries that ran free are not in the model, nor is what they cost others"),
    ):
        if about.get(key):
            yield f"{what}: {', '.join(sorted(about[key]))}"
