"""What the commit log keeps: places in streams, segments, partial aggregates, results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

#: Small files are read together until they take so much on the disk.
TRAIN_BYTES = 2**23


class Cursor(NamedTuple):
    """The next row to read: row ``row`` of segment ``seq``; after a segment comes (seq + 1, 0)."""

    seq: int
    row: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a query over windows is: a point in event time, not a row."""

    #: Windows that end at or before this are emitted.
    closed_us: int
    #: Identifies how the query makes partial aggregates of the rows before its cursor; empty if
    #: it is computed from rows. None in a log of an older layout, which did not record it.
    panes: str | None = ""


#: The micro-batch of a stateful query before its first one.
NO_BATCH = -1


@dataclass(frozen=True, slots=True)
class Batches:
    """How far a stateful query is: Spark numbers its micro-batches from 0."""

    #: The last one that is committed.
    last: int


@dataclass(frozen=True, slots=True)
class Declaration:
    """A query as a start declares it, and where it would begin if it is new."""

    name: str
    fingerprint: str
    starts: Mapping[str, Cursor]
    #: Of a query over windows, or of a stateful one.
    progress: Progress | Batches | None = None
    #: Where it is declared.
    place: str = ""

    def is_known_as(self, fingerprint: str) -> bool:
        """Whether a fingerprint in the log is of this query; see ``sql_fingerprint``."""
        _, _, earlier = self.fingerprint.partition(":")
        return fingerprint in (self.fingerprint, earlier)


class Part(NamedTuple):
    """A Parquet file of a large segment, as an executor wrote it: without arrival stamps."""

    name: str
    rows: int
    bytes: int
    #: The range of event time in it, where its stream has one and the file states it.
    low_us: int | None = None
    high_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """One segment as the log knows it.

    ``offsets`` is JSON text, ``file`` below ``segments/``; empty if the log holds its content. A
    large one is a folder, whose name ends with a slash, of ``parts`` that executors wrote.
    For a stream with event time: the range of it in the segment, and the stream's watermark
    before and after the segment, which decide what is late and what is closed permanently.
    """

    stream: str
    seq: int
    checkpoint_id: str
    batch_id: int
    offsets: str
    rows: int
    bytes: int
    arrival_ns: int
    file: str
    low_us: int | None = None
    high_us: int | None = None
    before_us: int | None = None
    after_us: int | None = None
    parts: tuple[Part, ...] = ()

    @property
    def borders(self) -> tuple[int, ...]:
        """Rows that jobs read at once: those of a file, or of several small ones."""
        found, rows, size = [], 0, 0
        for part in self.parts:
            rows, size = rows + part.rows, size + part.bytes
            if size >= TRAIN_BYTES:
                found.append(rows)
                rows = size = 0
        return (*found, rows) if rows else tuple(found)


@dataclass(frozen=True, slots=True)
class CursorMove:
    """A query has read the rows of a stream from ``old`` up to, and without, ``new``."""

    query: str
    stream: str
    old: Cursor
    new: Cursor


@dataclass(frozen=True, slots=True)
class ProgressMove:
    """A query has emitted its windows that end after ``old_us`` and up to ``new_us``."""

    query: str
    old_us: int
    new_us: int


@dataclass(frozen=True, slots=True)
class BatchMove:
    """A stateful query has committed micro-batch ``new``, and had committed ``old`` before."""

    query: str
    old: int
    new: int


@dataclass(frozen=True, slots=True)
class PartialRows:
    """Partial aggregates of panes: an Arrow stream, and the last end of a pane in it."""

    high_us: int
    content: bytes


@dataclass(frozen=True, slots=True)
class PartialsMove:
    """A query keeps partial aggregates of segments ``first_seq`` up to, and without, ``end_seq``.

    Partials of panes that end at or before ``needed_us`` are deleted.
    """

    query: str
    stream: str
    first_seq: int
    end_seq: int
    added: tuple[PartialRows, ...]
    needed_us: int


#: What one transaction changes about a query's place.
Move = CursorMove | ProgressMove | BatchMove | PartialsMove


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A result that is not yet decided on.

    Durable, unless ``content`` says what its file holds: the commit makes that durable.
    """

    query: str
    path: Path
    rows: int
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class CommittedFile:
    """A result that is decided on and has to reach its sink."""

    id: int
    job: str
    query: str
    path: Path
    rows: int
    #: What the file holds, kept until it is known to be durable at its place.
    content: bytes | None = None
    #: ``moved``: its sink has taken it. ``unsure``: the machine has crashed since it was staged.
    place: str = field(default="staged", compare=False)
