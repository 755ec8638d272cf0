"""Bucketing: SlopeSlack's order approximated, in constant time per change (aurora-thesis 4.4.2).

The utility x slack space is cut into p x p buckets, traversed by decreasing utility, then by
increasing slack; within a bucket all are equal and go in order of entry. A box is put into its
bucket when its queue changes, and falls due in an agenda when waiting alone will take it into
another: a scheduling point looks at nothing else.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from daybreak.model.errors import ConfigError
from daybreak.model.qos import QoSGraph
from daybreak.policies.base import Plan, View, Work
from daybreak.policies.calendar import Agenda, RankedLists
from daybreak.policies.slope_slack import UrgencyParams, UrgencyPolicy

MOST_PARTITIONS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketingParams(UrgencyParams):
    """Parameters of bucketing."""

    #: Parts into which each of utility and slack is cut; there are as many buckets squared.
    partitions: int = 50

    def __post_init__(self) -> None:
        UrgencyParams.__post_init__(self)
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise ConfigError(
                "policy", f"partitions {self.partitions}", f"give 1 to {MOST_PARTITIONS}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketingPathParams(BucketingParams):
    """Input boxes are what is chosen among."""

    level: Literal["path"] = "path"


class Ranges(NamedTuple):
    """Of each piece of a graph: where it ends, its row of buckets, the critical point ahead."""

    ends_ns: tuple[float, ...]
    rows: tuple[int, ...]
    criticals_ns: tuple[float, ...]


class Grid:
    """Which bucket a latency falls into: gradient- and slack-latency ranges, worked out ahead.

    Buckets are numbered in the order of traversal, from 0: the text's bucket_ij is number
    (i - 1) p + j - 1. A latency that is late shares the last slack bucket.
    """

    def __init__(self, graphs: Iterable[QoSGraph], partitions: int) -> None:
        self.partitions = partitions
        #: Kept, so that their identities stay theirs.
        self.graphs = known = list({id(g): g for g in graphs}.values())
        steepest = max((s.loss_per_ns for g in known for s in g.stretches), default=0.0)
        #: Widths of a bucket; all slack values lie below the largest critical gap.
        self.slope_per_ns = steepest / partitions or 1.0
        self.slack_ns = max([1.0, *(_most_slack(g) for g in known)]) / partitions
        self._ranges: dict[int, Ranges] = {}
        for graph in known:
            ends, losses, criticals = zip(*graph.stretches, strict=True)
            # By identity, since comparing graphs costs more than all the rest.
            self._ranges[id(graph)] = Ranges(ends, tuple(map(self._row, losses)), criticals)

    def _row(self, loss_per_ns: float) -> int:
        """The first bucket of the row of this gradient; the steepest row comes first."""
        slope = min(int(loss_per_ns / self.slope_per_ns), self.partitions - 1)
        return (self.partitions - 1 - slope) * self.partitions

    def ranges(self, graph: QoSGraph) -> Ranges:
        return self._ranges[id(graph)]

    def place(self, ranges: Ranges, latency_ns: float) -> tuple[int, float]:
        """The bucket of this latency, and the latency up to which it stays there."""
        ends, rows, criticals = ranges
        at = bisect_left(ends, latency_ns)
        row, end, critical = rows[at], ends[at], criticals[at]
        if critical <= latency_ns:
            critical = criticals[at + 1]
        if critical == math.inf:
            return row + self.partitions - 1, end
        slack, least_ns = self.slack_bucket(critical - latency_ns)
        # Without any slack left it is late: the critical point itself is no longer in the bucket.
        until = critical - least_ns if slack else math.nextafter(critical, 0.0)
        return row + slack, min(end, until)

    def slack_bucket(self, slack_ns: float) -> tuple[int, float]:
        """The bucket of a slack, from 0, and the least slack that is still in it."""
        slack = min(int(slack_ns / self.slack_ns), self.partitions - 1)
        return slack, slack * self.slack_ns


def _most_slack(graph: QoSGraph) -> float:
    begins = (0.0, *(s.end_ns for s in graph.stretches[:-1]))
    return max(
        (s.critical_ns - b for b, s in zip(begins, graph.stretches, strict=True)
         if s.critical_ns < math.inf), default=0.0,
    )  # fmt: skip


class Bucketing(UrgencyPolicy):
    """SlopeSlack by buckets; only what changed bucket is looked at."""

    name = "bucketing"
    summary = "slope-slack approximated by p x p buckets, in constant time per change"
    on_spark = False  # a query is one box there: the same as bucketing-push
    Params: ClassVar[type[Any]] = BucketingParams
    make_grid: ClassVar[type[Grid]] = Grid
    params: BucketingParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        graphs = [q.qos for q in view.network.queries if q.qos]
        self.grid = self.make_grid(graphs, self.params.partitions)
        self._last = self.params.partitions**2 - 1
        units = len(self.units.units)
        #: Bucket n of the grid is list ``_last`` - n: the first in traversal is the highest.
        self._lists = RankedLists(units)
        self._agenda = Agenda(units, self.grid.slack_ns)
        #: By unit: the outputs it serves, and the latency expected there as of time 0.
        self._outputs: list[list[tuple[Ranges, float]]] = [[] for _ in range(units)]
        self._heeds = self._who_heeds()
        #: Units to put into a bucket anew, in order of events.
        self._changed: dict[int, None] = dict.fromkeys(sorted(self.units.ready))
        self.__dict__["on_arrival"] = self._arrived

    def _who_heeds(self) -> list[dict[int, None]]:
        """By box: the units whose expected latency depends on its queue.

        Boxes within a path are emptied before anyone asks again, so only its heads count.
        """
        started: dict[int, list[int]] = {}
        for unit, boxes in enumerate(self.heads):
            for b in boxes:
                started.setdefault(b, []).append(unit)
        paths, upstream = self.params.level == "path", self.outlook.upstream
        return [
            dict.fromkeys(u for up in upstream(b) for u in started.get(up, ()))
            if b in started or not paths
            else {}
            for b in range(len(self.view.pending))
        ]

    def _arrived(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        self._changed.update(self._heeds[box])

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        super().on_completion(plan, worker, cost_ns, now_ns)
        self._changed.update(dict.fromkeys(sorted(self.units.touched(plan))))
        for box, _, _ in plan.steps:
            self._changed.update(self._heeds[box])

    def examined(self, ready: int) -> int:
        return 0  # what is looked at is counted in ``order``

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        lists, agenda = self._lists, self._agenda
        moved = [unit for unit in agenda.due(now_ns) if unit not in self._changed]
        for unit in moved:
            self._place(unit, now_ns)
        seen = len(moved)
        for unit in self._changed:
            if unit in ready:
                seen += 1
                self.look(unit)
                self._place(unit, now_ns)
            else:
                lists.remove(unit)
                agenda.remove(unit)
        self._changed.clear()
        self.work.scanned += seen
        self.work.evaluated += seen
        chosen: list[int] = []
        at = 0
        while lists and len(chosen) < size:
            unit, at = lists.pop()
            agenda.remove(unit)
            # One that rides along meanwhile comes back when it is free again.
            if unit in ready:
                chosen.append(unit)
        # Charged as the text's traversal, which passes every bucket up to the last it takes from.
        self.work.buckets += self._last - at + 1
        return chosen

    def _place(self, unit: int, now_ns: int) -> None:
        bucket, stays_ns = self.bucket(unit, now_ns)
        self._lists.enter(unit, self._last - bucket)
        if stays_ns < math.inf:
            self._agenda.put(unit, now_ns + int(stays_ns) + 1)
        else:
            self._agenda.remove(unit)

    def look(self, unit: int) -> None:
        """Notes the expected latencies of a unit whose queue has changed, as of time 0.

        They grow with time itself, so this holds until the queue changes again.
        """
        pending, latencies, ranges = self.view.pending, self.outlook.latencies, self.grid.ranges
        self._outputs[unit] = [
            (ranges(qos), latency_ns)
            for box in self.heads[unit]
            if pending[box]
            for qos, latency_ns in latencies(box, 0)
        ]

    def bucket(self, unit: int, now_ns: int) -> tuple[int, float]:
        """The best bucket among the unit's outputs, and for how long none of them changes."""
        best, stays_ns = self._last, math.inf
        for ranges, at_0_ns in self._outputs[unit]:
            latency_ns = now_ns + at_0_ns
            bucket, until_ns = self.grid.place(ranges, latency_ns)
            best = min(best, bucket)
            stays_ns = min(stays_ns, until_ns - latency_ns)
        return best, stays_ns


class BucketingPush(Bucketing):
    """BucketingPushThrough: input boxes by bucket, each run through to the output."""

    name = "bucketing-push"
    summary = "bucketing among input boxes, tuples pushed through to the output"
    on_spark = True
    Params: ClassVar[type[Any]] = BucketingPathParams
