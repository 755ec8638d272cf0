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
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.model import ConfigError, EngineBug
from daybreak.spark.event_time import NEVER
from daybreak.spark.log import large_segments as large
from daybreak.spark.log.batches import canonical, comes_again, the_same
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.driver_rows import DriverRows
from daybreak.spark.log.durable import file_name, make_folder, write_durably
from daybreak.spark.log.event_clock import EventClock, Span
from daybreak.spark.log.rows import Cursor, Part, SegmentRow
from daybreak.spark.log.rundir import RunDirectory
from daybreak.spark.log.schemas import Known, Readable, joined, noted, readable
from daybreak.spark.log.tables import ARRIVAL, TableCache, ipc_bytes
from daybreak.spark.log.widening import SchemaChanged, widened

#: Up to this size a segment's rows are kept in the commit log: one wait for the disk, not three.
SMALL_BYTES = 2**18
_STAMP = pa.field(ARRIVAL, pa.int64(), nullable=False)

Segment: TypeAlias = SegmentRow
T = TypeVar("T")

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
        self._data = rundir.store
        self._folder = rundir.segments
        self._log = log
        self._guard = threading.RLock()
        self._streams: dict[str, list[Segment]] = {}
        #: What all of them take.
        self._bytes = 0
        self._tables: TableCache[tuple[str, int]] = TableCache(memory_bytes)
        self._small_bytes = small_bytes
        self._appending: dict[str, threading.Lock] = {}
        self._clocks: dict[str, EventClock] = {}
        #: As what rows of each stream are read, and which can be.
        self._schemas: dict[str, tuple[pa.Schema, Readable]] = {}
        #: Rows that were in the driver's memory.
        self.driver_rows = DriverRows()
        for segment in log.segments():
            self._streams.setdefault(segment.stream, []).append(segment)
            self._bytes += segment.bytes
            self._check(segment)
        self._remove_unlisted()

    def _check(self, segment: Segment) -> None:
        """Nothing is begun on a log with a hole in it."""
        path = self._folder / segment.file
        if segment.file.endswith("/"):
            finding = large.check_files(self._folder, segment)
            if finding is not None:
                remedy = "restore it, or choose a new run directory"
                raise ConfigError(str(path), finding, remedy)
            return
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
        with self._turn(stream):
            text = canonical(offsets)
            segment = self._replayed(stream, checkpoint_id, batch_id, text)
            if segment is None and table.num_rows:
                segment = self._listed(stream, checkpoint_id, batch_id, text, table, arrival_ns)
            if segment is not None:
                listed(segment)
                self._log.sync()
            return segment

    def append_files(
        self,
        stream: str,
        checkpoint_id: str,
        batch_id: int,
        offsets: object,
        write: Callable[[Path, str | None], tuple[Part, ...]],
        arrival_ns: int,
        listed: OnSegment = _nobody,
    ) -> Segment | None:
        """The same of a micro-batch that executors write: no row passes the driver.

        ``write`` is given a fresh folder and the column with the event time; it gives the files
        that the segment consists of, durable. It is not called for a batch that is known.
        """
        text = canonical(offsets)
        with self._turn(stream):
            segment = self._replayed(stream, checkpoint_id, batch_id, text)
        # Others may close windows meanwhile, so it takes no turn.
        file = large.new_folder(stream, self.end(stream).seq, self._log.run)
        parts = self._written(stream, file, write) if segment is None else ()
        with self._turn(stream):
            if parts and (segment := self._replayed(stream, checkpoint_id, batch_id, text)):
                large.remove(self._folder / file)  # another thread was faster
            elif parts:
                segment = self._listed_files(
                    parts, stream=stream, checkpoint_id=checkpoint_id, batch_id=batch_id,
                    offsets=text, arrival_ns=arrival_ns, file=file,
                )  # fmt: skip
            if segment is not None:
                listed(segment)
                self._log.sync()
            return segment

    def _written(
        self, stream: str, file: str, write: Callable[[Path, str | None], tuple[Part, ...]]
    ) -> tuple[Part, ...]:
        folder, clock = self._folder / file, self._clocks.get(stream)
        self._data.wait()
        make_folder(folder.parent)
        parts: tuple[Part, ...] = ()
        try:
            parts = write(folder, None if clock is None else clock.column)
        finally:
            if not parts:
                large.remove(folder)
        return parts

    def _listed_files(self, parts: tuple[Part, ...], *, stream: str, **known: Any) -> Segment:
        clock = self._clocks.get(stream)
        low = min((p.low_us for p in parts if p.low_us is not None), default=None)
        high = max((p.high_us for p in parts if p.high_us is not None), default=None)
        return self._added(
            stream=stream, parts=parts, rows=sum(part.rows for part in parts),
            bytes=sum(part.bytes for part in parts),
            span=None if clock is None else clock.span_of(low, high), **known,
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
    ) -> Segment:
        """A new segment, in its turn."""
        stamped = self._as_declared(stream, _stamped(stream, table, arrival_ns))
        clock = self._clocks.get(stream)
        seq = self.end(stream).seq
        file, content = "", None
        if stamped.nbytes <= self._small_bytes:
            content = ipc_bytes(stamped)
            size = len(content)
        else:
            # With the epoch: a driver that was replaced must not write over its successor's.
            file = f"{file_name(stream)}/{seq:012d}-{self._log.run:04d}.parquet"
            size = self._write_file(self._folder / file, stamped)
        segment = self._added(
            stream=stream, checkpoint_id=checkpoint_id, batch_id=batch_id, offsets=offsets,
            rows=table.num_rows, bytes=size, arrival_ns=arrival_ns, file=file, content=content,
            span=None if clock is None else clock.span(table),
        )  # fmt: skip
        with self._guard:
            self._tables.put((stream, seq), stamped)
        self.driver_rows.of_stream(stream, table.num_rows)
        return segment

    def _added(
        self, *, stream: str, span: Span | None, content: bytes | None = None, **known: Any
    ) -> Segment:
        """A segment whose content is durable, or goes with the row."""
        times = {} if span is None else span._asdict()
        segment = Segment(stream=stream, seq=self.end(stream).seq, **known, **times)
        self._log.add_segment(segment, content)
        if span is not None:
            self._clocks[stream].moved(span.high_us, span.after_us)
        with self._guard:
            self._streams.setdefault(stream, []).append(segment)
            self._bytes += segment.bytes
        return segment

    def _write_file(self, path: Path, table: pa.Table) -> int:
        """Its size. Waits for a store that is out of reach."""
        while True:
            self._data.wait()
            try:
                make_folder(path.parent)
                return write_durably(path, lambda out: pq.write_table(table, out))
            except OSError:
                if self._data.trouble() is None:
                    raise

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
        """Closes windows without a row: durable when this returns; False if they were closed."""
        with self._turn(stream):
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

    def read_as(self, stream: str, schema: pa.Schema) -> None:
        """From now on rows of the stream have these columns; call it before reading any.

        Rows of an older schema are widened to it. If that could lose something, ``begin`` lies
        after them.
        """
        schema, end = schema.append(_STAMP), self.end(stream).seq
        stored, kept = self._log.schemas(stream), self.segments(stream)
        if stored:
            known = [Known(seq, pa.ipc.read_schema(pa.py_buffer(text))) for seq, text in stored]
        else:  # logs of older layouts did not record them
            known = joined((s.seq, self._readable(s, self._schema_of)) for s in kept)
        known = [k for k in known if k.from_seq < end]  # of others no segment was written
        self._schemas[stream] = schema, readable(known, schema, end)
        history = noted(known, schema, kept[0].seq if kept else 0, end)
        listed = [(k.from_seq, bytes(k.schema.serialize())) for k in history]
        if listed != stored:
            self._log.set_schemas(stream, listed)

    def unreadable(self, stream: str, cursor: Cursor) -> str | None:
        """Why rows from here on cannot be read as the stream is declared; None if they can."""
        known = self._schemas.get(stream)
        return known[1].why if known is not None and cursor < self.begin(stream) else None

    def begin(self, stream: str) -> Cursor:
        """The oldest row that is kept and can be read as the stream is declared."""
        kept, known = self.segments(stream), self._schemas.get(stream)
        if not kept:
            return Cursor(0, 0)
        return Cursor(max(kept[0].seq, known[1].from_seq if known is not None else 0), 0)

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

    def read(self, taken: Sequence[Waiting]) -> pa.Table:
        """The rows of one stream that were taken: slices, not copies, with column ``ARRIVAL``."""
        return pa.concat_tables([self._rows(item) for item in taken])

    def _rows(self, item: Waiting) -> pa.Table:
        segment = self._segment(item.stream, item.seq)
        if not segment.parts:
            return self.table(segment).slice(item.row, item.tuples)
        # Of a large one, no file is read but those that hold the rows.
        loaded = self._readable(segment, lambda s: large.read_rows(self._folder, s, item))
        self.driver_rows.of_stream(item.stream, loaded.num_rows)
        return self._as_declared(item.stream, loaded)

    def files(self, taken: Iterable[Waiting]) -> list[large.FileRows]:
        """The files that whole items consist of."""
        return [
            file
            for item in taken
            for file in self._files(self._segment(item.stream, item.seq), item)
        ]

    def _files(self, segment: Segment, item: Waiting) -> Iterable[large.FileRows]:
        return large.files_of(self._folder, segment, item)

    def is_as_declared(self, stream: str, seq: int) -> bool:
        """Whether a segment was written with the schema that its stream has now."""
        known = self._log.schemas(stream)
        return not known or known[-1][0] <= seq

    def _segment(self, stream: str, seq: int) -> Segment:
        with self._guard:
            kept = self._streams.get(stream, [])
            if not kept or not kept[0].seq <= seq <= kept[-1].seq:
                raise EngineBug(f"stream {stream!r}: segment {seq} is not there")
            return kept[seq - kept[0].seq]

    def sync(self) -> None:
        """Waits until all segments that are listed are durable."""
        self._log.sync()

    def held_bytes(self) -> int:
        """What all segments take."""
        return self._bytes

    def table(self, segment: Segment) -> pa.Table:
        """All rows of one segment, from memory or from its file, as the stream is declared."""
        key = (segment.stream, segment.seq)
        with self._guard:
            table = self._tables.get(key)
        if table is None:
            table = self._as_declared(segment.stream, self._checked(segment))
            if segment.parts:  # too large to be kept
                self.driver_rows.of_stream(segment.stream, table.num_rows)
                return table
            with self._guard:
                self._tables.put(key, table)
        return table

    def pieces(self, segment: Segment, parts: Iterable[Part]) -> Iterator[pa.Table]:
        """The rows of parts of a large segment, as the stream is declared, a piece at a time."""
        for table in large.scan(self._folder, segment, parts):
            self.driver_rows.of_stream(segment.stream, table.num_rows)
            yield self._as_declared(segment.stream, table)

    def sample(self, segment: Segment, rows: int) -> pa.Table:
        """The last rows of a segment, about so many; of a large one, of its last row group."""
        if segment.parts:
            loaded = self._readable(segment, lambda s: large.tail(self._folder, s))
            table = self._as_declared(segment.stream, loaded)
        else:
            table = self.table(segment)
        return table.slice(max(0, table.num_rows - rows))

    def _as_declared(self, stream: str, table: pa.Table) -> pa.Table:
        if stream not in self._schemas:
            return table
        try:
            return widened(table, self._schemas[stream][0])
        except SchemaChanged as changed:
            raise ConfigError(
                f"stream {stream!r}",
                f"has rows of another schema: {changed}",
                "declare the schema that they have",
            ) from None

    def _checked(self, segment: Segment) -> pa.Table:
        """``ConfigError`` if what was made durable cannot be read as it was."""
        table = self._readable(segment, self._load)
        if table.num_rows != segment.rows or ARRIVAL not in table.column_names:
            raise _damaged(segment, f"{table.num_rows} rows, not {segment.rows}")
        return table

    def _readable(self, segment: Segment, read: Callable[[Segment], T]) -> T:
        try:
            return read(segment)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise _damaged(segment, str(error).splitlines()[0]) from error

    def _load(self, segment: Segment) -> pa.Table:
        if segment.parts:
            return large.load(self._folder, segment)
        if not segment.file:
            return pa.ipc.open_stream(self._log.segment_content(segment)).read_all()
        return pq.read_table(self._folder / segment.file, partitioning=None)

    def _schema_of(self, segment: Segment) -> pa.Schema:
        if not segment.file:
            return pa.ipc.open_stream(self._log.segment_content(segment)).schema
        if segment.parts:
            return large.tail(self._folder, segment).schema
        return pq.read_schema(self._folder / segment.file)

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
                self._tables.drop((stream, segment.seq))
        for segment in filter(lambda s: s.file, gone):
            large.remove(self._folder / segment.file)
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

    def _replayed(
        self, stream: str, checkpoint_id: str, batch_id: int, offsets: str
    ) -> Segment | None:
        kept = self.segments(stream)
        if not kept or not comes_again(kept[-1], checkpoint_id, batch_id):
            return None
        known = self._log.find_batch(stream, checkpoint_id, batch_id)
        seq = the_same(known, kept[-1], batch_id, offsets).seq
        return self._segment(stream, seq)

    def _remove_unlisted(self) -> None:
        """A crash between a file and its row in the log leaves the file; its batch comes again."""
        listed = {s.file.rstrip("/") for kept in self._streams.values() for s in kept}
        found = list(self._folder.glob("*/*"))
        if found and self._log.run == 1:
            raise ConfigError(
                str(self._folder),
                "holds segments, but the commit log is new: state.db was removed or replaced",
                "restore it, or choose a new run directory",
            )
        for path in found:
            if path.relative_to(self._folder).as_posix() not in listed:
                large.remove(path)


def _stamped(stream: str, table: pa.Table, arrival_ns: int) -> pa.Table:
    if ARRIVAL in table.column_names:
        raise ConfigError(
            f"stream {stream!r}", f"has a column {ARRIVAL}, which is ours", "rename that column"
        )
    stamp = pa.repeat(pa.scalar(arrival_ns, pa.int64()), table.num_rows)
    return table.append_column(_STAMP, stamp)


def _after(segment: Segment, row: int) -> Cursor:
    return Cursor(segment.seq, row) if row < segment.rows else Cursor(segment.seq + 1, 0)


def _damaged(segment: Segment, finding: str) -> ConfigError:
    return ConfigError(
        f"stream {segment.stream!r}",
        f"segment {segment.seq} is damaged ({finding})",
        "restore it, or choose a new run directory",
    )
