"""Queries that earlier starts declared and this one does not: they keep their places for a while.

An edit of a pipeline may leave a query out by mistake, or for an hour. So its cursors stay, and
with them the segments that wait for it, until the user forgets it or ``[limits] keep_undeclared``
has passed since a start first missed it. Declared again with the same SQL it continues there.

It does not hold up others: when the log is full it gives up its oldest rows before any query that
is declared, whatever its ``on_full`` was. A query over windows would emit incomplete windows then,
so it is forgotten instead.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import UTC, datetime

from daybreak.engine.lifecycle import FULL
from daybreak.model.errors import ConfigError, suggestion
from daybreak.runtime.eventlog import Emit
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove
from daybreak.spark.log.segments import Segment, SegmentStore

#: The last instant that has a date.
LAST_S = 253_402_300_799


class Undeclared:
    """What is kept for queries that nobody declares. Used by the loop's thread, and before it."""

    def __init__(
        self,
        log: CommitLog,
        store: SegmentStore,
        emit: Emit,
        declared: Collection[str],
        left_ns: Mapping[str, int],
        now_ns: int,
        monotonic_ns: int,
    ) -> None:
        """``left_ns``: the queries, and for how long each is kept.

        ``declared``: streams whose segments others remove.
        """
        self._log = log
        self._store = store
        self._emit = emit
        self._declared = declared
        # By the monotonic clock: a step of the other must not lose rows.
        self._until_ns = {name: monotonic_ns + left for name, left in left_ns.items()}
        #: Until when each is kept, for people.
        self.until = {
            name: datetime.fromtimestamp(min((now_ns + left) // 10**9, LAST_S), UTC).isoformat()
            for name, left in left_ns.items()
        }
        self._cursors: dict[str, dict[str, Cursor]] = {name: {} for name in left_ns}
        for (name, stream), cursor in log.cursors().items():
            if name in self._cursors:
                self._cursors[name][stream] = cursor

    def announce(self) -> None:
        """Tells which queries are kept, and until when."""
        for name, until in self.until.items():
            message = (
                f"is no longer declared: its place in the streams is kept until {until}; "
                f"--forget {name} gives it up"
            )
            self._emit("undeclared", message, level=logging.WARNING, query=name, until=until)

    def held_bytes(self) -> int:
        """What only they still need."""
        return sum(s.bytes for segments in self._held().values() for s in segments)

    def expire(self, monotonic_ns: int) -> None:
        """Forgets those that have been kept long enough."""
        for name in [n for n, until_ns in self._until_ns.items() if until_ns <= monotonic_ns]:
            self.forget(name, "keep_undeclared has passed")

    def forget(self, name: str, why: str) -> None:
        """Gives up a query's place; what it has delivered, or committed, stays."""
        streams = self._cursors[name]
        self._log.drop_query(name)
        del self._cursors[name], self._until_ns[name], self.until[name]
        announce_forgotten(self._emit, name, why)
        self.remove_passed(streams)

    def give_way(self, to_free_bytes: int) -> None:
        """Frees as much of the log as they alone hold, oldest segments first."""
        held = self._held()
        cut = cuts((s for segments in held.values() for s in segments), to_free_bytes)
        whole = self._log.progress().keys() | self._log.batches().keys()
        for name, cursors in list(self._cursors.items()):
            behind = {s: at for s, at in cursors.items() if s in cut and at < cut[s]}
            if behind and name in whole:
                self.forget(name, "the log is full, and its results would be incomplete")
            elif behind:
                self._skip(name, behind, cut, held)
        self.remove_passed(cut)

    def _held(self) -> dict[str, list[Segment]]:
        """Segments that they have not read and nobody else needs, by stream.

        They could not free others, which open windows may hold.
        """
        lows: dict[str, Cursor] = {}
        for cursors in self._cursors.values():
            for stream, at in cursors.items():
                lows[stream] = min(at, lows.get(stream, at))
        held: dict[str, list[Segment]] = {}
        for stream, low in lows.items():
            needed = self._log.low_water(stream, declared=True) or self._store.end(stream)
            kept = self._store.segments(stream)
            held[stream] = [s for s in kept if low.seq <= s.seq < needed.seq]
        return held

    def _skip(
        self,
        name: str,
        behind: Mapping[str, Cursor],
        cut: Mapping[str, Cursor],
        held: Mapping[str, list[Segment]],
    ) -> None:
        moves = [
            (CursorMove(name, s, at, cut[s]), rows_before(held[s], at, cut[s]))
            for s, at in behind.items()
        ]
        self._log.give_up(FULL, moves)
        self._cursors[name].update({move.stream: move.new for move, _ in moves})
        rows = sum(rows for _, rows in moves)
        message = f"{rows} rows of a query that is not declared ({FULL})"
        self._emit("gave-up", message, level=logging.WARNING, query=name, rows=rows, why=FULL)

    def remove_passed(self, streams: Iterable[str]) -> None:
        """Also of streams that are no longer declared: nobody else looks after those."""
        for stream in streams:
            if stream not in self._declared:
                low = self._log.low_water(stream) or self._store.end(stream)
                self._store.remove_below(stream, low)


def cuts(segments: Iterable[Segment], to_free_bytes: int) -> dict[str, Cursor]:
    """Up to where each stream must be given up to free so much, oldest segments first."""
    cut: dict[str, Cursor] = {}
    for segment in sorted(segments, key=lambda s: (s.arrival_ns, s.stream, s.seq)):
        if to_free_bytes <= 0:
            break
        to_free_bytes -= segment.bytes
        cut[segment.stream] = Cursor(segment.seq + 1, 0)
    return cut


def refuse_unknown(log: CommitLog, declared: Container[str], forget: Iterable[str]) -> None:
    """``ConfigError`` unless each query to forget is known here, and the pipeline leaves it out."""
    left_out = [name for name in log.queries() if name not in declared]
    for name in forget:
        if name in declared:
            remedy = f"remove it there, or restart it with --reset-query {name}"
            raise ConfigError("--forget", f"query {name!r} is declared in the pipeline", remedy)
        if name not in left_out:
            raise ConfigError("--forget", f"unknown query {name!r}", suggestion(name, left_out))


def time_left_ns(
    log: CommitLog, declared: Container[str], keep_ns: int, now_ns: int
) -> dict[str, int]:
    """For how long each query that is not declared is kept; nothing or less: no longer."""
    since_ns = log.undeclared()
    return {
        # The wall clock may have been set back since.
        name: keep_ns - max(0, now_ns - since_ns.get(name, now_ns))
        for name in log.queries()
        if name not in declared
    }


def announce_forgotten(emit: Emit, name: str, why: str) -> None:
    message = f"its place in the streams is given up ({why})"
    emit("forgotten", message, level=logging.WARNING, query=name, why=why)


def rows_before(segments: Iterable[Segment], start: Cursor, end: Cursor) -> int:
    """Rows from ``start`` up to, and without, ``end``."""
    inside = [s for s in segments if start.seq <= s.seq < end.seq]
    return sum(s.rows for s in inside) - (start.row if inside and start.seq < end.seq else 0)
