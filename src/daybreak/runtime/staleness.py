"""Stale time of queries, from the intervals in which updates were pending (fas-mcq-paper 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Stale:
    """Intervals in which queries were stale, grouped by query; they may overlap."""

    query: NDArray[np.int32]
    since_ns: NDArray[np.int64]
    until_ns: NDArray[np.int64]

    @classmethod
    def of(cls, intervals: Sequence[tuple[int, int, int]]) -> Stale:
        """From query, begin and end of each, in any order."""
        rows = np.array(sorted(intervals), dtype=np.int64).reshape(-1, 3)
        return cls(rows[:, 0].astype(np.int32), rows[:, 1].copy(), rows[:, 2].copy())

    def by_query(self, queries: int) -> NDArray[np.int64]:
        """Stale time (ns) of each query since the run began."""
        ends = np.searchsorted(self.query, np.arange(queries + 1)).tolist()
        # What an earlier run left pending arrived before this one began.
        since_ns = np.maximum(self.since_ns, 0)
        return np.array(
            [covered_ns(since_ns[a:b], self.until_ns[a:b]) for a, b in pairwise(ends)],
            dtype=np.int64,
        )


def covered_ns(begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> int:
    """How much time the intervals cover together."""
    if not len(begin_ns):
        return 0
    order = np.argsort(begin_ns, kind="stable")
    begin, end = begin_ns[order], np.maximum.accumulate(end_ns[order])
    gaps = np.maximum(begin[1:] - end[:-1], 0)
    return int(end[-1] - begin[0] - gaps.sum())


def covered_until_ns(
    begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64], at_ns: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much of the time up to each instant the intervals cover together."""
    if not len(begin_ns):
        return np.zeros(len(at_ns))
    order = np.argsort(begin_ns, kind="stable")
    begin, end = begin_ns[order], np.maximum.accumulate(end_ns[order])
    begin[1:] = np.maximum(begin[1:], end[:-1])  # what is left of each beyond those before it
    end = np.maximum(begin, end)
    covered = np.concatenate([[0], np.cumsum(end - begin)])
    edges = np.column_stack([begin, end]).ravel()
    known = np.column_stack([covered[:-1], covered[1:]]).ravel()
    reached: NDArray[np.float64] = np.interp(at_ns, edges, known)
    return reached
