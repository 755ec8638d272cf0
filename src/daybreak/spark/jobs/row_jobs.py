"""Reads the rows that a job takes, for queries whose results need nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.engine.inbox import Waiting
from daybreak.spark.log.rows import CursorMove, Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.runnable import Runnable
from daybreak.spark.tasks.segment_frames import whole
from daybreak.spark.tasks.shapes import of_rows
from daybreak.spark.tasks.task import LeafRows, Leaves, Schemas, TaskResult


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
