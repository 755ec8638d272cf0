"""Computes windows that closed, from their rows or from panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.jobs.committer import JobInput, JobResult
from daybreak.spark.jobs.panes import kept_schema, large_rows, paned, with_windows
from daybreak.spark.jobs.windows import Picker, Places, past
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.log.partials import Partials, kept
from daybreak.spark.log.rows import CursorMove, Move, PartialsMove, ProgressMove
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.log.tables import joined_rows
from daybreak.spark.sql.composite import typed
from daybreak.spark.sql.forms import PanedAggregate, panes_in
from daybreak.spark.sql.windows.pane_plans import PANE, merged_rows
from daybreak.spark.tasks.cuts import CutWindows
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.shapes import ROWS, of_fill, of_merge, of_windows
from daybreak.spark.tasks.task import (
    Cut,
    LeafRows,
    Leaves,
    Result,
    Runnable,
    Schemas,
    Task,
    Unfit,
    Written,
)


@dataclass(frozen=True)
class WindowJobs:
    """The jobs of one worker over windows."""

    schemas: Schemas
    engines: Engines
    store: SegmentStore
    log: CommitLog
    partials: Partials

    def compute(self, job: JobInput) -> JobResult:
        """The rows of all windows that ``taken`` closed, by query.

        They are planned in the order of their cell: another order would be another plan.
        """
        queries, taken, cell = job
        # What open windows still need of each stream; only jobs of these queries move it.
        places = self.log.places(queries[0].name)
        if any(self.log.places(query.name) != places for query in queries[1:]):
            raise Unfit(f"{', '.join(q.name for q in queries)} are not at the same place")
        place = {query.name: at for at, query in enumerate(cell)}
        order = sorted(range(len(queries)), key=lambda at: place.get(queries[at].name, at))
        ordered = [queries[at] for at in order]
        windowings = tuple(q.checked.windows for q in ordered if q.checked.windows is not None)
        is_paned = isinstance(ordered[0].checked.form, PanedAggregate)
        compute = self._from_panes if is_paned else self._from_rows
        results, moves = compute(ordered, windowings, taken, places)
        back = sorted(range(len(order)), key=order.__getitem__)
        return JobResult([results[at] for at in back], [moves[at] for at in back])

    def _from_rows(
        self,
        queries: Sequence[Runnable],
        windowings: tuple[Windowing, ...],
        taken: Sequence[Waiting],
        places: Places,
    ) -> tuple[list[Result], list[list[Move]]]:
        """The windows from their rows: executors compute all steps, or none."""
        moves = [past(query.name, windowings[0], taken, self.store, places) for query in queries]
        task = of_windows(queries, self.schemas)
        large = any(s.parts for stream in places for s in self.store.segments(stream))
        arrival_ns = min(item.arrival_ns for item in taken)
        picker = Picker(windowings[0], self.store, places)
        found: list[list[Result]] = [[] for _ in queries]
        for first, last in picker.steps(taken[0].after_us, taken[-1].closes_us):
            leaves = picker.leaves(first, last, arrival_ns, past_driver=large)
            if leaves is not None:
                closed = _within(task, windowings, first, last)
                outcome = self.engines.compute([closed], leaves)
                for mine, result in zip(found, outcome.results, strict=True):
                    mine.append(result)
        each = zip(found, queries, strict=True)
        return [_joined(mine, query.schema) for mine, query in each], moves

    def _from_panes(
        self,
        queries: Sequence[Runnable],
        windowings: tuple[Windowing, ...],
        taken: Sequence[Waiting],
        places: Places,
    ) -> tuple[Sequence[Result], list[list[Move]]]:
        """The windows from partials that are kept, and those of segments that are read only now."""
        each = panes_in(query.checked.form for query in queries)
        panes, windowing = each[0], windowings[0]
        after_us, closed_us = taken[0].after_us, taken[-1].closes_us
        start, end = places[panes.stream], self.store.end(panes.stream)
        needed_us = windowing.needed_from(panes.stream, closed_us)
        fresh = [s for s in self.store.segments(panes.stream) if start.seq <= s.seq < end.seq]
        found: list[pa.Table] = []
        moves: list[list[Move]] = []
        filled = self._filled(queries, windowing, fresh, after_us)
        for query, made in zip(queries, filled, strict=True):
            rows = pa.concat_tables([*self.partials.tables(query.name, made.schema), made])
            found.append(with_windows(rows, panes.grid, panes.width_us, after_us, closed_us))
            added = tuple(kept(made, PANE, needed_us))
            moves.append(
                [
                    PartialsMove(query.name, panes.stream, start.seq, end.seq, added, needed_us),
                    CursorMove(query.name, panes.stream, start, end),
                    ProgressMove(query.name, after_us, closed_us),
                ]
            )
        if not any(rows.num_rows for rows in found):
            return [query.schema.empty_table() for query in queries], moves
        leaves = Leaves.of({ROWS: merged_rows(each, found)})
        return self.engines.compute([of_merge(queries)], leaves).results, moves

    def _filled(
        self,
        queries: Sequence[Runnable],
        windowing: Windowing,
        fresh: Sequence[Segment],
        after_us: int,
    ) -> list[pa.Table]:
        """The partials of each query of these segments, for windows after an instant."""
        each = panes_in(query.checked.form for query in queries)
        schemas = [kept_schema(one) for one in each]
        small = [segment for segment in fresh if not segment.parts]
        parts = [
            paned(self.store.table(s), windowing, each[0], s.before_us, after_us) for s in small
        ]
        rows = pa.concat_tables(parts) if parts else pa.table({})
        large = tuple(
            partial(large_rows, s, windowing, each[0], after_us) for s in fresh if s.parts
        )
        if not rows.num_rows and not large:
            return [schema.empty_table() for schema in schemas]
        leaves = Leaves({ROWS: LeafRows(rows, large=large)}, past_driver=bool(large))
        made = self.engines.compute([of_fill(queries)], leaves).results
        if large:
            passed = {q.name: table.num_rows for q, table in zip(queries, made, strict=True)}
            self.store.driver_rows.of_queries(passed)
        return [typed(table, schema) for table, schema in zip(made, schemas, strict=True)]


def _within(task: Task, windowings: tuple[Windowing, ...], first_us: int, last_us: int) -> Task:
    """The task, with the windows alone that end in (first, last]."""

    def cut(made: Any) -> Cut:
        return CutWindows(task.cut(made), windowings, first_us, last_us)

    return replace(task, cut=cut)


def _joined(results: Sequence[Result], schema: pa.Schema) -> Result:
    """The results of several steps as one."""
    written = [one for one in results if isinstance(one, Written)]
    if written:
        files = tuple(file for one in written for file in one.files)
        return Written(files, sum(one.num_rows for one in written))
    return joined_rows(results, schema)
