"""Computes windows that closed: from their rows, from panes, or on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.jobs.compiler import CannotShare, Compiler, forms
from daybreak.spark.jobs.executor_jobs import Result
from daybreak.spark.jobs.on_executors import OnExecutors
from daybreak.spark.jobs.panes import compute as compute_panes
from daybreak.spark.jobs.prepared.recipes import ROWS, of_fill, of_merge, of_together
from daybreak.spark.jobs.row_jobs import RowJobs
from daybreak.spark.jobs.runnable import Runnable
from daybreak.spark.jobs.windows import compute
from daybreak.spark.jobs.worker_session import WorkerSession
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import Move
from daybreak.spark.log.segments import Segment, SegmentStore
from daybreak.spark.sql.check import CheckedQuery
from daybreak.spark.sql.forms import OverWindows, PanedAggregate, panes_in
from daybreak.spark.sql.windows.pane_plans import merged_rows, merged_schema


class WindowJobs:
    """The jobs of one worker over windows; it runs the plans of panes, too."""

    def __init__(
        self,
        session: WorkerSession,
        compiler: Compiler,
        rows: RowJobs,
        on_executors: OnExecutors,
        store: SegmentStore,
        log: CommitLog,
        partials: Partials,
    ) -> None:
        self._session = session
        self._compiler = compiler
        self._rows = rows
        self._on_executors = on_executors
        self._store = store
        self._log = log
        self._partials = partials

    def compute(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting], cell: Sequence[Runnable]
    ) -> tuple[list[Result], list[list[Move]]]:
        """Of the queries in the order of their cell: another order would be another plan."""
        place = {query.name: at for at, query in enumerate(cell)}
        order = sorted(range(len(queries)), key=lambda at: place.get(queries[at].name, at))
        results, moves = self._compute_ordered([queries[at] for at in order], taken)
        back = {at: number for number, at in enumerate(order)}
        each = range(len(queries))
        return [results[back[at]] for at in each], [moves[back[at]] for at in each]

    def _compute_ordered(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> tuple[list[Result], list[list[Move]]]:
        # What open windows still need of each stream; only jobs of these queries move it.
        places = self._log.places(queries[0].name)
        if any(self._log.places(query.name) != places for query in queries[1:]):
            raise CannotShare(f"{', '.join(q.name for q in queries)} are not at the same place")
        windows = [form for form in forms(queries) if isinstance(form, OverWindows)]
        paned = [form for form in windows if isinstance(form, PanedAggregate)]
        if paned:
            return compute_panes(queries, paned, taken, self._store, self._partials, places, self)
        windowings = [form.windowing for form in windows]
        if self._on_executors.reads_large(places):
            return self._on_executors.windows(queries, windowings, taken, places)

        def run(tables: Mapping[str, pa.Table]) -> list[pa.Table]:
            if len(queries) == 1:
                return [self._rows.compute(queries[0], tables)]
            return self._together(queries, tables)

        return compute(queries, windowings, taken, self._store, places, run)

    def _together(
        self, queries: Sequence[Runnable], tables: Mapping[str, pa.Table]
    ) -> list[pa.Table]:
        """Aggregates over the same windows, from the rows of their stream."""
        [(stream, rows)] = tables.items()
        streams, schemas = self._session.schemas, [query.schema for query in queries]
        found = self._session.run_prepared(of_together(_checked(queries), streams), {ROWS: rows})
        if found is not None:
            return list(found.made.cut(found.table, schemas))
        together = self._compiler.together(queries)
        return together.cut(self._rows.run_plan(together.over, rows, streams[stream]), schemas)

    def fill(self, queries: Sequence[Runnable], rows: pa.Table) -> list[pa.Table]:
        """Partials of rows; see ``panes.PaneJobs``."""
        found = self._session.run_prepared(of_fill(_checked(queries)), {ROWS: rows})
        if found is not None:
            return list(found.made.cut(found.table))
        fill, schema = self._compiler.fill(queries), panes_in(forms(queries))[0].paned_schema
        return fill.cut(self._rows.run_plan(fill.over, rows, schema))

    def fill_large(
        self, queries: Sequence[Runnable], segments: Sequence[Segment]
    ) -> list[pa.Table]:
        """Partials of all rows of large segments; see ``panes.PaneJobs``."""
        return self._on_executors.fill(queries, segments)

    def merge(self, queries: Sequence[Runnable], partials: Sequence[pa.Table]) -> list[pa.Table]:
        """Windows of partials; see ``panes.PaneJobs``."""
        panes = panes_in(forms(queries))
        rows, schemas = merged_rows(panes, partials), [query.schema for query in queries]
        found = self._session.run_prepared(of_merge(_checked(queries)), {ROWS: rows})
        if found is not None:
            return list(found.made.cut(found.table, schemas))
        merge = self._compiler.merge(queries)
        return merge.cut(self._rows.run_plan(merge.over, rows, merged_schema(panes)), schemas)


def _checked(queries: Sequence[Runnable]) -> list[CheckedQuery]:
    return [query.checked for query in queries]
