"""A full log: what lagging queries declared happens, so that one of them never holds up all.

Beyond ``log.max_bytes`` a query with ``on_full = "skip"`` loses its oldest rows: its cursor jumps
and the lost range is recorded. One with ``"block"`` keeps its place, and the sources wait. Queries
that are no longer declared come first, whatever they declared (see ``undeclared``). A query
over windows loses whole windows, the oldest that are closed and not yet emitted: one without some
of its rows would be wrong. Rows of windows that are still open are not counted, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from daybreak.engine.events import LogFull
from daybreak.spark.jobs.windows import low_water
from daybreak.spark.log.rows import Cursor
from daybreak.spark.log.segments import Segment
from daybreak.spark.log.undeclared import cuts

if TYPE_CHECKING:
    from daybreak.spark.run import Run

#: After skipping this share of the log is full, so that it is not full again at once.
LEAVE = 0.8


def lagging(run: Run) -> dict[str, Cursor]:
    """Where the query that lags most is, by stream, if one does.

    What open windows hold is no lag: sources that waited for it would wait for ever.
    """
    lows: dict[str, Cursor] = {}
    cursors = run.log.cursors()
    queries = run.driver.engine.queries
    for q, query in enumerate(queries.facts):
        waits = queries.inboxes[q].tuples > 0 or queries.in_job(q)
        if queries.status[q].state == "dropped" or not waits:
            continue
        for stream in query.reads:
            at = cursors[query.name, stream]
            lows[stream] = min(at, lows.get(stream, at))
    return lows


def unread(run: Run) -> dict[str, list[Segment]]:
    """The segments that some query has not read to the end and could, by stream.

    Others are kept for other reasons (the newest may come again), and nobody can make room there.
    """
    return {
        stream: [s for s in run.store.segments(stream) if s.seq >= low.seq]
        for stream, low in lagging(run).items()
    }


def unread_bytes(run: Run) -> int:
    """What lagging queries have not read, and what is kept for undeclared ones alone."""
    lag = sum(s.bytes for segments in unread(run).values() for s in segments)
    return lag + run.undeclared.held_bytes()


def relieve(run: Run, to_free_bytes: int) -> None:
    """Lets lagging queries that may skip do so. On the loop's thread."""
    kept = unread(run)
    cut = cuts((s for segments in kept.values() for s in segments), to_free_bytes)
    queries = run.driver.engine.queries
    windows = {
        q: closed_before(run, q, cut)
        for q, facts in enumerate(queries.facts)
        if facts.windows and queries.status[q].state != "dropped"
    }
    run.driver.feed(LogFull(cut, windows))


def closed_before(run: Run, query: int, cut: Mapping[str, Cursor]) -> int:
    """The tuples of the oldest closed windows that hold a query before these places."""
    runnable = run.driver.queries[query]
    windowing = runnable.checked.windowing
    assert windowing is not None
    starts = run.log.places(runnable.name)
    held = {s: at for s, at in cut.items() if s in windowing.times and starts[s] < at}
    tuples = 0
    for item in run.driver.engine.queries.inboxes[query].waiting if held else ():
        tuples += item.tuples
        lows = (low_water(windowing, run.store, s, starts[s], item.closes_us) for s in held)
        if all(low >= at for low, at in zip(lows, held.values(), strict=True)):
            break
    return tuples
