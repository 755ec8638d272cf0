"""Reads the rows that a job takes, or all that streams retain, for queries without windows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.model.errors import ConfigError
from daybreak.spark.log.rows import Cursor, CursorMove, Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.snapshots import RETAINED
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.segment_frames import whole
from daybreak.spark.tasks.shapes import of_rows
from daybreak.spark.tasks.task import LeafRows, Leaves, Runnable, Schemas, TaskResult

#: Segments may be removed while they are read; then those that are left are.
_TRIES = 5


@dataclass(frozen=True)
class RowJobs:
    """The jobs of one worker over rows that stand alone."""

    schemas: Schemas
    engines: Engines
    store: SegmentStore

    def compute(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting], cell: Sequence[Runnable]
    ) -> tuple[TaskResult, list[list[Move]]]:
        """The results of some queries of a cell, and how they move on."""
        leaves = self._large(queries[0], taken) if taken[0].whole else self._read(queries[0], taken)
        outcome = self.engines.compute(of_rows(queries, cell, self.schemas), leaves)
        return outcome, self._moves(queries, taken)

    def _moves(self, queries: Sequence[Runnable], taken: Sequence[Waiting]) -> list[list[Move]]:
        read = self.store.passed(taken)
        return [[CursorMove(q.name, s, *at) for s, at in read.items()] for q in queries]

    def _read(self, query: Runnable, taken: Sequence[Waiting]) -> Leaves:
        """The rows in memory, with their arrival."""
        rows: dict[str, LeafRows] = {}
        for stream in query.checked.reads:
            mine = [item for item in taken if item.stream == stream]
            if not mine:
                rows[stream] = LeafRows(self._nothing(stream))
                continue
            table = self.store.read(mine)
            arrived = table.column(ARRIVAL).to_numpy()
            rows[stream] = LeafRows(table.drop_columns([ARRIVAL]), arrived)
        return Leaves(rows)

    def _large(self, query: Runnable, taken: Sequence[Waiting]) -> Leaves:
        """The rows of large segments, for executors to read."""
        by_stream = {s: [i for i in taken if i.stream == s] for s in query.checked.reads}
        rows = {
            stream: LeafRows(self._nothing(stream), large=(whole(stream, mine),))
            for stream, mine in by_stream.items()
        }
        return Leaves(rows, True, min(item.arrival_ns for item in taken))

    def _nothing(self, stream: str) -> pa.Table:
        return to_arrow_schema(self.schemas[stream], timezone="UTC").empty_table()


class Retained:
    """All that the streams of a query in complete mode retain, up to where a job takes it."""

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
