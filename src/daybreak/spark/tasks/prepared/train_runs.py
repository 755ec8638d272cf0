"""Runs a plan over a train: on the caller's thread, and a long one on cores that are idle, too.

A cell has one job at a time. Where each row is computed by itself, its train can be computed in
parts: as many at once as there are idle cores, so that a cell may take more than one if nobody else
does; and one after the other, so that no train is too long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from itertools import pairwise
from math import ceil
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.tasks.prepared.jvm import Runs
from daybreak.spark.tasks.prepared.planner import Planned
from daybreak.spark.tasks.prepared.trains import MemoryFolder, read_places, read_result, write_train
from daybreak.spark.tasks.task import Unfit

#: What a train and its result may take, in memory that Python and the JVM share.
MOST_BYTES = 256 << 20
#: Shorter parts of a train take longer to begin than they save.
PART_ROWS = 50_000


class Cancelled(Exception):
    """The job's time was over while its plan ran."""


class Output(NamedTuple):
    """What a plan has given."""

    table: pa.Table
    #: Which rows of the train it is of, where it is not of all (``Task.masks``).
    places: NDArray[np.int32] | None = None
    #: Knows how to read it (``Built.made``).
    made: Any = None


class Cores:
    """How many cores nobody computes on, as far as plans are concerned."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._guard = threading.Lock()

    @contextmanager
    def taken(self, most: int) -> Iterator[int]:
        """One for the caller, whether or not it is free, and others that are, up to so many."""
        with self._guard:
            taken = max(1, min(most, self._free))
            self._free -= taken
        try:
            yield taken
        finally:
            with self._guard:
                self._free += taken


class Helper:
    """A thread that runs what it is given. Like a worker's, it keeps no program from ending."""

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[tuple[Future[None], Callable[[int], None], int] | None]
        self._asked = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[int], None], lane: int) -> Future[None]:
        future: Future[None] = Future()
        self._asked.put((future, work, lane))
        return future

    def close(self) -> None:
        self._asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (asked := self._asked.get()) is not None:
            future, work, lane = asked
            try:
                work(lane)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(None)


class TrainRuns:
    """Runs plans for one worker thread, whose jobs have this tag."""

    def __init__(self, cores: Cores, tag: str) -> None:
        self._cores = cores
        self._tag = tag
        self._folder: MemoryFolder | None = None
        self._making = threading.Lock()
        self._helpers: dict[int, Helper] = {}

    def close(self) -> None:
        for helper in self._helpers.values():
            helper.close()
        if self._folder is not None:
            self._folder.close()

    def run(
        self, runs: Runs, planned: Planned, tables: Mapping[str, pa.Table], most_rows: float
    ) -> Output:
        """The plan's output over a train.

        ``most_rows``: of one run of the plan. A train is cut into runs that are no longer if each
        of its rows is computed by itself; others have been refused before.
        ``Cancelled`` if it was interrupted, ``Unfit`` if it takes too much memory.
        """
        if not planned.by_row:
            with self._cores.taken(1):
                return self._run_part(runs, planned, 0, tables, MOST_BYTES)
        [(name, table)] = tables.items()
        rows = table.num_rows
        with self._cores.taken(rows // PART_ROWS) as lanes:
            most_bytes = MOST_BYTES // lanes
            count = max(lanes, ceil(rows / most_rows), ceil(table.nbytes / most_bytes))
            parts = _parts(table, count)
            found: dict[int, Output] = {}
            over = threading.Event()

            def work(lane: int) -> None:
                """Every so many-th part; nothing more once a part has failed anywhere."""
                try:
                    for at in range(lane, count, lanes):
                        if not over.is_set():
                            mine = {name: parts[at]}
                            found[at] = self._run_part(runs, planned, lane, mine, most_bytes)
                except BaseException:
                    over.set()
                    raise

            others: list[Future[None]] = []
            try:
                others.extend(self._helper(lane).submit(work, lane) for lane in range(1, lanes))
                work(0)
            finally:
                wait(others)
            for other in others:
                other.result()
            return _joined([found[at] for at in range(count)], parts)

    def _helper(self, lane: int) -> Helper:
        """The thread of a lane other than the first."""
        if lane not in self._helpers:
            self._helpers[lane] = Helper(f"{self._tag}-{lane}")
        return self._helpers[lane]

    def _run_part(
        self,
        runs: Runs,
        planned: Planned,
        lane: int,
        tables: Mapping[str, pa.Table],
        most_bytes: int,
    ) -> Output:
        """One run of the plan, by this worker's thread or one of its helpers."""
        tag = tag_of(self._tag, lane)
        if tag not in planned.copies:
            planned.copies[tag] = planned.plan.copy()
        path = self._place(lane)
        leaves, masks = planned.leaves, planned.masks
        try:
            for at, leaf in enumerate(leaves):
                write_train(path / f"in{at}", tables[leaf.name], leaf.reads, leaf.layout)
            written = runs.run(planned.copies[tag], tag, str(path), len(leaves), masks, most_bytes)
            match written:
                case -1:
                    raise Cancelled("cancelled")
                case -2:
                    raise Unfit("the result is too large")
            places = read_places(path / "places") if masks else None
            return Output(read_result(path / "out", planned.schema), places)
        finally:  # they take memory
            for file in path.iterdir():
                file.unlink()

    def _place(self, lane: int) -> Path:
        """The folder of a lane."""
        with self._making:
            if self._folder is None:
                self._folder = MemoryFolder()
        path = self._folder.path / str(lane)
        path.mkdir(exist_ok=True)
        return path


def tag_of(worker: str, lane: int) -> str:
    """Under which a lane of a worker runs; the first one under that of the worker."""
    return f"{worker}/{lane}" if lane else worker


def _parts(table: pa.Table, count: int) -> list[pa.Table]:
    """A train in so many parts of equal length."""
    bounds = [table.num_rows * at // count for at in range(count + 1)]
    return [table.slice(a, b - a) for a, b in pairwise(bounds)]


def _joined(found: Sequence[Output], parts: Sequence[pa.Table]) -> Output:
    """The outputs of parts as that of the train."""
    table = pa.concat_tables([output.table for output in found])
    before = np.cumsum([0, *(part.num_rows for part in parts)]).tolist()
    places = [
        output.places + np.int32(n)
        for output, n in zip(found, before, strict=False)
        if output.places is not None
    ]
    return Output(table, np.concatenate(places) if places else None)
