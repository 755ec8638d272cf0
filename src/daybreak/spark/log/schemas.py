"""The schemas that a stream's segments were written with, over all starts.

A schema changes only between two starts, so the history of a stream is short: the first segment
of each schema, and the schema. It decides what a start can still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa

from daybreak.spark.log.widening import SchemaChanged, check_widening


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
