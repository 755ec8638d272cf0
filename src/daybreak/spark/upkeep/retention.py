"""Retention: segments that every query has read are removed, and a full log is relieved.

Beyond ``log.max_bytes`` a query with ``on_full = "skip"`` loses its oldest rows: its cursor jumps
and the lost range is recorded. One with ``"block"`` keeps its place, and the sources wait. Queries
that are no longer declared come first, whatever they declared (see ``undeclared``). A query
over windows loses whole windows, the oldest that are closed and not yet emitted: one without some
of its rows would be wrong. Rows of windows that are still open are not counted, and stay.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence

from daybreak.engine.engine import Engine
from daybreak.engine.events import LogFull
from daybreak.engine.inbox import Waiting
from daybreak.engine.lifecycle import SHED
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.eventlog import Emit
from daybreak.spark.declared.catalog import Catalog
from daybreak.spark.ingest.backpressure import Backpressure
from daybreak.spark.ingest.event_clocks import EventClocks
from daybreak.spark.ingest.late_rows import LateRows
from daybreak.spark.jobs.windows import low_water, past
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove, Move, ProgressMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.undeclared import Undeclared, cuts
from daybreak.spark.loop.driver_hooks import Loop
from daybreak.spark.tasks.task import Runnable

#: After skipping this share of the log is full, so that it is not full again at once.
LEAVE = 0.8
#: How often segments that all have read are removed.
LOOK_S = 0.5


class Retention:
    """What is kept of the streams. Used by the loop's thread."""

    def __init__(
        self,
        catalog: Catalog,
        engine: Engine,
        log: CommitLog,
        store: SegmentStore,
        undeclared: Undeclared,
        clocks: EventClocks,
        late: LateRows,
        backpressure: Backpressure,
        max_bytes: int,
        emit: Emit,
    ) -> None:
        self._catalog = catalog
        self._engine = engine
        self._log = log
        self._store = store
        self._undeclared = undeclared
        self._clocks = clocks
        self._late = late
        self._backpressure = backpressure
        self._max_bytes = max_bytes
        self._emit = emit
        self._looked_s = 0.0

    def is_due(self) -> bool:
        """Now and then; at once where sources wait for room, or soon would."""
        if self._backpressure.full or self._store.held_bytes() > self._max_bytes:
            return True
        return time.monotonic() >= self._looked_s + LOOK_S

    def make_room(self, loop: Loop) -> None:
        """Removes what every query has passed; if the log is full, rows of those that may skip."""
        self._looked_s, most = time.monotonic(), self._max_bytes
        self._undeclared.expire(time.monotonic_ns())
        self.remove_passed()
        over = self.unread_bytes() - most
        if over > 0:
            self._undeclared.give_way(over + round((1 - LEAVE) * most))
            over = self.unread_bytes() - most
        if over > 0:
            loop.feed(self._log_full(over + round((1 - LEAVE) * most)))
            self.remove_passed()
        self._note(self.unread_bytes(), most)

    def remove_passed(self) -> None:
        """Removes segments that every query has passed and their stream does not retain."""
        now_ns, next_seq = CLOCK.now_ns(), self._engine.look().next_seq
        for stream in self._catalog.application.streams:
            unread = Cursor(next_seq.get(stream, 0), 0)
            low = self._log.low_water(stream) or unread
            late = self._late.needed_from(stream)
            if late is not None:
                low = min(low, Cursor(late, 0))
            self._store.remove_below(stream, self._clocks.retained(stream, low, now_ns))

    def unread_bytes(self) -> int:
        """What lagging queries have not read, and what is kept for undeclared ones alone."""
        lag = sum(s.bytes for segments in self._unread().values() for s in segments)
        return lag + self._undeclared.held_bytes()

    def give_up(self, given: Sequence[tuple[Runnable, Sequence[Waiting]]], why: str) -> None:
        """Moves queries permanently past what was taken, all of them or none."""
        moves = [move for query, taken in given for move in self._moves(query, taken)]
        self._log.give_up(why, moves)
        # What is shed is reported by the spell; it would be ten lines a second and query.
        level = logging.DEBUG if why == SHED else logging.WARNING
        for query, taken in given:
            rows = sum(item.tuples for item in taken)
            self._emit(
                "gave-up", f"{rows} rows ({why})", level=level, query=query.name, rows=rows, why=why
            )

    def _note(self, unread: int, most: int) -> None:
        waits, full = self._backpressure, unread > most
        if full and not waits.full:
            message = "the log is full: sources wait for queries that must not lose rows"
            self._emit("log-full", message, level=logging.WARNING, bytes=unread, max_bytes=most)
        elif waits.full and not full:
            self._emit("log-has-room", "sources continue", bytes=unread, max_bytes=most)
        waits.full, waits.unread_bytes = full, unread

    def _lagging(self) -> dict[str, Cursor]:
        """Where the query that lags most is, by stream, if one does.

        What open windows hold is no lag: sources that waited for it would never continue.
        """
        lows: dict[str, Cursor] = {}
        cursors = self._log.cursors()
        view = self._engine.look()
        for q, query in enumerate(view.facts):
            waits = view.waiting[q] > 0 or view.in_job[q]
            if view.states[q] == "dropped" or not waits:
                continue
            for stream in query.reads:
                at = cursors[query.name, stream]
                lows[stream] = min(at, lows.get(stream, at))
        return lows

    def _unread(self) -> dict[str, list[Segment]]:
        """The segments that some query has not read to the end and could, by stream.

        Others are kept for other reasons (the newest may come again); removing them frees nothing.
        """
        return {
            stream: [s for s in self._store.segments(stream) if s.seq >= low.seq]
            for stream, low in self._lagging().items()
        }

    def _log_full(self, to_free_bytes: int) -> LogFull:
        """Where lagging queries that may skip would have to be."""
        kept = self._unread()
        cut = cuts((s for segments in kept.values() for s in segments), to_free_bytes)
        view = self._engine.look()
        windows = {
            q: self._closed_before(q, cut)
            for q, facts in enumerate(view.facts)
            if facts.answers == "windows" and view.states[q] != "dropped"
        }
        return LogFull(cut, windows)

    def _closed_before(self, query: int, cut: Mapping[str, Cursor]) -> int:
        """The tuples of the oldest closed windows that hold a query before these places."""
        runnable = self._catalog.runnables[query]
        windowing = runnable.checked.windows
        assert windowing is not None
        starts = self._log.places(runnable.name)
        held = {s: at for s, at in cut.items() if s in windowing.times and starts[s] < at}
        waiting = self._engine.waiting(query) if held else ()

        def lets_go(item: Waiting) -> bool:
            """Whether nothing before those places is needed once this item's windows are gone."""
            lows = (low_water(windowing, self._store, s, starts[s], item.closes_us) for s in held)
            return all(low >= at for low, at in zip(lows, held.values(), strict=True))

        # Later windows need later rows, so the first item that lets go is found by halving.
        last = bisect_left(waiting, True, key=lets_go)
        return sum(item.tuples for item in waiting[: last + 1])

    def _moves(self, query: Runnable, taken: Sequence[Waiting]) -> list[tuple[Move, int]]:
        """How a query moves past what was taken, and how many rows each move loses."""
        name, windowing = query.name, query.checked.windows
        if windowing is not None:
            rows = sum(item.tuples for item in taken)
            moves = past(name, windowing, taken, self._store, self._log.places(name))
            return [(move, rows if isinstance(move, ProgressMove) else 0) for move in moves]
        lost: dict[str, int] = {}
        for item in taken:
            lost[item.stream] = lost.get(item.stream, 0) + item.tuples
        passed = self._store.passed(taken)
        return [(CursorMove(name, s, *at), lost[s]) for s, at in passed.items()]
