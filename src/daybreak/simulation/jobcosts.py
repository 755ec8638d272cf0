"""What a job costs, from the jobs that a run recorded.

A job of a query on n tuples with r others riding along is modelled as ``fixed + scan x n +
r x (margin + margin_each x n)``, the form the engine itself learns (``engine.costs``), by least
squares of the relative error with no figure below zero. The engine's own estimator would not do: it
starts from a prior and follows jobs as they end, while here the whole run is known. Filters of one
class over one stream share the figures; any other query has its own. What the form does not explain
comes again in its order: if the k-th recorded job took longer, the k-th one takes so much longer,
whatever it works on (it was compiled, or something else ran), and if it took less, the k-th takes
so many per cent less.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

#: With fewer jobs than this a query takes the figures of all jobs together.
FEWEST = 3


class RecordedJob(NamedTuple):
    """One recorded job."""

    #: The query that was asked for comes first.
    queries: tuple[str, ...]
    committed_ns: int
    tuples: int
    #: Result rows of each query.
    rows: tuple[int, ...]
    cost_ns: int


class FittedCosts:
    """The fitted form, and how far the jobs it was fitted to were off."""

    def __init__(
        self, jobs: Sequence[RecordedJob], figures: NDArray[np.float64] | None = None
    ) -> None:
        seen = [_features(j.tuples, len(j.queries) - 1) for j in jobs]
        features = np.array(seen).reshape(-1, 4)
        cost = np.array([max(1, j.cost_ns) for j in jobs], dtype=np.float64)
        self.figures = fit(features, cost) if figures is None else figures
        expected = features @ self.figures
        self._more_ns: list[float] = np.maximum(cost - expected, 0.0).tolist()
        part = np.divide(cost, expected, out=np.ones_like(cost), where=expected > cost)
        self._part: list[float] = part.tolist()

    def cost_ns(self, tuples: int, riders: int, job: int) -> int:
        """Of the ``job``-th job of this kind, from 0 on."""
        expected = float(_features(tuples, riders) @ self.figures)
        known = len(self._part)
        if not known:
            return round(expected)
        if job >= known:  # once more, without the beginning: it does not warm up twice
            half = known // 2
            job = half + (job - known) % (known - half)
        return round(expected * self._part[job] + self._more_ns[job])


class JobCosts:
    """The figures of every query, by the kind of jobs it is asked for in."""

    def __init__(self, jobs: Sequence[RecordedJob], kinds: Mapping[str, Hashable]) -> None:
        """``kinds``: queries with the same kind share figures."""
        by_kind: dict[Hashable, list[RecordedJob]] = {kind: [] for kind in kinds.values()}
        for job in jobs:
            if job.queries[0] in kinds:
                by_kind[kinds[job.queries[0]]].append(job)
        typical = FittedCosts(jobs).figures
        self.of: dict[Hashable, FittedCosts] = {
            kind: FittedCosts(mine, None if len(mine) >= FEWEST else typical)
            for kind, mine in by_kind.items()
        }


def _features(tuples: int, riders: int) -> NDArray[np.float64]:
    return np.array([1.0, tuples, riders, riders * tuples])


def fit(features: NDArray[np.float64], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Least squares of the relative error; whatever would be below zero is left out in turn."""
    found = np.zeros(features.shape[1])
    if not len(cost):
        return found
    relative = features / cost[:, None]
    # The columns differ by orders of magnitude.
    scale = np.maximum(np.abs(relative).max(axis=0), 1e-300)
    used = np.flatnonzero(np.abs(features).max(axis=0) > 0)
    while len(used):
        figures = np.linalg.lstsq(relative[:, used] / scale[used], np.ones(len(cost)))[0]
        if figures.min() >= 0:
            found[used] = figures / scale[used]
            break
        used = np.delete(used, int(figures.argmin()))
    return found
