"""The segment store: what arrived, in order, durable before its source forgets it.

A stream is a row of segments numbered from 0 without gaps, each one row of the commit log, which
holds a small one itself; a larger one is a Parquet file, and one that never passed the driver a
folder of them (``large_segments``). Rows, their order and their arrival stamp
are as first seen: a micro-batch that Structured Streaming repeats after a crash finds its segment
and changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.log import large_segments as large
from daybreak.spark.log.batches import canonical, comes_again, the_same
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.driver_rows import DriverRows
from daybreak.spark.log.durable import file_name
from daybreak.spark.log.event_clock import EventClock, Span
from daybreak.spark.log.event_time import FOREVER, NEVER
from daybreak.spark.log.positions import SourceMove
from daybreak.spark.log.rows import Cursor, Part, SegmentRow
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.schemas import StreamSchemas
from daybreak.spark.log.segment_files import SegmentFiles, WriteParts
from daybreak.spark.log.segment_index import SegmentIndex
from daybreak.spark.log.tables import STAMP, TableCache, ipc_bytes, stamped

#: Up to this size a segment's rows are kept in the commit log: one wait for the disk, not three.
SMALL_BYTES = 2**18

Segment: TypeAlias = SegmentRow

OnSegment: TypeAlias = Callable[[Segment], None]


def _nobody(_segment: Segment) -> None:
    """Is told."""


class SegmentStore(SegmentIndex):
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
        kept = list(log.segments())
        super().__init__(kept)
        self._data = rundir.store
        self._files = SegmentFiles(rundir.segments, rundir.store, log)
        self._log = log
        self._tables: TableCache[tuple[str, int]] = TableCache(memory_bytes)
        self._small_bytes = small_bytes
        self._appending: dict[str, threading.Lock] = {}
        self._clocks: dict[str, EventClock] = {}
        self._schemas = StreamSchemas(log)
        #: Rows that were in the driver's memory.
        self.driver_rows = DriverRows()
        self._files.check(kept)

    def append(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: object,
        table: pa.Table,
        arrival_ns: int,
        listed: OnSegment = _nobody,
        move: SourceMove | None = None,
        *,
        moves_time: bool = True,
    ) -> Segment | None:
        """Makes one micro-batch durable; None if it has no rows.

        ``listed`` is told of the segment before the wait for the disk: its rows may be read
        then, and whatever the log commits after that makes them durable too.

        The same batch of the same checkpoint gives the segment first made of it. Anything else
        that does not follow the newest segment is a ``ConfigError``: the checkpoint and the
        segments tell different stories, and joining them would lose or repeat rows.

        ``move``: of a source whose position is in the log, and moves with the rows or without.
        ``moves_time``: the watermark follows the rows; else it is held, until a later segment or
        ``move_held_time``.
        """
        with self._turn(stream):
            text = canonical(offsets)
            segment = self._replayed(stream, checkpoint_id, batch_id, text)
            if segment is None and table.num_rows:
                segment = self._listed(
                    stream, checkpoint_id, batch_id, text, table, arrival_ns, move,
                    moves_time=moves_time,
                )  # fmt: skip
            elif move is not None:
                self._log.move_source(move)
            self._announce(segment, listed, moved=move is not None)
            return segment

    def _announce(self, segment: Segment | None, listed: OnSegment, *, moved: bool) -> None:
        """Queries hear of a segment before the wait for the disk."""
        if segment is not None:
            listed(segment)
        if segment is not None or moved:
            self._log.sync()

    def catch_up(self, stream: str, listed: OnSegment) -> None:
        """Lists what is in the log and not known here: of a commit that seemed to have failed."""
        with self._turn(stream):
            for segment in self._log.segments(stream, self.end(stream).seq):
                if segment.after_us is not None and stream in self._clocks:
                    self._clocks[stream].moved(segment.high_us, segment.after_us)
                self._list(segment)
                listed(segment)

    def append_files(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: object,
        write: WriteParts,
        arrival_ns: int,
        listed: OnSegment = _nobody,
        move: Callable[[], SourceMove] | None = None,
        *,
        moves_time: bool = True,
    ) -> Segment | None:
        """The same of a micro-batch that executors write: no row passes the driver.

        ``write`` is given a fresh folder and the column with the event time; it gives the files
        that the segment consists of, durable. It is not called for a batch that is known.
        ``move``, as of ``append``, is called after it.
        """
        text = canonical(offsets)
        with self._turn(stream):
            segment = self._replayed(stream, checkpoint_id, batch_id, text)
        # Others may close windows meanwhile, so it takes no turn.
        file = large.new_folder(stream, self.end(stream).seq, self._log.run)
        clock = self._clocks.get(stream)
        time = None if clock is None else clock.column
        parts = self._files.write_parts(file, write, time) if segment is None else ()
        with self._turn(stream):
            if parts and (segment := self._replayed(stream, checkpoint_id, batch_id, text)):
                self._files.remove(file)  # another thread was faster
            elif parts:
                segment = self._listed_files(
                    parts, stream=stream, checkpoint_id=checkpoint_id, batch_id=batch_id,
                    offsets=text, arrival_ns=arrival_ns, file=file,
                    move=None if move is None else move(), moves_time=moves_time,
                )  # fmt: skip
            elif move is not None:
                self._log.move_source(move())
            self._announce(segment, listed, moved=move is not None)
            return segment

    def _listed_files(
        self, parts: tuple[Part, ...], *, stream: str, moves_time: bool, **known: Any
    ) -> Segment:
        clock = self._clocks.get(stream)
        low = min((p.low_us for p in parts if p.low_us is not None), default=None)
        high = max((p.high_us for p in parts if p.high_us is not None), default=None)
        return self._added(
            stream=stream, parts=parts, rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            span=None if clock is None else clock.span_of(low, high, moves=moves_time), **known,
        )  # fmt: skip

    def _turn(self, stream: str) -> threading.Lock:
        with self._guard:
            return self._appending.setdefault(stream, threading.Lock())

    def _listed(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: str,
        table: pa.Table,
        arrival_ns: int,
        move: SourceMove | None,
        *,
        moves_time: bool,
    ) -> Segment:
        """A new segment, in its turn."""
        rows = self._schemas.as_declared(stream, stamped(stream, table, arrival_ns))
        clock = self._clocks.get(stream)
        seq = self.end(stream).seq
        file, content = "", None
        if rows.nbytes <= self._small_bytes:
            content = ipc_bytes(rows)
            size = len(content)
        else:
            # With the epoch: a driver that was replaced must not write over its successor's.
            file = f"{file_name(stream)}/{seq:012d}-{self._log.run:04d}.parquet"
            size = self._files.write(file, rows)
        segment = self._added(
            stream=stream, checkpoint_id=checkpoint_id, batch_id=batch_id, offsets=offsets,
            rows=table.num_rows, bytes=size, arrival_ns=arrival_ns, file=file, content=content,
            move=move, span=None if clock is None else clock.span(table, moves=moves_time),
        )  # fmt: skip
        with self._guard:
            self._tables.put((stream, seq), rows)
        self.driver_rows.of_stream(stream, table.num_rows)
        return segment

    def _added(
        self,
        *,
        stream: str,
        span: Span | None,
        move: SourceMove | None,
        content: bytes | None = None,
        **known: Any,
    ) -> Segment:
        """A segment whose content is durable, or goes with the row."""
        times = {} if span is None else span._asdict()
        segment = Segment(stream=stream, seq=self.end(stream).seq, **known, **times)
        self._log.add_segment(segment, content, move)
        if span is not None:
            self._clocks[stream].moved(span.high_us, span.after_us)
        self._list(segment)
        return segment

    def wait(self) -> None:
        """Waits for a store that is out of reach."""
        self._data.wait()

    def confirm_folder(self) -> None:
        """``LogUnavailable`` while the store is out of reach."""
        self._data.confirm()

    def confirm(self) -> None:
        """As ``confirm_folder``; ``LeaseLost`` if another driver has taken over."""
        self._data.confirm()
        self._log.confirm_lease()

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
        """Closes windows without a row; False if they were closed.

        The log has it before anything that follows from it, so it needs no wait for the disk.
        """
        with self._turn(stream):
            clock, watermark_us = self._clocks[stream], min(watermark_us, FOREVER)
            if watermark_us <= clock.watermark_us:
                return False
            self._log.set_mark(stream, self.end(stream).seq, watermark_us)
            clock.moved(None, watermark_us)
            return True

    def move_held_time(self, stream: str) -> int | None:
        """Takes the watermark to where rows have taken it; None if it is there, or not kept."""
        clock = self._clocks.get(stream)
        held_us = None if clock is None else clock.held_us
        return held_us if held_us is not None and self.raise_watermark(stream, held_us) else None

    def read_as(self, stream: str, schema: pa.Schema) -> None:
        """From now on rows of the stream have these columns; call it before reading any.

        Rows of an older schema are widened to it. If that could lose something, ``begin`` lies
        after them.
        """
        self._schemas.declare(
            stream, schema.append(STAMP), self.segments(stream), self._files.schema
        )

    def unreadable(self, stream: str, cursor: Cursor) -> str | None:
        """Why rows from here on cannot be read as the stream is declared; None if they can."""
        known = self._schemas.readable(stream)
        return known.why if known is not None and cursor < self.begin(stream) else None

    def begin(self, stream: str) -> Cursor:
        """The oldest row that is kept and can be read as the stream is declared."""
        kept, known = self.segments(stream), self._schemas.readable(stream)
        if not kept:
            return Cursor(0, 0)
        return Cursor(max(kept[0].seq, known.from_seq if known is not None else 0), 0)

    def read(self, taken: Sequence[Waiting]) -> pa.Table:
        """The rows of one stream that were taken: slices, not copies, with column ``ARRIVAL``."""
        return pa.concat_tables([self._rows(item) for item in taken])

    def _rows(self, item: Waiting) -> pa.Table:
        segment = self._segment(item.stream, item.seq)
        if not segment.parts:
            return self.table(segment).slice(item.row, item.tuples)
        # Of a large one, no file is read but those that hold the rows.
        folder = self._files.folder
        loaded = self._files.readable(segment, lambda s: large.read_rows(folder, s, item))
        self.driver_rows.of_stream(item.stream, loaded.num_rows)
        return self._schemas.as_declared(item.stream, loaded)

    def files(self, taken: Iterable[Waiting]) -> list[large.FileRows]:
        """The files that whole items consist of."""
        return [
            file
            for item in taken
            for file in large.files_of(
                self._files.folder, self._segment(item.stream, item.seq), item
            )
        ]

    def is_as_declared(self, stream: str, seq: int) -> bool:
        """Whether a segment was written with the schema that its stream has now."""
        return self._schemas.is_newest(stream, seq)

    def sync(self) -> None:
        """Waits until all segments that are listed are durable."""
        self._log.sync()

    def table(self, segment: Segment) -> pa.Table:
        """All rows of one segment, from memory or from its file, as the stream is declared."""
        key = (segment.stream, segment.seq)
        with self._guard:
            table = self._tables.get(key)
        if table is None:
            table = self._schemas.as_declared(segment.stream, self._files.read(segment))
            if segment.parts:  # too large to be kept
                self.driver_rows.of_stream(segment.stream, table.num_rows)
                return table
            with self._guard:
                self._tables.put(key, table)
        return table

    def pieces(self, segment: Segment, parts: Iterable[Part]) -> Iterator[pa.Table]:
        """The rows of parts of a large segment, as the stream is declared, a piece at a time."""
        for table in large.scan(self._files.folder, segment, parts):
            self.driver_rows.of_stream(segment.stream, table.num_rows)
            yield self._schemas.as_declared(segment.stream, table)

    def sample(self, segment: Segment, rows: int) -> pa.Table:
        """The last rows of a segment, about so many; of a large one, of its last row group."""
        if segment.parts:
            loaded = self._files.readable(segment, lambda s: large.tail(self._files.folder, s))
            table = self._schemas.as_declared(segment.stream, loaded)
        else:
            table = self.table(segment)
        return table.slice(max(0, table.num_rows - rows))

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
            self._unlist(stream, below)
            for segment in gone:
                self._tables.drop((stream, segment.seq))
        for segment in filter(lambda s: s.file, gone):
            self._files.remove(segment.file)
        return gone

    def _replayed(
        self, stream: str, checkpoint_id: str, batch_id: int, offsets: str
    ) -> Segment | None:
        kept = self.segments(stream)
        if not kept or not comes_again(kept[-1], checkpoint_id, batch_id):
            return None
        known = self._log.find_batch(stream, checkpoint_id, batch_id)
        seq = the_same(known, kept[-1], batch_id, offsets).seq
        return self._segment(stream, seq)
