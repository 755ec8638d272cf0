"""What the commit log keeps of streams: segments, schemas and marks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from daybreak.model import EngineBug
from daybreak.spark.log.contract import Database, Statements
from daybreak.spark.log.positions import PositionLog, SourceMove, move_source
from daybreak.spark.log.rows import Part, SegmentRow


class SegmentLog(PositionLog):
    """The part of the commit log that ingest writes. Methods may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def add_segment(
        self, segment: SegmentRow, content: bytes | None = None, move: SourceMove | None = None
    ) -> None:
        """Lists a segment, without waiting for the disk: ``sync`` does, or the next commit.

        What was written before a commit is durable with it, so no result ever is of a segment
        that a power cut then loses.

        ``content``: the rows of one without a file. Of a large one the log lists the parts.
        ``move``: takes the position of its source past the segment, in the same transaction.
        """
        if segment.parts:
            content = json.dumps(segment.parts).encode()
        values = [getattr(segment, name) for name in _SEGMENT_COLUMNS]

        def body(db: Statements) -> None:
            if move is not None:
                move_source(db, move)
            db.run(_INSERT_SEGMENT, (*values, content))

        self.database.transact(body, durable=False, waits=True)

    def segment_content(self, segment: SegmentRow) -> bytes:
        """What a segment without a file holds."""
        row = self.database.row(
            "SELECT content FROM segments WHERE stream = ? AND seq = ?",
            (segment.stream, segment.seq),
        )
        if row is None or row[0] is None:
            raise EngineBug(f"segment {segment.seq} of {segment.stream!r} is not in the log")
        return bytes(row[0])

    def segments(self, stream: str | None = None, from_seq: int = 0) -> list[SegmentRow]:
        """Segments in order of ``seq``, of one stream or of all."""
        of_stream, values = ("", ()) if stream is None else ("stream = ? AND ", (stream,))
        found = self.database.rows(
            f"{_SELECT_SEGMENT} WHERE {of_stream} seq >= ? ORDER BY stream, seq",
            (*values, from_seq),
        )
        listed = [_segment(row) for row in found]
        if not any(segment.file.endswith("/") for segment in listed):
            return listed
        parts = self._parts()
        return [replace(s, parts=parts.get((s.stream, s.seq), ())) for s in listed]

    def _parts(self) -> dict[tuple[str, int], tuple[Part, ...]]:
        """Of all large segments."""
        found = self.database.rows(
            "SELECT stream, seq, content FROM segments WHERE file <> '' AND content IS NOT NULL"
        )
        return {
            (stream, seq): tuple(Part(*part) for part in json.loads(bytes(content)))
            for stream, seq, content in found
        }

    def set_mark(self, stream: str, before_seq: int, watermark_us: int) -> None:
        """A stream's watermark was raised between two segments, without a row to show for it.

        This does not wait for the disk, as ``add_segment`` does not.
        """
        statement = (
            "INSERT INTO marks VALUES (?, ?, ?) ON CONFLICT (stream) DO UPDATE SET "
            "before_seq = excluded.before_seq, watermark_us = excluded.watermark_us"
        )
        values = (stream, before_seq, watermark_us)
        self.database.transact(lambda db: db.run(statement, values), durable=False)

    def marks(self) -> dict[str, tuple[int, int]]:
        """The newest mark of each stream: the segment it lies before, and the watermark."""
        found = self.database.rows("SELECT stream, before_seq, watermark_us FROM marks")
        return {stream: (seq, us) for stream, seq, us in found}

    def note_late_rows(self, written: Mapping[tuple[str, str], int]) -> None:
        """Late rows of these queries and streams are in files, up to these segments.

        A query that is not known any more is left out.
        """
        statement = (
            "INSERT INTO late_rows SELECT CAST(? AS TEXT), CAST(? AS TEXT), CAST(? AS BIGINT) "
            "FROM queries WHERE name = ? ON CONFLICT (query, stream) DO UPDATE SET "
            "seq = excluded.seq"
        )
        rows = [(query, stream, seq, query) for (query, stream), seq in written.items()]
        self.database.transact(lambda db: db.run_many(statement, rows), durable=False)

    def late_rows_written(self) -> dict[tuple[str, str], int]:
        """Up to where late rows are in files, by query and stream."""
        found = self.database.rows("SELECT query, stream, seq FROM late_rows")
        return {(query, stream): seq for query, stream, seq in found}

    def schemas(self, stream: str) -> list[tuple[int, bytes]]:
        """The schemas of a stream's segments, each with the first segment that has it."""
        return self.database.rows(
            "SELECT from_seq, content FROM schemas WHERE stream = ? ORDER BY from_seq", (stream,)
        )

    def set_schemas(self, stream: str, schemas: Iterable[tuple[int, bytes]]) -> None:
        rows = [(stream, *known) for known in schemas]

        def body(db: Statements) -> None:
            db.run("DELETE FROM schemas WHERE stream = ?", (stream,))
            db.run_many("INSERT INTO schemas VALUES (?, ?, ?)", rows)

        self.database.transact(body)

    def find_batch(self, stream: str, checkpoint_id: str, batch_id: int) -> SegmentRow | None:
        row = self.database.row(
            f"{_SELECT_SEGMENT} WHERE stream = ? AND checkpoint_id = ? AND batch_id = ?",
            (stream, checkpoint_id, batch_id),
        )
        return None if row is None else _segment(row)

    def forget_segments(self, stream: str, below_seq: int) -> None:
        """Takes segments off the log; their files may be removed then."""
        self._write("DELETE FROM segments WHERE stream = ? AND seq < ?", (stream, below_seq))

    def _write(self, statement: str, values: Sequence[Any]) -> None:
        self.database.transact(lambda db: db.run(statement, values))


_SEGMENT_COLUMNS = tuple(name for name in SegmentRow.__dataclass_fields__ if name != "parts")
#: Without the content, which is read only when it is asked for.
_SELECT_SEGMENT = f"SELECT {', '.join(_SEGMENT_COLUMNS)} FROM segments"  # noqa: S608  # our own
_INSERT_SEGMENT = (
    f"INSERT INTO segments ({', '.join(_SEGMENT_COLUMNS)}, content) "  # noqa: S608  # our own
    f"VALUES ({', '.join('?' * len(_SEGMENT_COLUMNS))}, ?)"
)


def _segment(row: Sequence[Any]) -> SegmentRow:
    return SegmentRow(**dict(zip(_SEGMENT_COLUMNS, row, strict=True)))
