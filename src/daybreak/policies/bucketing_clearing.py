"""Bucketing that clears what is late when it can: beyond the text (aurora/best-of-both).

SlopeSlack puts whatever is late behind everything else. It then stays late, and so does all that
queues behind it, although the rest may have time to spare. Fixed-Priority serves it at once,
also where it will never catch up. Here a late path is ranked by what it takes to clear it: as if
its slack were ``patience`` times the work queued on it. A short backlog is worked off before what
can wait, so that the next tuples are on time again; a long one, which steals more than it gains,
comes after.

Slack buckets grow with the slack, since 10 ms must be told from 20 ms also beside deadlines of
seconds.

A long list of plans saves runs of the scheduler, but holds up whatever urgent arrives meanwhile.
A path with less slack than any tuple that arrives from now on can bring is not overtaken by it:
such paths are listed at once, up to ``schedule_size``. One that an arrival could go before is
listed alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from daybreak.model.errors import ConfigError
from daybreak.model.qos import QoSGraph
from daybreak.policies.base import View, Work
from daybreak.policies.bucketing import BucketGrid, Bucketing, BucketingPathParams, Spot
from daybreak.policies.parts.queues.growing_tables import put

#: The largest slack is so many times (as a power of two) the least that has a bucket of its own.
OCTAVES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearingParams(BucketingPathParams):
    """Parameters of bucketing-clearing."""

    partitions: int = 24
    #: A late path counts as if its slack were so many times the work queued on it.
    patience: float = 20.0

    def __post_init__(self) -> None:
        BucketingPathParams.__post_init__(self)
        if not (math.isfinite(self.patience) and self.patience > 0):
            raise ConfigError("policy", f"patience {self.patience}", "give a number above 0")


class LogGrid(BucketGrid):
    """Slack buckets in equal ratios."""

    def __init__(self, graphs: Iterable[QoSGraph], partitions: int) -> None:
        super().__init__(graphs, partitions)
        self._most_ns = self.slack_ns * partitions
        self._per_octave = partitions / OCTAVES
        # The timer queue's year: what is urgent moves on within this.
        self.slack_ns = self._most_ns / 2**OCTAVES * partitions
        least = [self._most_ns * 2.0 ** ((i - partitions) / self._per_octave)
                 for i in range(partitions)]  # fmt: skip
        self._least_ns = (0.0, *least[1:])

    def slack_bucket(self, slack_ns: float) -> tuple[int, float]:
        octaves = OCTAVES if slack_ns <= 0 else 0.0
        if 0 < slack_ns < self._most_ns:  # it is infinite where nothing is ever lost
            octaves = math.log2(self._most_ns / slack_ns)
        slack = math.ceil(self.partitions - octaves * self._per_octave) - 1
        slack = min(max(slack, 0), self.partitions - 1)
        # Rounding must not put a slack above the bucket that it has just left.
        least_ns = self._least_ns[slack]
        return slack, min(least_ns, slack_ns)

    def least_ns(self, slack_bucket: int) -> float:
        return self._least_ns[slack_bucket] if slack_bucket < self.partitions else self._most_ns


class BucketingClearing(Bucketing):
    """BucketingPushThrough with late paths ranked by what it takes to clear them."""

    name = "bucketing-clearing"
    summary = "bucketing-push, but short backlogs that are late go before what can wait"
    on_spark = True
    Params: ClassVar[type[Any]] = ClearingParams
    make_grid: ClassVar[type[BucketGrid]] = LogGrid
    params: ClearingParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        #: By unit: what it takes to work off its queue.
        self._clearing_ns = [math.inf] * len(self.heads)
        #: The first list that a tuple which finds nothing queued can enter.
        self._settled_from = self._first_entered(range(len(self.heads)))

    def _first_entered(self, units: Iterable[int]) -> int:
        fresh = [
            self.grid.place(self.grid.ranges(qos), latency_ns)[0]
            for unit in units for box in self.heads[unit]
            for qos, latency_ns in self.outlook.alone(box)
        ]  # fmt: skip
        return self._last - min(fresh, default=self._last)

    def on_query_added(self, query: int, now_ns: int) -> None:
        widths = self.grid.widths
        super().on_query_added(query, now_ns)
        [box] = self.view.network.query_boxes[query]
        for unit in self.units.units_of[box]:
            put(self._clearing_ns, unit, math.inf)
            self._settled_from = max(self._settled_from, self._first_entered([unit]))
        if self.grid.widths != widths:
            self._settled_from = self._first_entered(range(len(self.heads)))

    def goes_on(self, at: int) -> bool:
        return at >= self._settled_from

    def look(self, unit: int) -> None:
        super().look(unit)
        view = self.view
        self._clearing_ns[unit] = min(
            (latency_ns + view.arrival_sum_ns[box] / view.pending[box]
             for box in self.heads[unit] if view.pending[box]
             for _, latency_ns in self.outlook.latencies(box, 0)), default=math.inf,
        )  # fmt: skip

    def bucket(self, unit: int, now_ns: int) -> Spot:
        spot = bucket, stays_ns, _ = super().bucket(unit, now_ns)
        clearing_ns = self._clearing_ns[unit]
        if bucket < self._last or stays_ns < math.inf or clearing_ns == math.inf:
            return spot
        slack, _ = self.grid.slack_bucket(self.params.patience * clearing_ns)
        return self._last + 1 - self.grid.partitions + slack, math.inf, math.inf
