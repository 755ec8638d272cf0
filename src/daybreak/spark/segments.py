"""The segment store: what arrived, in order, durable before its source forgets it.

A stream is a row of segments numbered from 0 without gaps, each one row of the commit log, which
holds a small one itself; a large one is a Parquet file. Rows, their order and their arrival stamp
are as first seen: a micro-batch that Structured Streaming repeats after a crash finds its segment
and changes nothing.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model import ConfigError, EngineBug
from daybreak.spark.commitlog import CommitLog
from daybreak.spark.durable import file_name, make_folder, write_durably
from daybreak.spark.logrows import Cursor, SegmentRow
from daybreak.spark.rundir import RunDirectory
from daybreak.spark.windows.clock import EventClock
from daybreak.spark.windows.times import NEVER

#: Up to this size a segment's rows are kept in the commit log: one wait for the disk, not three.
SMALL_BYTES = 2**18
#: Column that ``append`` adds: when ingest saw the row, in ns since 1970.
ARRIVAL = "_arrival_ns"

Segment: TypeAlias = SegmentRow


OnSegment: TypeAlias = Callable[[Segment], None]


def _nobody(_segment: Segment) -> None:
    """Is told."""


class SegmentStore:
    """All segments of one run directory. Methods may be called from any thread.

    Tables appended or read lately stay in memory, up to ``memory_bytes`` in all.
    """

    def __init__(
        self,
        rundir: RunDirectory,
        log: CommitLog,
        memory_bytes: int = 2**28,
        small_bytes: int = SMALL_BYTES,
    ) -> None:
        self._folder = rundir.segments
        self._log = log
        self._guard = threading.RLock()
        self._streams: dict[str, list[Segment]] = {}
        #: What all of them take.
        self._bytes = 0
        self._tables = _Tables(memory_bytes)
        self._small_bytes = small_bytes
        self._appending: dict[str, threading.Lock] = {}
        self._clocks: dict[str, EventClock] = {}
        for segment in log.segments():
            self._streams.setdefault(segment.stream, []).append(segment)
            self._bytes += segment.bytes
            self._check(segment)
        self._remove_unlisted()

    def _check(self, segment: Segment) -> None:
        """Nothing is begun on a log with a hole in it."""
        path = self._folder / segment.file
        found = None if segment.file and not path.is_file() else segment.bytes
        if segment.file and found is not None:
            found = path.stat().st_size
        if found != segment.bytes:
            raise ConfigError(
                str(path),
                "is missing" if found is None else f"has {found} bytes, not {segment.bytes}",
                "restore it, or choose a new run directory",
            )

    def append(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: object,
        table: pa.Table,
        arrival_ns: int,
        listed: OnSegment = _nobody,
    ) -> Segment | None:
        """Makes one micro-batch durable; None if it has no rows.

        ``listed`` is told of the segment before the wait for the disk: its rows may be read
        then, and whatever the log commits after that makes them durable too.

        The same batch of the same checkpoint gives the segment first made of it. Anything else
        that does not follow the newest segment is a ``ConfigError``: the checkpoint and the
        segments tell different stories, and joining them would lose or repeat rows.
        """
        with self._guard:
            turn = self._appending.setdefault(stream, threading.Lock())
        with turn:
            text = _canonical(offsets)
            segment = self._replayed(stream, checkpoint_id, batch_id, text)
            if segment is None and table.num_rows:
                segment = self._listed(stream, checkpoint_id, batch_id, text, table, arrival_ns)
            if segment is not None:
                listed(segment)
                self._log.sync()
            return segment

    def _listed(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: str,
        table: pa.Table,
        arrival_ns: int,
    ) -> Segment:
        """A new segment, in its turn."""
        stamped = _stamped(stream, table, arrival_ns)
        clock = self._clocks.get(stream)
        span = clock.span(table)._asdict() if clock is not None else {}
        seq = self.end(stream).seq
        file, content = "", None
        if stamped.nbytes <= self._small_bytes:
            content = _ipc(stamped)
            size = len(content)
        else:
            file = f"{file_name(stream)}/{seq:012d}.parquet"
            path = self._folder / file
            make_folder(path.parent)
            size = write_durably(path, lambda out: pq.write_table(stamped, out))
        segment = Segment(
            stream=stream,
            seq=seq,
            checkpoint_id=checkpoint_id,
            batch_id=batch_id,
            offsets=offsets,
            rows=table.num_rows,
            bytes=size,
            arrival_ns=arrival_ns,
            file=file,
            **span,
        )
        self._log.add_segment(segment, content)
        if clock is not None:
            clock.moved(span["high_us"], span["after_us"])
        with self._guard:
            self._streams.setdefault(stream, []).append(segment)
            self._bytes += segment.bytes
            self._tables.put(segment, stamped)
        return segment

    def keep_time(self, stream: str, column: str, delay_us: int | None) -> None:
        """From now on each segment of the stream records its event time; see ``EventClock``."""
        clock = EventClock(column, delay_us)
        for segment in self.segments(stream):
            if segment.after_us is not None:
                clock.moved(segment.high_us, segment.after_us)
        before_seq, watermark_us = self._log.marks().get(stream, (0, NEVER))
        if before_seq == self.end(stream).seq:
            clock.moved(None, watermark_us)
        self._clocks[stream] = clock

    def clock(self, stream: str) -> EventClock | None:
        """The event time of a stream; None where none was declared."""
        return self._clocks.get(stream)

    def raise_watermark(self, stream: str, watermark_us: int) -> bool:
        """Closes windows without a row: durable when this returns; False if they were closed."""
        with self._guard:
            turn = self._appending.setdefault(stream, threading.Lock())
        with turn:
            clock = self._clocks[stream]
            if watermark_us <= clock.watermark_us:
                return False
            self._log.set_mark(stream, self.end(stream).seq, watermark_us)
            clock.moved(None, watermark_us)
            return True

    def segments(self, stream: str) -> list[Segment]:
        """What is kept of a stream, oldest first."""
        with self._guard:
            return list(self._streams.get(stream, ()))

    def begin(self, stream: str) -> Cursor:
        """The oldest row that is kept."""
        kept = self.segments(stream)
        return Cursor(kept[0].seq, 0) if kept else Cursor(0, 0)

    def end(self, stream: str) -> Cursor:
        """Where the next segment will begin."""
        kept = self.segments(stream)
        return Cursor(kept[-1].seq + 1, 0) if kept else Cursor(0, 0)

    def rows(self, stream: str, start: Cursor, limit: int | None = None) -> tuple[pa.Table, Cursor]:
        """At most ``limit`` rows from ``start`` on, and the cursor after them.

        Slices, not copies; the stamp is column ``ARRIVAL``. A range ends early where the
        stream's schema changes. ``EngineBug`` if ``start`` is removed or was never appended.
        """
        parts: list[pa.Table] = []
        at, left = start, limit
        for segment in self._from(stream, start):
            if left == 0:
                break
            whole = self.table(segment)
            if parts and not whole.schema.equals(parts[0].schema):
                break
            part = whole.slice(at.row, left)
            parts.append(part)
            left = None if left is None else left - part.num_rows
            at = _after(segment, at.row + part.num_rows)
        if not parts:
            return self._newest(stream).slice(0, 0), start
        return pa.concat_tables(parts), at

    def pending(self, stream: str, cursor: Cursor) -> list[tuple[int, int]]:
        """Arrival stamp and number of rows of every segment not read to its end, oldest first."""
        kept = self._from(stream, cursor)
        skipped = {cursor.seq: cursor.row}
        return [(s.arrival_ns, s.rows - skipped.get(s.seq, 0)) for s in kept]

    def after(self, stream: str, start: Cursor, rows: int) -> Cursor:
        """The cursor so many rows after ``start``, at most the end."""
        at = start
        for segment in self._from(stream, start):
            if rows <= 0:
                break
            part = min(rows, segment.rows - at.row)
            rows -= part
            at = _after(segment, at.row + part)
        return at

    def sync(self) -> None:
        """Waits until all segments that are listed are durable."""
        self._log.sync()

    def held_bytes(self) -> int:
        """What all segments take."""
        return self._bytes

    def table(self, segment: Segment) -> pa.Table:
        """All rows of one segment, from memory or from its file."""
        with self._guard:
            table = self._tables.get(segment)
        if table is None:
            table = self._checked(segment)
            with self._guard:
                self._tables.put(segment, table)
        return table

    def _checked(self, segment: Segment) -> pa.Table:
        """``ConfigError`` if what was made durable cannot be read as it was."""
        try:
            table = self._load(segment)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _damaged(segment, str(error).splitlines()[0]) from error
        if table.num_rows != segment.rows or ARRIVAL not in table.column_names:
            raise _damaged(segment, f"{table.num_rows} rows, not {segment.rows}")
        return table

    def _load(self, segment: Segment) -> pa.Table:
        if not segment.file:
            return pa.ipc.open_stream(self._log.segment_content(segment)).read_all()
        return pq.read_table(self._folder / segment.file, partitioning=None)

    def remove_below(self, stream: str, cursor: Cursor) -> list[Segment]:
        """Removes segments that lie wholly before ``cursor``; gives what was removed.

        The newest always stays: its batch may still come again, and must find it.
        """
        kept = self.segments(stream)
        below = min(cursor.seq, kept[-1].seq) if kept else 0
        gone = [s for s in kept if s.seq < below]
        if not gone:
            return []
        self._log.forget_segments(stream, below)
        with self._guard:
            self._streams[stream] = [s for s in self._streams[stream] if s.seq >= below]
            for segment in gone:
                self._bytes -= segment.bytes
                self._tables.drop(segment)
        for segment in filter(lambda s: s.file, gone):
            (self._folder / segment.file).unlink(missing_ok=True)
        return gone

    def _from(self, stream: str, start: Cursor) -> list[Segment]:
        kept = self.segments(stream)
        first = kept[0].seq if kept else 0
        end = kept[-1].seq + 1 if kept else 0
        inside = first <= start.seq < end and 0 <= start.row < kept[start.seq - first].rows
        if not inside and start != Cursor(end, 0):
            raise EngineBug(
                f"stream {stream!r}: {tuple(start)} is not a row of segments {first} to {end - 1}"
            )
        return kept[start.seq - first :]

    def _newest(self, stream: str) -> pa.Table:
        kept = self.segments(stream)
        if not kept:
            raise EngineBug(f"stream {stream!r} has no segment, so its schema is not known")
        return self.table(kept[-1])

    def _replayed(
        self, stream: str, checkpoint_id: str, batch_id: int, offsets: str
    ) -> Segment | None:
        kept = self.segments(stream)
        if not kept:
            return None
        newest = kept[-1]
        if newest.checkpoint_id != checkpoint_id:
            raise _mismatch(
                stream,
                f"its segments end with batch {newest.batch_id} of checkpoint "
                f"{newest.checkpoint_id}, but batch {batch_id} comes from checkpoint "
                f"{checkpoint_id}: the checkpoint was deleted or replaced",
            )
        if batch_id > newest.batch_id:
            return None
        known = self._log.find_batch(stream, checkpoint_id, batch_id)
        if known is None:
            raise _mismatch(
                stream,
                f"batch {batch_id} comes again though its segments go on to batch "
                f"{newest.batch_id}: the checkpoint was set back",
            )
        if known.offsets != offsets:
            raise _mismatch(
                stream,
                f"batch {batch_id} comes again with offsets {_short(offsets)}, but its segment "
                f"holds {_short(known.offsets)}: the checkpoint was changed",
            )
        return known

    def _remove_unlisted(self) -> None:
        """A crash between a file and its row in the log leaves the file; its batch comes again."""
        listed = {s.file for kept in self._streams.values() for s in kept}
        found = list(self._folder.glob("*/*"))
        if found and self._log.run == 1:
            raise ConfigError(
                str(self._folder),
                "holds segments, but the commit log is new: state.db was removed or replaced",
                "restore it, or choose a new run directory",
            )
        for path in found:
            if path.relative_to(self._folder).as_posix() not in listed:
                path.unlink()


class _Tables:
    """The tables used last, up to a number of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._held: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._bytes = 0

    def put(self, segment: Segment, table: pa.Table) -> None:
        self.drop(segment)
        self._held[segment.stream, segment.seq] = table
        self._bytes += table.nbytes
        while self._bytes > self._capacity_bytes:
            _, oldest = self._held.popitem(last=False)
            self._bytes -= oldest.nbytes

    def get(self, segment: Segment) -> pa.Table | None:
        key = (segment.stream, segment.seq)
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def drop(self, segment: Segment) -> None:
        table = self._held.pop((segment.stream, segment.seq), None)
        if table is not None:
            self._bytes -= table.nbytes


