"""Reads the rows that a job takes, or all that streams retain, for queries without windows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.model.errors import ConfigError
from daybreak.spark.jobs.committer import JobInput, JobResult
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Cursor, CursorMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sinks.snapshots import RETAINED
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.segment_frames import whole
from daybreak.spark.tasks.shapes import of_query, of_rows
from daybreak.spark.tasks.task import LeafRows, Leaves, Runnable, Schemas, Written

#: Segments may be removed while they are read; then those that are left are.
_TRIES = 5


@dataclass(frozen=True)
class RowJobs:
    """The jobs of one worker over rows that stand alone, or over all that streams retain."""

    schemas: Schemas
    engines: Engines
    store: SegmentStore
    log: CommitLog

    def compute(self, job: JobInput) -> JobResult:
        """The results of some queries of a cell over what was taken."""
        queries, taken, cell = job
        leaves = self._large(queries[0], taken) if taken[0].whole else self._read(queries[0], taken)
        outcome = self.engines.compute(of_rows(queries, cell, self.schemas), leaves)
        read = self.store.passed(taken)
        moves = [[CursorMove(q.name, s, *at) for s, at in read.items()] for q in queries]
        return JobResult(outcome.results, moves, outcome.since)

    def over_retained(self, job: JobInput) -> JobResult:
        """The result of a query in complete mode, which states what it was computed from."""
        query, passed = job.queries[0], self.store.passed(job.taken)
        rows: dict[str, LeafRows] = {}
        ranges: dict[str, dict[str, int]] = {}
        for stream, place in self.log.places(query.name).items():
            end = passed[stream][1] if stream in passed else place
            kept, table = _retained(self.store, stream, end)
            large = (by_borders(segment) for segment in kept if segment.parts)
            rows[stream] = LeafRows(table, large=tuple(whole(stream, one) for one in large))
            first = kept[0].seq if kept else end.seq
            ranges[stream] = {"first": first, "end": end.seq, "rows": sum(s.rows for s in kept)}
        leaves = Leaves(rows, past_driver=any(one.large for one in rows.values()))
        [result] = self.engines.compute([of_query(query, self.schemas)], leaves).results
        assert not isinstance(result, Written)  # such a task is collected
        told = {RETAINED: json.dumps(ranges, sort_keys=True).encode()}
        result = result.replace_schema_metadata({**(result.schema.metadata or {}), **told})
        moves = [CursorMove(query.name, stream, *at) for stream, at in passed.items()]
        return JobResult([result], [moves])

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
        rows = {}
        for stream in query.checked.reads:
            mine = [item for item in taken if item.stream == stream]
            rows[stream] = LeafRows(self._nothing(stream), large=(whole(stream, mine),))
        return Leaves(rows, True, min(item.arrival_ns for item in taken))

    def _nothing(self, stream: str) -> pa.Table:
        return to_arrow_schema(self.schemas[stream], timezone="UTC").empty_table()


def _retained(store: SegmentStore, stream: str, end: Cursor) -> tuple[list[Segment], pa.Table]:
    """The segments of a stream before a position, and the rows of those that are not large."""
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
