"""Reads all that streams retain, for queries in complete mode."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.model.errors import ConfigError
from daybreak.spark.log.rows import Cursor, CursorMove, Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.snapshots import RETAINED
from daybreak.spark.tasks.segment_frames import whole
from daybreak.spark.tasks.task import LeafRows, Leaves

#: Segments may be removed while they are read; then those that are left are.
_TRIES = 5


class Retained:
    """What the streams of one query retain, up to where a job takes the query."""

    def __init__(
        self,
        query: str,
        store: SegmentStore,
        places: Mapping[str, Cursor],
        taken: Sequence[Waiting],
    ) -> None:
        """``places``: where the query is; ``taken``: what has come since then."""
        passed = store.passed(taken)
        self.moves: list[Move] = [CursorMove(query, s, *at) for s, at in passed.items()]
        rows: dict[str, LeafRows] = {}
        #: The segments of each stream, as they are recorded with the result.
        self._ranges: dict[str, dict[str, int]] = {}
        for stream, place in places.items():
            end = passed[stream][1] if stream in passed else place
            segments, table = _read(store, stream, end)
            large = (by_borders(segment) for segment in segments if segment.parts)
            rows[stream] = LeafRows(table, large=tuple(whole(stream, one) for one in large))
            first = segments[0].seq if segments else end.seq
            self._ranges[stream] = {
                "first": first, "end": end.seq, "rows": sum(s.rows for s in segments),
            }  # fmt: skip
        self.leaves = Leaves(rows, past_driver=any(one.large for one in rows.values()))

    def marked(self, result: pa.Table) -> pa.Table:
        """The result, with what it was computed from."""
        ranges = json.dumps(self._ranges, sort_keys=True).encode()
        return result.replace_schema_metadata({**(result.schema.metadata or {}), RETAINED: ranges})


def _read(store: SegmentStore, stream: str, end: Cursor) -> tuple[list[Segment], pa.Table]:
    for attempt in range(_TRIES):
        begin = store.begin(stream)
        kept = [s for s in store.segments(stream) if begin.seq <= s.seq < end.seq]
        try:
            small = [segment for segment in kept if not segment.parts]
            tables = [store.table(segment).drop_columns([ARRIVAL]) for segment in small]
        except ConfigError:
            if attempt == _TRIES - 1 or store.begin(stream) == begin:
                raise
        else:
            return kept, pa.concat_tables(tables) if tables else pa.table({})
    raise AssertionError("the last try returns or raises")
