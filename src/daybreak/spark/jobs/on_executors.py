"""Computes queries over large segments, by plans that a job runner compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.spark.event_time import ANCHORS, Windowing
from daybreak.spark.jobs.executor_jobs import (
    Cut,
    CutByMask,
    CutOne,
    CutTogether,
    ExecutorJobs,
    Written,
)
from daybreak.spark.jobs.large_windows import CutWindows, joined, paned_frame, range_frame
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.windows import Picker, Places, Range, begin
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.rows import Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.sql.composite import Cutter
from daybreak.spark.sql.forms import Composable, PanedAggregate
from daybreak.spark.sql.windows.pane_plans import Fill
from daybreak.spark.sql.windows.together import Together

#: Rows of a query, or where executors have staged them.
Result: TypeAlias = pa.Table | Written


class Compiler(Protocol):
    """Makes the plans of one worker's session."""

    def result_frame(self, query: Runnable, frames: Mapping[str, DataFrame]) -> DataFrame:
        """One query by itself over these rows of its streams."""

    def composite_frame(
        self, cell: Sequence[Runnable], frame: DataFrame
    ) -> tuple[DataFrame, Cutter]:
        """A cell over these rows of its stream, and which columns belong to which query."""

    def together(self, queries: Sequence[Runnable]) -> Together:
        """Aggregates over the same windows as one plan."""

    def filling(self, queries: Sequence[Runnable]) -> Fill:
        """The plan that makes their partials."""

    def planned(self, plan: object) -> DataFrame:
        """The rows of a plan."""

    def frame_of(self, name: str, table: pa.Table) -> DataFrame:
        """Rows in memory, for Spark."""


class OnExecutors:
    """The jobs of one worker over large segments. Rows do not pass the driver."""

    def __init__(
        self, compiler: Compiler, jobs: ExecutorJobs, store: SegmentStore, log: CommitLog
    ) -> None:
        self._compiler = compiler
        self._jobs = jobs
        self._store = store
        self._log = log
        #: The number of the present job, once executors stage under it.
        self.job: str | None = None

    def begin(self) -> None:
        """A job begins."""
        self.job = None

    def committed(self) -> None:
        """What executors have staged is decided on, whatever fails now."""
        self.job = None

    def abandon(self) -> None:
        """It failed: what executors have staged may go."""
        if self.job is not None:
            self._log.abandon(self.job)

    def number(self) -> str:
        """Of the present job, under which executors stage."""
        if self.job is None:
            self._store.confirm_folder()
            self.job = self._log.new_job()
        return self.job

    def rows(
        self, queries: Sequence[Runnable], cell: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> list[Result]:
        """Of queries over rows that are at the same place."""
        first, arrival_ns = queries[0], min(item.arrival_ns for item in taken)
        frames = self._jobs.frames(first.checked.reads, taken)
        if isinstance(first.checked.form, Composable) and len(cell) > 1:
            of = {query.name: at for at, query in enumerate(cell)}
            [frame] = frames.values()
            result, cutter = self._compiler.composite_frame(cell, frame)
            cut: Cut = CutByMask(
                cutter.without_expressions(), {of[q.name]: q.schema for q in queries}
            )
        else:
            result, cut = self._compiler.result_frame(first, frames), CutOne(first.schema)
        return self._jobs.write(self.number(), queries, result, cut, arrival_ns)

    def all_rows(self, stream: str, rows: pa.Table, segments: Sequence[Segment]) -> DataFrame:
        """Rows in memory, and all rows of large segments."""
        frames = [self._jobs.frame(stream, by_borders(segment)) for segment in segments]
        if rows.num_rows:
            frames.append(self._compiler.frame_of(stream, rows))
        return self._jobs.union(stream, frames)

    def reads_large(self, streams: Sequence[str] | Places) -> bool:
        """Whether one of these streams has a large segment."""
        return any(s.parts for stream in streams for s in self._store.segments(stream))

    def windows(
        self,
        queries: Sequence[Runnable],
        windowings: Sequence[Windowing],
        taken: Sequence[Waiting],
        places: Places,
    ) -> tuple[list[Result], list[list[Move]]]:
        """Of windows with rows of large segments; other rows of theirs come from memory."""
        moves, picker = begin(queries, windowings[0], taken, self._store, places)
        arrival_ns = min(item.arrival_ns for item in taken)
        results = []
        for first, last in picker.steps(taken[0].after_us, taken[-1].closes_us):
            ranges = picker.ranges(first, last)
            if not any(ranges[name] for name in picker.deciding(ranges)):
                continue
            frames = {name: self._range_frame(picker, name, ranges[name]) for name in ranges}
            result, cut = self._window_result(queries, frames)
            cut = CutWindows(cut, tuple(windowings), first, last)
            results.append(self._jobs.write(self.number(), queries, result, cut, arrival_ns))
        empty = [[query.schema.empty_table() for query in queries]]
        return joined(results or empty), moves

    def _window_result(
        self, queries: Sequence[Runnable], frames: Mapping[str, DataFrame]
    ) -> tuple[DataFrame, Cut]:
        first = queries[0]
        if len(queries) == 1:
            return self._compiler.result_frame(first, frames), CutOne(first.schema)
        [frame] = frames.values()
        plan = self._compiler.together(queries).over(frame._jdf.queryExecution().analyzed())
        return self._compiler.planned(plan), CutTogether(tuple(q.schema for q in queries))

    def _range_frame(self, picker: Picker, name: str, ranges: Sequence[Range]) -> DataFrame:
        stream = name.removeprefix(ANCHORS)
        time = picker.windowing.times[stream]
        large = [one for one in ranges if one.segment.parts]
        frames = [range_frame(self._jobs, stream, time, one) for one in large]
        small = [picker.rows(stream, one) for one in ranges if not one.segment.parts]
        if small:
            frames.append(self._compiler.frame_of(name, pa.concat_tables(small)))
        return self._jobs.union(stream, frames)

    def fill(self, queries: Sequence[Runnable], segments: Sequence[Segment]) -> list[pa.Table]:
        """Partials of all rows of large segments; see ``panes.PaneJobs``."""
        forms = [q.checked.form for q in queries if isinstance(q.checked.form, PanedAggregate)]
        panes, windowing = forms[0].panes, forms[0].windowing
        frames = [paned_frame(self._jobs, s, windowing, panes) for s in segments]
        rows = self._jobs.union(panes.stream, frames)
        fill = self._compiler.filling(queries)
        with self._jobs.spread():
            plan = fill.over(rows._jdf.queryExecution().analyzed())
            made = self._compiler.planned(plan).toArrow()
        self._store.driver_rows.of_queries({queries[0].name: made.num_rows})
        return fill.cut(made)
