"""A snapshot of governed queries: what the dashboard shows, as for Daybreak's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.history import NOTHING_YET
from daybreak.runtime.snapshot import (
    ClassRow,
    Edge,
    QueryRow,
    Snapshot,
    StreamRow,
    Underway,
)
from daybreak.runtime.standing import ChangeLog, Standing

if TYPE_CHECKING:
    from daybreak.spark.governed.roster import Roster

#: Numbers of queries that are not governed; the others count from 0.
_FREE = 1_000_000


class Shown(NamedTuple):
    """A governor as its snapshots show it, beside its queries."""

    name: str
    elapsed_s: float
    workers: int
    #: Queries that are not governed, and why.
    free: Mapping[str, str]
    changes: ChangeLog


def take_snapshot(
    shown: Shown,
    roster: Roster,
    jobs_after: int = -1,
    points_after: int = -1,
    changes_after: int = -1,
) -> Snapshot:
    """Shows how everything stands; of jobs, points and changes only those after these numbers."""
    accounts, engine = roster.accounts, roster.engine
    standing = Standing(
        policy=roster.policy, workers=shown.workers, start_ns=roster.start_ns,
        elapsed_s=shown.elapsed_s, changes=shown.changes,
        view=None if engine is None else engine.view,
        monitor=None if accounts is None else accounts.monitor,
        history=None if accounts is None else accounts.history,
    )  # fmt: skip
    queries = tuple(_queries(standing, roster))
    taken = standing.snapshot(shown.name, queries, jobs_after, points_after, changes_after)
    return replace(
        taken,
        classes=taken.classes or _declared(roster),
        queries=(*queries, *_free(shown.free)),
        streams=_streams(queries),
        edges=tuple(Edge(q.reads[0], q.number, q.waiting) for q in queries if q.reads),
        underway=_underway(roster),
    )


def _queries(standing: Standing, roster: Roster) -> Iterator[QueryRow]:
    known = 0 if standing.view is None else len(standing.view.query_class)
    governed = [g for g in list(roster.queries.values()) if 0 <= g.box < known]
    named = [(g.box, g.name, "governed", tuple(dict.fromkeys(g.sources))) for g in governed]
    for query, row in zip(governed, standing.query_rows(named), strict=True):
        why = query.failed
        yield row if why is None else row._replace(state="failed", error=why)


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
