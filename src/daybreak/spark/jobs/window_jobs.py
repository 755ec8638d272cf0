"""Computes windows that closed, from their rows or from panes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from daybreak.engine.inbox import Waiting
from daybreak.spark.jobs.panes import compute as compute_panes
from daybreak.spark.jobs.windows import Picker, Places, past
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.log.partials import Partials
from daybreak.spark.log.rows import Move
from daybreak.spark.log.segments import SegmentStore
from daybreak.spark.log.tables import joined_rows
from daybreak.spark.sql.forms import OverWindows, PanedAggregate
from daybreak.spark.tasks.cuts import CutWindows
from daybreak.spark.tasks.engines import Engines
from daybreak.spark.tasks.shapes import of_windows
from daybreak.spark.tasks.task import Cut, Result, Runnable, Schemas, Task, Unfit, Written


@dataclass(frozen=True)
class WindowJobs:
    """The jobs of one worker over windows."""

    schemas: Schemas
    engines: Engines
    store: SegmentStore
    log: CommitLog
    partials: Partials

    def compute(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting], cell: Sequence[Runnable]
    ) -> tuple[Sequence[Result], Sequence[Sequence[Move]]]:
        """Of the queries in the order of their cell: another order would be another plan."""
        place = {query.name: at for at, query in enumerate(cell)}
        order = sorted(range(len(queries)), key=lambda at: place.get(queries[at].name, at))
        results, moves = self._compute_ordered([queries[at] for at in order], taken)
        back = {at: number for number, at in enumerate(order)}
        each = range(len(queries))
        return [results[back[at]] for at in each], [moves[back[at]] for at in each]

    def _compute_ordered(
        self, queries: Sequence[Runnable], taken: Sequence[Waiting]
    ) -> tuple[Sequence[Result], list[list[Move]]]:
        # What open windows still need of each stream; only jobs of these queries move it.
        places = self.log.places(queries[0].name)
        if any(self.log.places(query.name) != places for query in queries[1:]):
            raise Unfit(f"{', '.join(q.name for q in queries)} are not at the same place")
        forms = [q.checked.form for q in queries if isinstance(q.checked.form, OverWindows)]
        paned = [form for form in forms if isinstance(form, PanedAggregate)]
        if paned:
            return compute_panes(
                queries, paned, taken, self.store, self.partials, places, self.engines
            )
        windowings = tuple(form.windowing for form in forms)
        moves = [past(query.name, windowings[0], taken, self.store, places) for query in queries]
        return self._over_rows(queries, windowings, taken, places), moves

    def _over_rows(
        self,
        queries: Sequence[Runnable],
        windowings: tuple[Windowing, ...],
        taken: Sequence[Waiting],
        places: Places,
    ) -> list[Result]:
        """The results of windows from their rows: of all steps by executors, or of none."""
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
        return [_joined(mine, query.schema) for mine, query in zip(found, queries, strict=True)]


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
