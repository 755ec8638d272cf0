"""The schemas that a stream's segments were written with, over all starts.

A schema changes only between two starts, so the history of a stream is short: the first segment
of each schema, and the schema. It decides what a start can still read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from daybreak.model import ConfigError
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import SegmentRow
from daybreak.spark.log.widening import SchemaChanged, check_widening, widened


class Known(NamedTuple):
    """Segments from ``from_seq`` on have this schema, up to the next one known."""

    from_seq: int
    schema: pa.Schema


class Readable(NamedTuple):
    """Segments from ``from_seq`` on can be read as the present schema; ``why`` not those before."""

    from_seq: int
    why: str


def joined(schemas: Iterable[tuple[int, pa.Schema]]) -> list[Known]:
    """A history from the schema of every single segment."""
    known: list[Known] = []
    for seq, schema in schemas:
        if not known or not known[-1].schema.equals(schema):
            known.append(Known(seq, schema))
    return known


def readable(known: Sequence[Known], schema: pa.Schema, end_seq: int) -> Readable:
    """What can be read as ``schema``; ``end_seq``: the first segment to come."""
    following = end_seq
    for from_seq, old in reversed(known):
        try:
            check_widening(old, schema)
        except SchemaChanged as changed:
            return Readable(following, str(changed))
        following = from_seq
    return Readable(0, "")


def noted(known: Sequence[Known], schema: pa.Schema, begin_seq: int, end_seq: int) -> list[Known]:
    """With the schema of the segments to come, and without those of segments that are removed."""
    history = [*known]
    if not history or not history[-1].schema.equals(schema):
        history.append(Known(end_seq, schema))
    while len(history) > 1 and history[1].from_seq <= begin_seq:
        history.pop(0)
    return history


class StreamSchemas:
    """As what the rows of each stream are read, and which can be."""

    def __init__(self, log: CommitLog) -> None:
        self._log = log
        self._declared: dict[str, tuple[pa.Schema, Readable]] = {}

    def declare(
        self,
        stream: str,
        schema: pa.Schema,
        kept: Sequence[SegmentRow],
        schema_of: Callable[[SegmentRow], pa.Schema],
    ) -> None:
        """From now on rows of the stream have these columns; ``kept``: its segments."""
        end, stored = kept[-1].seq + 1 if kept else 0, self._log.schemas(stream)
        if stored:
            known = [Known(seq, pa.ipc.read_schema(pa.py_buffer(text))) for seq, text in stored]
        else:  # logs of older layouts did not record them
            known = joined((s.seq, schema_of(s)) for s in kept)
        known = [k for k in known if k.from_seq < end]  # of others no segment was written
        self._declared[stream] = schema, readable(known, schema, end)
        history = noted(known, schema, kept[0].seq if kept else 0, end)
        listed = [(k.from_seq, bytes(k.schema.serialize())) for k in history]
        if listed != stored:
            self._log.set_schemas(stream, listed)

    def readable(self, stream: str) -> Readable | None:
        """What can be read as the stream is declared; None where it is not."""
        return self._declared[stream][1] if stream in self._declared else None

    def as_declared(self, stream: str, table: pa.Table) -> pa.Table:
        """Rows of an older schema, widened; ``ConfigError`` if that would lose something."""
        if stream not in self._declared:
            return table
        try:
            return widened(table, self._declared[stream][0])
        except SchemaChanged as changed:
            raise ConfigError(
                f"stream {stream!r}",
                f"has rows of another schema: {changed}",
                "declare the schema that they have",
            ) from None

    def is_newest(self, stream: str, seq: int) -> bool:
        """Whether a segment was written with the schema that its stream has now."""
        known = self._log.schemas(stream)
        return not known or known[-1][0] <= seq
