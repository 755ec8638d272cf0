"""Runs many settings once each, and the means over seeds that figures are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from daybreak_experiments.core import Claim, Context, Kind
from daybreak_experiments.fas.testbed import Point, Setting, measure
from daybreak_experiments.rules import close, required

#: Tuples per stream in the figures. The paper has 10 000, which takes half a minute a run; a
#: run begins with empty queues, and much shorter ones never reach what is usual at high load.
TUPLES = 2_000
NOTE_LENGTH = (
    f"Streams have {TUPLES:,} tuples here, the paper's 10 000: a figure takes minutes this way. "
    "All policies of a seed see the same queries, arrivals and fates, so they compare exactly."
)
NOTE_CALENDAR = (
    "FAS-MCQ pays one cheapest operator (K) per scheduling point at which queries had received "
    "updates. Charged at every retrieval, as the paper may be read, the calendar would add K to "
    "the 4.5 K that an update takes on average, and no run at 0.95 would be stable."
)
Metric = Literal["staleness", "response_s"]

#: Points of this process: figures share many of them.
_known: dict[Setting, Point] = {}


class Means:
    """Results by setting, averaged over seeds."""

    def __init__(self, context: Context, settings: Sequence[Setting]) -> None:
        self.seeds = list(context.seeds)
        wanted = [replace(s, seed=seed) for s in settings for seed in self.seeds]
        missing = [s for s in dict.fromkeys(wanted) if s not in _known]
        _known.update(zip(missing, context.map(measure, missing), strict=True))

    def each(self, setting: Setting, metric: Metric) -> list[float]:
        """One value per seed."""
        return [getattr(_known[replace(setting, seed=s)], metric) for s in self.seeds]

    def mean(self, setting: Setting, metric: Metric = "staleness") -> float:
        return float(np.mean(self.each(setting, metric)))

    def saving(self, setting: Setting, base: Setting, metric: Metric = "staleness") -> float:
        """By what share the first is below the second."""
        return 1 - self.mean(setting, metric) / self.mean(base, metric)

    def below(self, low: Setting, high: Setting, metric: Metric = "staleness") -> int:
        """In how many seeds the first is below the second."""
        pairs = zip(self.each(low, metric), self.each(high, metric), strict=True)
        return sum(a < b for a, b in pairs)


def every_seed(
    claim: str,
    means: Means,
    pairs: Sequence[tuple[Setting, Setting]],
    metric: Metric = "staleness",
    kind: Kind = "robust",
) -> Claim:
    """In each pair the first is below the second, in every seed."""
    held = sum(means.below(low, high, metric) for low, high in pairs)
    total = len(pairs) * len(means.seeds)
    return Claim(
        claim,
        kind,
        "everywhere",
        f"in {held} of {total} pairs",
        required("in every pair, with every seed", held == total),
    )


def on_average(
    claim: str, means: Means, pairs: Sequence[tuple[Setting, Setting]], metric: Metric = "staleness"
) -> Claim:
    """A robust claim: in each pair the mean over seeds of the first is below the second's."""
    held = sum(means.mean(low, metric) < means.mean(high, metric) for low, high in pairs)
    return Claim(
        claim,
        "robust",
        "everywhere",
        f"in {held} of {len(pairs)} means",
        required("in every pair, over the seeds' mean", held == len(pairs)),
    )


#: How far our share may lie from the paper's, as a share of that.
AGREE = 0.25


def published(claim: str, text: Sequence[float], ours: Sequence[float]) -> Claim:
    """The paper's shares beside ours; each must lie within a quarter of the paper's."""
    printed, got = (", ".join(percent(v) for v in values) for values in (text, ours))
    return Claim(claim, "published", printed, got, close(text, ours, AGREE))


def percent(share: float) -> str:
    return f"{share:.0%}"
