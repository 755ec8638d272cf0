"""A snapshot with something of everything."""

from __future__ import annotations

from daybreak.runtime.snapshot import (
    ClassPoint,
    ClassRow,
    JobRow,
    OffsetRow,
    Point,
    QueryRow,
    Snapshot,
    Spread,
    StreamRow,
)

ODD = 'odd "name"\nwith [red]all\\'


def snapshot(queries: int = 4) -> Snapshot:
    """Two classes; of the queries the first is parked, and has a name to escape."""
    busy = ClassPoint(900, 0.2, 0.1, 0.9, 1.5, 0.75, 0.25, 88_412)
    idle = ClassPoint(0, None, None, None, None, None, 0.0, 0)
    rows = [_query(number) for number in range(queries)]
    return Snapshot(
        pipeline="wildfire", state="running", policy="stride", parameters={"train": 100},
        elapsed_s=125.5, started_s=1_700_000_000.0, workers=2, decisions=4021,
        scheduling_s=1.5, work_s=90.0, commit_s=9.0, total_s=376.5,
        classes=(
            ClassRow("critical", 60.0, 1, busy, Spread(0.1, 0.1, 0.2, 0.3, 0.4), 2.5, 0.5, True,
                     100_000, 20_000.5),
            ClassRow("archive", 10.0, queries - 1, idle, None, 0.0, 0.0, False, 0, 0.0),
        ),
        queries=tuple(rows),
        streams=(
            StreamRow("readings", False, 500_000, 800.0, 12, 4096, 3, False, None),
            StreamRow("broken", False, 0, 0.0, 0, 0, 0, True, "OSError: gone"),
        ),
        edges=(), underway=(),
        points=(Point(7, 125.0, (busy, idle), 0.5, None, 0.012, 0.87),),
        jobs=tuple(
            JobRow(n, n % 2, 120.0 + n, 120.25 + n, tuple(range(n % 3 + 1)), 150, 3, n == 4)
            for n in range(5)
        ),
        changes=(), troubles={"prune": "OSError: [Errno 28] No space left on device"},
        log_bytes=3 * 2**30, log_max_bytes=8 * 2**30,
        offsets=(
            OffsetRow("readings", "weather", 0, 1_234_567, 1_254_567, 20_000),
            OffsetRow("readings", "weather", 1, 90, None, None),
        ),
        waited={ODD: {"overrun": 12.5, "disk": 0.25}},
    )  # fmt: skip


def _query(number: int) -> QueryRow:
    parked = number == 0
    return QueryRow(
        number=number, name=ODD if parked else f"query-{number}",
        cls="critical" if parked else "archive", priority=60.0 if parked else 10.0, weight=1.0,
        state="parked" if parked else "running", kind="filter", reads=("readings",), view=None,
        waiting=88_412 if parked else number, oldest_s=2.5, arrived_per_s=800.0,
        tuples=1000 * number, rows=10 * number, jobs=5, cost_us=12.5, selectivity=0.01,
        staleness=0.25, failures=4 if parked else 0,
        error="OSError: [Errno 28] No space left\non [device]" if parked else None, lost=number,
    )  # fmt: skip