def _stamped(stream: str, table: pa.Table, arrival_ns: int) -> pa.Table:
    if ARRIVAL in table.column_names:
        raise ConfigError(
            f"stream {stream!r}", f"has a column {ARRIVAL}, which is ours", "rename that column"
        )
    stamp = pa.repeat(pa.scalar(arrival_ns, pa.int64()), table.num_rows)
    return table.append_column(pa.field(ARRIVAL, pa.int64(), nullable=False), stamp)


def _ipc(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


def _after(segment: Segment, row: int) -> Cursor:
    return Cursor(segment.seq, row) if row < segment.rows else Cursor(segment.seq + 1, 0)


def _canonical(offsets: object) -> str:
    """Offsets as one text, equal for equal offsets, given as JSON text or as its value."""
    if isinstance(offsets, str):
        with suppress(ValueError):
            offsets = json.loads(offsets)
    return json.dumps(offsets, sort_keys=True, separators=(",", ":"))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _damaged(segment: Segment, finding: str) -> ConfigError:
    return ConfigError(
        f"stream {segment.stream!r}",
        f"segment {segment.seq} is damaged ({finding})",
        "restore it, or choose a new run directory",
    )


def _mismatch(stream: str, finding: str) -> ConfigError:
    return ConfigError(
        f"stream {stream!r}",
        finding,
        "put the checkpoint back as it was, or start with a new run directory",
    )
