"""Cuts: each query's rows of a common result.

They know nothing of Spark, so that they can travel to executors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.spark.log.event_clock import instants
from daybreak.spark.log.event_time import Grid, Windowing
from daybreak.spark.sql.composite import Cutter
from daybreak.spark.tasks.task import Cut


@dataclass(frozen=True)
class CutOne:
    """The result of one query by itself."""

    schema: pa.Schema

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return [table.cast(self.schema)]


@dataclass(frozen=True)
class CutByMask:
    """The rows of some queries of a composite, by their place in it."""

    cutter: Cutter
    schemas: Mapping[int, pa.Schema]

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return self.cutter.cut(table, self.schemas)

    def earliest(self, table: pa.Table, arrived: NDArray[np.int64]) -> list[int | None]:
        """When the first row had arrived that each query keeps; ``arrived`` has that of each."""
        return self.cutter.earliest(table, arrived, self.schemas)


@dataclass(frozen=True)
class CutWindows:
    """Each query's rows without windows that were emitted before, or are still open."""

    results: Cut
    windowings: tuple[Windowing, ...]
    first_us: int
    last_us: int

    def __call__(self, table: pa.Table) -> Sequence[pa.Table]:
        return [
            _within(own, result, self.first_us, self.last_us)
            for own, result in zip(self.windowings, self.results(table), strict=True)
        ]


def _within(windowing: Windowing, result: pa.Table, first_us: int, last_us: int) -> pa.Table:
    """The rows of windows that end in (first, last]."""
    grid, marks = windowing.over, windowing.marks
    if not isinstance(grid, Grid) or not grid.overlaps:
        return result
    column, kind = next(iter(marks.items()))
    told = result[column]
    if kind == "window":
        told = pa.chunked_array([chunk.field("end") for chunk in told.chunks], told.type[1].type)
    at = instants(told) + (grid.length_us if kind == "start" else 0)
    return result.filter(pa.array((at > first_us) & (at <= last_us)))
