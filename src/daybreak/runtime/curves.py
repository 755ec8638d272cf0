"""Response times, utility and staleness of each class over time, in buckets of one width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S
from daybreak.runtime.report import RunReport, weighted_percentiles
from daybreak.runtime.staleness import Stale, covered_until_ns

LEVELS = (50, 95, 99)


@dataclass(frozen=True)
class Curves:
    """One class over time; NaN where nothing left, or nothing is declared."""

    #: Results that left in each bucket.
    results: NDArray[np.int64]
    #: Percentiles of their response times, by level.
    response_s: dict[int, NDArray[np.float64]]
    utility: NDArray[np.float64]
    #: Share of the bucket in which queries were stale: their mean by weight.
    staleness: NDArray[np.float64]


def class_curves(
    report: RunReport, edges_s: NDArray[np.float64], levels: Sequence[int] = LEVELS
) -> dict[str, Curves]:
    """By class; a result counts in the bucket in which it left."""
    o, buckets = report.outputs, len(edges_s) - 1
    left_s = o.departure_ns / NS_PER_S
    bucket = np.clip(np.searchsorted(edges_s, left_s, side="left") - 1, 0, buckets - 1)
    stale = _stale_shares(report, edges_s)
    weights = np.array(report.weights)
    found = {}
    for c, name in enumerate(report.classes):
        mine = report.class_of_output == c
        of = np.array(report.query_class) == c
        found[name] = _curves(
            bucket[mine], report.response_s[mine], report.utility[mine], o.tuples[mine],
            np.average(stale[of], axis=0, weights=weights[of])
            if of.any() else np.full(buckets, np.nan),
            levels,
        )  # fmt: skip
    return found


def _curves(
    bucket: NDArray[np.int64],
    response_s: NDArray[np.float64],
    utility: NDArray[np.float64],
    tuples: NDArray[np.int64],
    staleness: NDArray[np.float64],
    levels: Sequence[int],
) -> Curves:
    buckets = len(staleness)
    results = np.bincount(bucket, weights=tuples, minlength=buckets).astype(np.int64)
    response = {level: np.full(buckets, np.nan) for level in levels}
    worth = np.full(buckets, np.nan)
    order = np.argsort(bucket, kind="stable")
    ends = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for b in np.flatnonzero(results).tolist():
        mine = order[ends[b] : ends[b + 1]]
        at = weighted_percentiles(response_s[mine], tuples[mine], levels)
        for level, value in at.items():
            response[level][b] = value
        known = mine[~np.isnan(utility[mine])]
        if len(known):
            worth[b] = np.average(utility[known], weights=tuples[known])
    return Curves(results, response, worth, staleness)


def _stale_shares(report: RunReport, edges_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of each bucket in which each query was stale."""
    o = report.outputs
    stale = report.stale or Stale(o.query, o.arrival_ns, o.departure_ns)
    edges_ns = edges_s * NS_PER_S
    shares = np.zeros((len(report.queries), len(edges_s) - 1))
    ends = np.searchsorted(stale.query, np.arange(len(report.queries) + 1))
    for q in range(len(report.queries)):
        mine = slice(int(ends[q]), int(ends[q + 1]))
        since_ns = np.maximum(stale.since_ns[mine], 0)
        stale_ns = covered_until_ns(since_ns, stale.until_ns[mine], edges_ns)
        shares[q] = np.diff(stale_ns) / np.diff(edges_ns)
    return shares
