"""Bucketing: SlopeSlack's order approximated, in constant time per change (aurora-thesis 4.4.2).

The utility x slack space is cut into p x p buckets, traversed by decreasing utility, then by
increasing slack; within a bucket all are equal and go in order of entry. A box is put into its
bucket when its queue changes, and falls due in a timer queue when waiting alone takes it out of it:
a scheduling point looks at nothing else.

Once out of that bucket, a box slides towards its critical point through the others of its row.
All boxes of a row slide alike, so they enter every further bucket in the order of their critical
points, and nobody has to be moved: they are kept in that order, and which bucket the foremost
is in is looked up when it matters.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from daybreak.model.errors import ConfigError
from daybreak.model.qos import QoSGraph
from daybreak.policies.base import Plan, View, Work
from daybreak.policies.parts.priorities.urgency import UrgencyParams, UrgencyPolicy
from daybreak.policies.parts.queues.sliding_lists import SlidingLists
from daybreak.policies.parts.queues.timer_queue import TimerQueue

MOST_PARTITIONS = 4096
#: Days of the timer queue within which a unit leaves the bucket that it entered.
DAYS = 64


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


#: Of a latency: its bucket, the latency up to which it stays there, and the critical point that
#: it then merely slides to, staying in its row; infinite if there is none.
Place = tuple[int, float, float]
#: The same of a unit, as times from now on.
Spot = tuple[int, float, float]


class BucketGrid:
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
        self._several: dict[tuple[int, ...], tuple[Ranges, ...]] = {}
        for graph in known:
            ends, losses, criticals = zip(*graph.stretches, strict=True)
            # By identity, since comparing graphs costs more than all the rest.
            self._ranges[id(graph)] = Ranges(ends, tuple(map(self._row, losses)), criticals)

    @property
    def widths(self) -> tuple[float, float]:
        """Of utility and slack; grids of the same widths put a latency into the same bucket."""
        return self.slope_per_ns, self.slack_ns

    def _row(self, loss_per_ns: float) -> int:
        """The first bucket of the row of this gradient; the steepest row comes first."""
        slope = min(int(loss_per_ns / self.slope_per_ns), self.partitions - 1)
        return (self.partitions - 1 - slope) * self.partitions

    def ranges(self, graph: QoSGraph) -> Ranges:
        return self._ranges[id(graph)]

    def ranges_of(self, graphs: tuple[int, ...]) -> tuple[Ranges, ...]:
        """Of several graphs, by their identities; the same answer is the same object."""
        found = self._several.get(graphs)
        if found is None:
            found = self._several[graphs] = tuple([self._ranges[g] for g in graphs])
        return found

    def place(self, ranges: Ranges, latency_ns: float) -> Place:
        ends, rows, criticals = ranges
        at = bisect_left(ends, latency_ns)
        row, end, critical = rows[at], ends[at], criticals[at]
        if critical <= latency_ns:
            critical = criticals[at + 1]
        if critical == math.inf:
            return row + self.partitions - 1, end, critical
        slack, least_ns = self.slack_bucket(critical - latency_ns)
        # Without any slack left it is late: the critical point itself is no longer in the bucket.
        until = critical - least_ns if slack else math.nextafter(critical, 0.0)
        return row + slack, min(end, until), critical if end == critical else math.inf

    def slack_bucket(self, slack_ns: float) -> tuple[int, float]:
        """The bucket of a slack, from 0, and the least slack that is still in it."""
        slack = min(int(slack_ns / self.slack_ns), self.partitions - 1)
        return slack, slack * self.slack_ns

    def least_ns(self, slack_bucket: int) -> float:
        """The least slack of a bucket, and for one beyond the last, the most of all."""
        return slack_bucket * self.slack_ns


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
    make_grid: ClassVar[type[BucketGrid]] = BucketGrid
    params: BucketingParams

    def attach(self, view: View, work: Work, seed: int) -> None:
        super().attach(view, work, seed)
        self._last = self.params.partitions**2 - 1
        units = len(self.units.units)
        self._cut(self._grid())
        #: By unit: the graphs of the outputs it serves; and the latency expected at the only one,
        #: or at each, as of time 0.
        self._graphs: list[tuple[Ranges, ...]] = [()] * units
        self._latency = array("d", [0.0]) * units
        self._latencies: dict[int, list[float]] = {}
        self._heeds = self._who_heeds()
        #: Units to put into a bucket anew, in order of events.
        self._changed: dict[int, None] = dict.fromkeys(sorted(self.units.ready))
        self.__dict__["on_arrival"] = self._arrived

    def _grid(self) -> BucketGrid:
        graphs = [q.qos for q in self.view.network.queries if q.qos]
        return self.make_grid(graphs, self.params.partitions)

    def _cut(self, grid: BucketGrid) -> None:
        """Makes the buckets of a grid, all of them empty."""
        self.grid = grid
        units = len(self.units.units)
        #: Bucket n of the grid is list ``_last`` - n: the first in traversal is the highest.
        self._lists = SlidingLists(units, self.params.partitions, grid.slack_ns)
        self._instants = TimerQueue.no_instants(units)
        self._timers = TimerQueue(self._instants, grid.slack_ns / DAYS)

    def on_query_added(self, query: int, now_ns: int) -> None:
        known = len(self.heads)
        super().on_query_added(query, now_ns)
        for _ in self.heads[known:]:
            self._lists.added()
            TimerQueue.added(self._instants)
            self._graphs.append(())
            self._latency.append(0.0)
        self._heeds = self._who_heeds()
        grid = self._grid()
        if grid.widths == self.grid.widths:
            self.grid = grid
        else:
            self._recut(grid)

    def _recut(self, grid: BucketGrid) -> None:
        """Buckets are of other widths now: all units enter theirs in the order they did before."""
        entered_ns = self._lists.entered_ns
        waiting = sorted(self.units.ready, key=lambda unit: (entered_ns(unit), unit))
        self._changed = dict.fromkeys([*waiting, *self._changed])
        self._cut(grid)

    def on_query_removed(self, query: int, now_ns: int) -> None:
        super().on_query_removed(query, now_ns)
        for box in self.view.network.query_boxes[query]:
            for unit in self.units.units_of[box]:
                self._lists.remove(unit)
                self._timers.remove(unit)
                self._changed.pop(unit, None)

    def _who_heeds(self) -> list[tuple[int, ...]]:
        """By box: the units whose expected latency depends on its queue.

        Boxes within a path are emptied before anyone asks again, so only its heads count.
        """
        started: dict[int, list[int]] = {}
        for unit, boxes in enumerate(self.heads):
            for b in boxes:
                started.setdefault(b, []).append(unit)
        paths, upstream = self.params.level == "path", self.outlook.upstream
        heeds = [
            tuple(dict.fromkeys(u for up in upstream(b) for u in started.get(up, ())))
            if b in started or not paths
            else ()
            for b in range(len(self.view.pending))
        ]
        # Mostly the box's own unit: then the same object, which is fetched anyway.
        return [
            own if found == own else found
            for found, own in zip(heeds, self.units.units_of, strict=True)
        ]

    def _arrived(self, box: int, count: int, now_ns: int) -> None:
        self.units.arrived(box, count, now_ns)
        for unit in self._heeds[box]:
            self._changed[unit] = None

    def on_completion(self, plan: Plan, worker: int, cost_ns: int, now_ns: int) -> None:
        super().on_completion(plan, worker, cost_ns, now_ns)
        changed, heeds = self._changed, self._heeds
        for unit in sorted(self.units.touched(plan)):
            changed[unit] = None
        for box, _, _ in plan.steps:
            for unit in heeds[box]:
                changed[unit] = None

    def examined(self, ready: int) -> int:
        return 0  # what is looked at is counted in ``order``

    def order(self, ready: set[int], size: int, now_ns: int) -> list[int]:
        lists, timers, changed = self._lists, self._timers, self._changed
        moved = [unit for unit in timers.due(now_ns) if unit not in changed]
        for unit in moved:
            self._move(unit, now_ns)
        at_last = [unit for unit in lists.arrived(now_ns) if unit not in changed]
        for unit in at_last:
            self._enter(unit, now_ns, self.bucket(unit, now_ns))
        seen = len(moved) + len(at_last)
        for unit in changed:
            if unit in ready:
                seen += 1
                self.look(unit)
                self._enter(unit, now_ns, self.bucket(unit, now_ns))
            else:
                lists.remove(unit)
                timers.remove(unit)
        changed.clear()
        self.work.scanned += seen
        self.work.evaluated += seen
        chosen: list[int] = []
        at = 0
        while len(chosen) < size and (found := self.foremost(now_ns)):
            unit, at = found
            if chosen and not self.goes_on(at):
                break
            lists.remove(unit)
            timers.remove(unit)
            # One that rides along meanwhile comes back when it is free again.
            if unit in ready:
                chosen.append(unit)
        # Charged as the text's traversal, which passes every bucket up to the last it takes from.
        self.work.buckets += self._last - at + 1
        return chosen

    def goes_on(self, at: int) -> bool:
        """Whether a list of plans takes in a further unit, which is in this bucket."""
        return True

    def _enter(self, unit: int, now_ns: int, spot: Spot) -> None:
        """Puts a unit into its bucket."""
        bucket, stays_ns, _ = spot
        self._lists.enter(unit, self._last - bucket, now_ns)
        if stays_ns < math.inf:
            self._timers.put(unit, now_ns + int(stays_ns) + 1)
        else:
            self._timers.remove(unit)

    def _move(self, unit: int, now_ns: int) -> None:
        """Waiting has taken a unit out of its bucket: it slides, or has left its row."""
        spot = bucket, _, slack_ns = self.bucket(unit, now_ns)
        row, left = (self._last - bucket) // self.grid.partitions, self._lists.list_of(unit)
        if slack_ns < math.inf and row == left // self.grid.partitions:
            self._lists.slide(unit, row, now_ns + slack_ns)
        else:
            self._enter(unit, now_ns, spot)

    def foremost(self, now_ns: int) -> tuple[int, int] | None:
        """The first unit in the order of traversal, and the list it is in."""
        lists, grid = self._lists, self.grid
        at, row = lists.first_list(), lists.first_sliding_row()
        if row < 0 or row < at // grid.partitions:
            return (lists.first_in(at)[1], at) if at >= 0 else None
        critical_ns, unit = lists.foremost(row)
        slack, _ = grid.slack_bucket(critical_ns - now_ns)
        slid = (row + 1) * grid.partitions - 1 - slack
        if slid > at:
            return unit, slid
        entered_ns, first = lists.first_in(at)
        # In the same bucket: the one slid into it when it left the bucket above.
        if slid == at and critical_ns - grid.least_ns(slack + 1) < entered_ns:
            return unit, slid
        return first, at

    def look(self, unit: int) -> None:
        """Notes the expected latencies of a unit whose queue has changed, as of time 0.

        They grow with time itself, so this holds until the queue changes again.
        """
        pending, latencies = self.view.pending, self.outlook.latencies
        found = [pair for box in self.heads[unit] if pending[box] for pair in latencies(box, 0)]
        if len(found) == 1:
            self._latency[unit] = found[0][1]
        else:
            self._latencies[unit] = [latency_ns for _, latency_ns in found]
        self._graphs[unit] = self.grid.ranges_of(tuple([id(qos) for qos, _ in found]))

    def bucket(self, unit: int, now_ns: int) -> Spot:
        """The best bucket among the unit's outputs, and for how long none of them changes."""
        graphs, place = self._graphs[unit], self.grid.place
        if len(graphs) == 1:
            latency_ns = now_ns + self._latency[unit]
            bucket, until_ns, slides_to_ns = place(graphs[0], latency_ns)
            return bucket, until_ns - latency_ns, slides_to_ns - latency_ns
        best, stays_ns = self._last, math.inf
        for ranges, at_0_ns in zip(graphs, self._latencies[unit], strict=True):
            latency_ns = now_ns + at_0_ns
            bucket, until_ns, _ = place(ranges, latency_ns)
            best = min(best, bucket)
            stays_ns = min(stays_ns, until_ns - latency_ns)
        return best, stays_ns, math.inf
