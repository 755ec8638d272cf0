"""The thesis's heuristics (sections 2.3 and 2.5): solve for partitions instead of objects.

Kept for comparison: the exact planner is faster than the better ones of them. A representative
with the partition's mean p, lambda and s stands for its T objects; the transformed problem is
the core problem with weights T p, sizes T s and rates lambda, so the same planner solves it.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from daybreak.freshness.mirror import CHUNK, Floats, Ints, Mirror, freshness
from daybreak.freshness.refresh_planner import plan
from daybreak.model.errors import ConfigError, suggestion

Ordering = Literal["p", "lambda", "p/lambda", "pf", "pfs", "size"]
ORDERINGS: tuple[str, ...] = get_args(Ordering)
Allocation = Literal["ffa", "fba"]


def order_key(mirror: Mirror, ordering: str, reference: float = 1.0) -> Floats:
    """What a partitioning technique sorts by (section 2.3.1; PFS and SIZE: section 2.5).

    ``reference`` is the fixed frequency c of footnote 3, at which PF is taken.
    """
    if ordering == "p":
        return mirror.access
    if ordering == "lambda":
        return mirror.change_rate
    if ordering == "size":
        return mirror.size
    if ordering == "p/lambda":
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(mirror.access > 0, mirror.access / mirror.change_rate, 0.0)
    if ordering == "pf":
        return mirror.access * freshness(reference, mirror.change_rate)
    # PFS spends the same bandwidth on every object, not the same frequency.
    if ordering == "pfs":
        return mirror.access * freshness(reference / mirror.size, mirror.change_rate)
    raise ConfigError("partitioning", f"{ordering!r}", suggestion(ordering, ORDERINGS))


def partition(mirror: Mirror, ordering: str, partitions: int, reference: float = 1.0) -> Ints:
    """Sorts the objects and cuts them into equal runs; the partition of each object."""
    rank = np.argsort(order_key(mirror, ordering, reference), kind="stable")
    label = np.empty(len(mirror), np.int64)
    label[rank] = np.arange(len(mirror)) * min(partitions, len(mirror)) // len(mirror)
    return label


def refine(mirror: Mirror, label: Ints, iterations: int, normalised: bool = True) -> Ints:
    """k-means from the given partitions with the distance of eq. 2.3 (footnote 6 with sizes).

    ``normalised=False`` leaves lambda and s as they are, against eq. 2.3: they then drown p,
    whose values are of the order 1/N.
    """
    columns = [mirror.access]
    for column in (mirror.change_rate, mirror.size):
        if np.ptp(column) > 0:  # what is the same for all tells nothing
            columns.append(column / column.sum() if normalised else column)
    points = np.column_stack(columns)
    # Distances keep their order under a common scale; this one keeps their squares in range.
    points /= np.abs(points).max() or 1.0
    clusters = int(label.max()) + 1
    for _ in range(iterations):
        moved = _nearest(points, _means(points, label, clusters))
        if (moved == label).all():
            break
        label = moved
    return label


def _means(points: Floats, label: Ints, clusters: int) -> Floats:
    count = np.bincount(label, minlength=clusters)
    sums = np.column_stack([np.bincount(label, column, clusters) for column in points.T])
    # An empty cluster keeps out of everyone's way.
    return np.where(count[:, None] > 0, sums / np.maximum(count, 1)[:, None], np.inf)


def _nearest(points: Floats, centres: Floats) -> Ints:
    live = np.flatnonzero(np.isfinite(centres[:, 0]))
    kept = centres[live]
    label = np.empty(len(points), np.int64)
    for start in range(0, len(points), CHUNK):
        part = points[start : start + CHUNK]
        distance = np.zeros((len(part), len(kept)))
        for axis in range(points.shape[1]):
            difference = part[:, axis, None] - kept[:, axis]
            distance += difference * difference
        label[start : start + CHUNK] = live[distance.argmin(axis=1)]
    return label


def allocate(
    mirror: Mirror, label: Ints, bandwidth: float, allocation: Allocation = "ffa"
) -> Floats:
    """Solves the transformed problem and hands the result down to the objects.

    FFA gives the members of a partition the same frequency, FBA the same bandwidth (2.5.3).
    """
    used, index = np.unique(label, return_inverse=True)
    count = np.bincount(index, minlength=len(used))
    access, rate, size = (
        np.bincount(index, weights=column, minlength=len(used)) / count
        for column in (mirror.access, mirror.change_rate, mirror.size)
    )
    solved = plan(Mirror.of(rate, access * count, size * count), bandwidth).frequency
    if allocation == "ffa":
        return solved[index]
    return (size * solved)[index] / mirror.size


def heuristic(
    mirror: Mirror,
    bandwidth: float,
    ordering: str = "pf",
    partitions: int = 100,
    iterations: int = 0,
    allocation: Allocation = "ffa",
    normalised: bool = True,
) -> Floats:
    """Frequencies by partitioning, k-means refinement and allocation, as in the thesis."""
    label = partition(mirror, ordering, partitions)
    if iterations:
        label = refine(mirror, label, iterations, normalised)
    return allocate(mirror, label, bandwidth, allocation)


def ratio_bins(mirror: Mirror, bandwidth: float, bins: int = 100) -> Floats:
    """Ours: objects of about the same log r = log p/(s lambda) share x = lambda/f.

    The optimum's x depends on r alone, so a bin's members differ from the optimum only by the
    width of the bin.
    """
    load = mirror.size * mirror.change_rate
    wanted = np.flatnonzero((load > 0) & (mirror.access > 0))
    frequency = np.zeros(len(mirror))
    if len(wanted) == 0:
        return frequency
    position = np.log(mirror.access[wanted] / load[wanted])
    width = max(float(np.ptp(position)), 1e-12)
    index = ((position - position.min()) / width * (bins - 1e-9)).astype(np.int64)
    index = np.unique(index, return_inverse=True)[1]
    worth = np.bincount(index, weights=mirror.access[wanted])
    loads = np.bincount(index, weights=load[wanted])
    # As elements of size 1 and rate sum(s lambda), a bin's f/lambda is its members' f/lambda.
    solved = plan(Mirror.of(loads, worth), bandwidth).frequency / loads
    frequency[wanted] = mirror.change_rate[wanted] * solved[index]
    return frequency
