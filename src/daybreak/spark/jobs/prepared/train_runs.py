"""Runs a plan over a train: on the caller's thread, and a long one on cores that are idle, too.

A cell has one job at a time. Where each row is computed by itself, parts of its train can be
computed at once, so that a cell may take more than one core if nobody else does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.jobs.inmemory import MemoryFolder
from daybreak.spark.jobs.prepared.jvm import Runs, Unfit
from daybreak.spark.jobs.prepared.planner import Planned
from daybreak.spark.jobs.prepared.trains import read_places, read_result, write_train

#: What a train and its result may take, in memory that Python and the JVM share.
MOST_BYTES = 256 << 20
#: Shorter parts of a train take longer to begin than they save.
PART_ROWS = 50_000


class Cancelled(Exception):
    """The job's time was over while its plan ran."""


class Output(NamedTuple):
    """What a plan has given."""

    table: pa.Table
    #: Which rows of the train it is of, where it is not of all (``Recipe.masks``).
    places: NDArray[np.int32] | None = None


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


class TrainRuns:
    """Runs plans for one worker thread, whose jobs have this tag."""

    def __init__(self, cores: Cores, tag: str) -> None:
        self._cores = cores
        self._tag = tag
        self._folder: MemoryFolder | None = None
        self._helpers: ThreadPoolExecutor | None = None

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()
        if self._folder is not None:
            self._folder.close()

    def run(self, runs: Runs, planned: Planned, tables: Mapping[str, pa.Table]) -> Output | None:
        """None if a static table has changed since the plan was made.

        ``Cancelled`` if it was interrupted, ``Unfit`` if it takes too much memory.
        """
        rows = sum(table.num_rows for table in tables.values())
        most = rows // PART_ROWS if planned.by_row else 1
        with self._cores.taken(most) as count:
            parts = _parts(tables, rows, count)
            others = [
                self._helping().submit(self._run_part, runs, planned, number, part, count)
                for number, part in enumerate(parts[1:], 1)
            ]
            try:
                first = self._run_part(runs, planned, 0, parts[0], count)
            finally:
                wait(others)
            return _joined([first, *(other.result() for other in others)], parts)

    def _helping(self) -> ThreadPoolExecutor:
        """Threads for the other parts of a train."""
        if self._helpers is None:
            most = max(self._cores.count - 1, 1)
            self._helpers = ThreadPoolExecutor(most, thread_name_prefix=f"{self._tag}-part")
        return self._helpers

    def _run_part(
        self, runs: Runs, planned: Planned, number: int, tables: Mapping[str, pa.Table], parts: int
    ) -> Output | None:
        tag = tag_of(self._tag, number)
        if tag not in planned.copies:
            planned.copies[tag] = planned.plan.copy()
        path = self._place(number)
        leaves, masks = planned.leaves, planned.masks
        try:
            for at, leaf in enumerate(leaves):
                write_train(path / f"in{at}", tables[leaf.name], leaf.reads, leaf.layout)
            written = runs.run(
                planned.copies[tag], tag, str(path), len(leaves), masks, MOST_BYTES // parts
            )
            match written:
                case -1:
                    raise Cancelled("cancelled")
                case -2:
                    return None
                case -3:
                    raise Unfit("the result is too large")
            places = read_places(path / "places") if masks else None
            return Output(read_result(path / "out", planned.schema), places)
        finally:  # they take memory
            for file in path.iterdir():
                file.unlink()

    def _place(self, number: int) -> Path:
        """The folder of a part; called by the thread that runs it."""
        if self._folder is None:
            self._folder = MemoryFolder()
        path = self._folder.path / str(number)
        path.mkdir(exist_ok=True)
        return path


def tag_of(worker: str, part: int) -> str:
    """Under which a part of a train runs; the first one under that of its worker."""
    return f"{worker}/{part}" if part else worker


def _parts(tables: Mapping[str, pa.Table], rows: int, count: int) -> list[Mapping[str, pa.Table]]:
    """A train in so many parts; if there are several, it has one table."""
    if count == 1:
        return [tables]
    [(name, table)] = tables.items()
    bounds = [rows * at // count for at in range(count + 1)]
    return [{name: table.slice(a, b - a)} for a, b in pairwise(bounds)]


def _joined(
    found: Sequence[Output | None], parts: Sequence[Mapping[str, pa.Table]]
) -> Output | None:
    some = [output for output in found if output is not None]
    if len(some) < len(found):
        return None
    if len(some) == 1:
        return some[0]
    table = pa.concat_tables([output.table for output in some])
    places, before = [], 0
    for output, part in zip(some, parts, strict=True):
        if output.places is not None:
            places.append(output.places + np.int32(before))
        before += sum(rows.num_rows for rows in part.values())
    return Output(table, np.concatenate(places) if places else None)
