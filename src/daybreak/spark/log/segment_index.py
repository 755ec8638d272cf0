"""Which segments there are, and where in them a row is."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.model import EngineBug
from daybreak.spark.log.rows import Cursor, SegmentRow


class SegmentIndex:
    """The segments of all streams, oldest first. Methods may be called from any thread."""

    def __init__(self, kept: Iterable[SegmentRow]) -> None:
        self._guard = threading.RLock()
        self._streams: dict[str, list[SegmentRow]] = {}
        #: What all of them take.
        self._bytes = 0
        for segment in kept:
            self._list(segment)

    def _list(self, segment: SegmentRow) -> None:
        with self._guard:
            self._streams.setdefault(segment.stream, []).append(segment)
            self._bytes += segment.bytes

    def _unlist(self, stream: str, below: int) -> None:
        """Leaves out the segments of a stream before this one."""
        with self._guard:
            kept = self._streams[stream]
            self._bytes -= sum(s.bytes for s in kept if s.seq < below)
            self._streams[stream] = [s for s in kept if s.seq >= below]

    def segments(self, stream: str) -> list[SegmentRow]:
        """What is kept of a stream, oldest first."""
        with self._guard:
            return list(self._streams.get(stream, ()))

    def held_bytes(self) -> int:
        """What all segments take."""
        return self._bytes

    def end(self, stream: str) -> Cursor:
        """Where the next segment will begin."""
        kept = self.segments(stream)
        return Cursor(kept[-1].seq + 1, 0) if kept else Cursor(0, 0)

    def waiting(self, stream: str, start: Cursor, end_seq: int | None = None) -> list[Waiting]:
        """The rows from ``start`` on, by segment, oldest first; up to segment ``end_seq``.

        ``EngineBug`` if ``start`` is removed or was never appended.
        """
        found = []
        for s in self._from(stream, start):
            row = start.row if s.seq == start.seq else 0
            if end_seq is None or s.seq < end_seq:
                found += by_borders(s, row)
        return found

    def passed(self, taken: Iterable[Waiting]) -> dict[str, tuple[Cursor, Cursor]]:
        """From the first row that was taken of each stream to after the last.

        ``EngineBug`` if rows of a stream do not follow one another, or are not there.
        """
        ranges: dict[str, tuple[Cursor, Cursor]] = {}
        for item in taken:
            begin = Cursor(item.seq, item.row)
            first, at = ranges.get(item.stream, (begin, begin))
            segment = self._segment(item.stream, item.seq)
            if begin != at or item.row + item.tuples > segment.rows:
                raise EngineBug(
                    f"stream {item.stream!r}: {item.tuples} rows from {tuple(begin)} on do not "
                    f"follow {tuple(at)}"
                )
            ranges[item.stream] = first, _after(segment, item.row + item.tuples)
        return ranges

    def _segment(self, stream: str, seq: int) -> SegmentRow:
        with self._guard:
            kept = self._streams.get(stream, [])
            if not kept or not kept[0].seq <= seq <= kept[-1].seq:
                raise EngineBug(f"stream {stream!r}: segment {seq} is not there")
            return kept[seq - kept[0].seq]

    def _from(self, stream: str, start: Cursor) -> list[SegmentRow]:
        kept = self.segments(stream)
        first = kept[0].seq if kept else 0
        end = kept[-1].seq + 1 if kept else 0
        inside = first <= start.seq < end and 0 <= start.row < kept[start.seq - first].rows
        if not inside and start != Cursor(end, 0):
            raise EngineBug(
                f"stream {stream!r}: {tuple(start)} is not a row of segments {first} to {end - 1}"
            )
        return kept[start.seq - first :]


def _after(segment: SegmentRow, row: int) -> Cursor:
    return Cursor(segment.seq, row) if row < segment.rows else Cursor(segment.seq + 1, 0)
