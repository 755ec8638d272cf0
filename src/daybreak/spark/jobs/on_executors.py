"""Computes queries over large segments, on executors alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from daybreak.engine.inbox import Waiting, by_borders
from daybreak.spark.event_time import ANCHORS, Windowing
from daybreak.spark.jobs.compiler import Compiler
from daybreak.spark.jobs.executor_jobs import (
    Cut,
    CutByMask,
    CutOne,
    CutTogether,
    ExecutorJobs,
    Result,
)
from daybreak.spark.jobs.large_windows import CutWindows, joined, paned_frame, range_frame
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.windows import Picker, Places, Range, begin
from daybreak.spark.jobs.worker_session import WorkerSession
from daybreak.spark.log.rows import Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.sql.forms import Composable, PanedAggregate


class OnExecutors:
    """The jobs of one worker over large segments. Rows do not pass the driver."""

    def __init__(
        self,
        session: WorkerSession,
        compiler: Compiler,
        store: SegmentStore,
        number: Callable[[], str],
    ) -> None:
        """``number``: of the present job, under which executors stage."""
        self._session = session
        self._compiler = compiler
        self._store = store
        self._number = number
        self._jobs = ExecutorJobs(session.spark, session.schemas, store, session.scratch)

    def rows(
        self, queries: Sequence[Runnable], cell: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> list[Result]:
        """Of queries over rows that are at the same place."""
        self._session.ways.add("executors")
        first, arrival_ns = queries[0], min(item.arrival_ns for item in taken)
        frames = self._jobs.frames(first.checked.reads, taken)
        if isinstance(first.checked.form, Composable) and len(cell) > 1:
            of = {query.name: at for at, query in enumerate(cell)}
            [frame] = frames.values()
            composite = self._compiler.composite(cell)
            result = self._compiler.composited(composite, frame)
            cutter = composite.cutter.without_expressions()
            cut: Cut = CutByMask(cutter, {of[q.name]: q.schema for q in queries})
        else:
            result, cut = self._compiler.result(first, frames), CutOne(first.schema)
        return self._jobs.write(self._number(), queries, result, cut, arrival_ns)

    def all_rows(self, stream: str, rows: pa.Table, segments: Sequence[Segment]) -> DataFrame:
        """Rows in memory, and all rows of large segments."""
        self._session.ways.add("executors")
        frames = [self._jobs.frame(stream, by_borders(segment)) for segment in segments]
        if rows.num_rows:
            frames.append(self._session.frame(stream, rows))
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
        self._session.ways.add("executors")
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
            results.append(self._jobs.write(self._number(), queries, result, cut, arrival_ns))
        empty = [[query.schema.empty_table() for query in queries]]
        return joined(results or empty), moves

    def _window_result(
        self, queries: Sequence[Runnable], frames: Mapping[str, DataFrame]
    ) -> tuple[DataFrame, Cut]:
        first = queries[0]
        if len(queries) == 1:
            return self._compiler.result(first, frames), CutOne(first.schema)
        [frame] = frames.values()
        plan = self._compiler.together(queries).over(frame._jdf.queryExecution().analyzed())
        return self._session.planned(plan), CutTogether(tuple(q.schema for q in queries))

    def _range_frame(self, picker: Picker, name: str, ranges: Sequence[Range]) -> DataFrame:
        stream = name.removeprefix(ANCHORS)
        time = picker.windowing.times[stream]
        large = [one for one in ranges if one.segment.parts]
        frames = [range_frame(self._jobs, stream, time, one) for one in large]
        small = [picker.rows(stream, one) for one in ranges if not one.segment.parts]
        if small:
            frames.append(self._session.frame(name, pa.concat_tables(small)))
        return self._jobs.union(stream, frames)

    def fill(self, queries: Sequence[Runnable], segments: Sequence[Segment]) -> list[pa.Table]:
        """Partials of all rows of large segments; see ``panes.PaneJobs``."""
        self._session.ways.add("executors")
        forms = [q.checked.form for q in queries if isinstance(q.checked.form, PanedAggregate)]
        panes, windowing = forms[0].panes, forms[0].windowing
        frames = [paned_frame(self._jobs, s, windowing, panes) for s in segments]
        rows = self._jobs.union(panes.stream, frames)
        fill = self._compiler.fill(queries)
        with self._jobs.spread():
            plan = fill.over(rows._jdf.queryExecution().analyzed())
            made = self._session.planned(plan).toArrow()
        self._store.driver_rows.of_queries({queries[0].name: made.num_rows})
        return fill.cut(made)
