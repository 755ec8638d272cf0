"""The last minutes of a running system, a point a second, for those who watch it.

Kept always, so that a page that is opened late sees what led here; so it must be cheap: what is
done per answer is an append, and once a second these become a few numbers.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.view import SystemFigures
from daybreak.model.qos import NS_PER_S
from daybreak.policies.parts.rates.arrival_rates import ArrivalRates
from daybreak.runtime.classes import ClassesOverTime, inversion_ratios, starvation_alarms_over
from daybreak.runtime.report import summarise
from daybreak.runtime.snapshot import (
    HISTORY_S,
    MINUTE_S,
    MOST_JOBS,
    RECENT_S,
    ClassPoint,
    ClassRow,
    JobRow,
    Point,
    QueryRow,
    Spread,
    known,
)

EVERY_NS = NS_PER_S
#: Bounds of the bins in which response times are counted: 100 us to about an hour, 5 % apart, so
#: the geometric middle of a bin is within 2.5 % of what is in it.
_BOUNDS_S = 1e-4 * 1.05 ** np.arange(357)
_MIDDLES_S = np.concatenate([_BOUNDS_S[:1], _BOUNDS_S[:-1] * 1.05**0.5, _BOUNDS_S[-1:]])
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Second(NamedTuple):
    """What left in one second, one entry per run of tuples that one query answered."""

    cls: Ints
    response_s: Floats
    utility: Floats
    tuples: Ints


class _Totals(NamedTuple):
    """What had been counted at one moment."""

    at_ns: int
    stale_ns: Floats
    arrived: Floats
    scheduling_ns: int
    busy_ns: int


class History:
    """Written by one thread, read by any."""

    def __init__(self, figures: Callable[[], SystemFigures], start_ns: int) -> None:
        """``figures``: how the system stands now; any thread may call it."""
        classes = len(figures().network.classes)
        self._figures = figures
        self._start_ns = start_ns
        #: Three numbers an answer: query, response time (ns), tuples.
        self._fresh = array("q")
        self._stale_ns: list[int] = []
        #: Until when each query's stale time is counted.
        self._stale_until_ns: list[int] = []
        self._seconds: deque[_Second] = deque(maxlen=RECENT_S)
        self._bins: deque[Ints] = deque(maxlen=MINUTE_S)
        #: Time, mean response time, answers and arrivals by class, second by second.
        self._over: deque[tuple[float, Floats, Ints, Ints]] = deque(maxlen=MINUTE_S)
        nothing = np.zeros(0)
        self._totals: deque[_Totals] = deque([_Totals(start_ns, nothing, nothing, 0, 0)])
        self._rates = ArrivalRates(start_ns)
        self._jobs_seen = 0
        self.points: deque[Point] = deque(maxlen=HISTORY_S)
        self.jobs: deque[JobRow] = deque(maxlen=MOST_JOBS)
        #: Since the start, by class: tuples answered and the sum of their response times.
        self.answered_total = np.zeros(classes, np.int64)
        self.response_total_s = np.zeros(classes)

    # By the loop's thread

    def answered(self, query: int, arrival_ns: int, departure_ns: int, tuples: int) -> None:
        self._fresh.extend((query, departure_ns - arrival_ns, tuples))

    def was_stale(self, query: int, since_ns: int, until_ns: int) -> None:
        """Since the first tuple that gave a row had arrived; intervals of a query end in order."""
        while query >= len(self._stale_ns):
            self._stale_ns.append(0)
            self._stale_until_ns.append(self._start_ns)
        begin_ns = max(since_ns, self._stale_until_ns[query])
        if until_ns > begin_ns:
            self._stale_ns[query] += until_ns - begin_ns
            self._stale_until_ns[query] = until_ns

    def ran(
        self,
        worker: int,
        queries: Iterable[int],
        begin_ns: int,
        end_ns: int,
        *,
        tuples: int,
        rows: int,
        failed: bool = False,
    ) -> None:
        """A job ended; the query that was asked comes first."""
        begin_s = round((begin_ns - self._start_ns) / NS_PER_S, 4)
        end_s = round((end_ns - self._start_ns) / NS_PER_S, 4)
        self.jobs.append(
            JobRow(self._jobs_seen, worker, begin_s, end_s, tuple(queries), tuples, rows, failed)
        )
        self._jobs_seen += 1

    def tick(self, now_ns: int, arrived: Sequence[int], scheduling_ns: int, busy_ns: int) -> None:
        """Makes a point of the last second, if it is over.

        ``arrived``: tuples that came to each query so far; the times are since the start.
        """
        if now_ns - self._totals[-1].at_ns < EVERY_NS:
            return
        queries = len(self._figures().query_class)
        stale = _grown(np.array(self._stale_ns, np.float64), queries)
        totals = _Totals(now_ns, stale, np.array(arrived, np.float64), scheduling_ns, busy_ns)
        self._rates.note(now_ns, arrived)
        self._close(totals)
        while len(self._totals) > 2 and self._totals[1].at_ns < now_ns - MINUTE_S * NS_PER_S:
            self._totals.popleft()
        self._totals.append(totals)
        self.points.append(self._point(totals))

    def _close(self, now: _Totals) -> None:
        """The answers of the last second become arrays, counted in bins."""
        figures, classes = self._figures(), len(self._figures().network.classes)
        fresh, self._fresh = self._fresh, array("q")
        query, latency_ns, tuples = np.frombuffer(fresh, np.int64).reshape(-1, 3).T
        cls = np.array(figures.query_class, np.int64)[query]
        second = _Second(cls, latency_ns / NS_PER_S, self._worth(query, latency_ns), tuples)
        self._seconds.append(second)
        bins = np.searchsorted(_BOUNDS_S, second.response_s) + cls * len(_MIDDLES_S)
        counted = np.bincount(bins, tuples, minlength=classes * len(_MIDDLES_S))
        self._bins.append(counted.astype(np.int64).reshape(classes, -1))
        left = np.bincount(cls, tuples, minlength=classes).astype(np.int64)
        sums = np.bincount(cls, second.response_s * tuples, minlength=classes)
        self.answered_total = self.answered_total + left
        self.response_total_s = self.response_total_s + sums
        means = np.full(classes, np.nan)
        np.divide(sums, left, out=means, where=left > 0)
        came = now.arrived - _grown(self._totals[-1].arrived, len(now.arrived))
        of = np.array(figures.query_class[: len(came)], np.int64)
        arrived = np.bincount(of, came, minlength=classes).astype(np.int64)
        self._over.append(((now.at_ns - self._start_ns) / NS_PER_S, means, left, arrived))

    def _worth(self, query: Ints, latency_ns: Ints) -> Floats:
        """Utilities; queries that share a graph are looked up together."""
        worth = np.full(len(query), np.nan)
        queries = self._figures().network.queries
        graphs = {id(q.qos): q.qos for q in queries if q.qos is not None}
        of = np.array([id(q.qos) for q in queries], np.int64)[query]
        for key, graph in graphs.items():
            mine = of == key
            if mine.any():
                worth[mine] = graph.utility(latency_ns[mine])
        return worth

    def _point(self, now: _Totals) -> Point:
        figures, seconds = self._figures(), list(self._seconds)
        priorities = figures.class_priority
        recent = _Second(*(np.concatenate(parts) for parts in zip(*seconds, strict=True)))
        waiting = np.zeros(len(priorities), np.int64)
        np.add.at(waiting, _box_classes(figures), np.array(figures.pending, np.int64))
        stale, found = self.staleness(), []
        weights = np.array(figures.query_class), np.array(figures.query_weight)
        for c in range(len(priorities)):
            mine = recent.cls == c
            one = summarise(recent.response_s[mine], recent.utility[mine], recent.tuples[mine])
            members = weights[0][: len(stale)] == c
            found.append(
                ClassPoint(
                    answered=one.count,
                    mean_s=known(one.mean_s),
                    p50_s=known(one.percentiles_s[50]),
                    p95_s=known(one.percentiles_s[95]),
                    p99_s=known(one.percentiles_s[99]),
                    utility=known(one.utility, 4),
                    staleness=round(
                        float(np.average(stale[members], weights=weights[1][: len(stale)][members]))
                        if members.any()
                        else 0.0,
                        4,
                    ),
                    waiting=int(waiting[c]),
                )
            )
        means = np.array([np.nan if c.mean_s is None else c.mean_s for c in found])
        # A job is booked when it ends: within one second that may be more than a second.
        before = self._totals[max(0, len(self._totals) - 1 - RECENT_S)]
        span_ns = now.at_ns - before.at_ns
        with np.errstate(invalid="ignore", divide="ignore"):
            starvation = known(float(means[-1] / means[0]), 3)
        return Point(
            seq=self.points[-1].seq + 1 if self.points else 0,
            at_s=round((now.at_ns - self._start_ns) / NS_PER_S, 3),
            classes=tuple(found),
            inversion=round(float(inversion_ratios(priorities, means).sum()), 4),
            starvation=starvation,
            scheduler_share=round(
                (now.scheduling_ns - before.scheduling_ns) / span_ns / (figures.threads + 1), 5
            ),
            busy_share=min(
                1.0, round((now.busy_ns - before.busy_ns) / span_ns / figures.threads, 4)
            ),
        )

    # By anybody

    def staleness(self) -> Floats:
        """Share of the last minute in which each query was stale; booked when a result leaves."""
        first, last = self._totals[0], self._totals[-1]
        span_ns = max(1, last.at_ns - first.at_ns)
        stale_ns = last.stale_ns - _grown(first.stale_ns, len(last.stale_ns))
        share: Floats = np.clip(stale_ns / span_ns, 0.0, 1.0)
        return share

    def arrived_per_s(self) -> Floats:
        """Tuples that came to each query per second lately."""
        return np.array(self._rates.all_per_s(self._rates.long_s))

    def spreads(self) -> list[Spread | None]:
        """Box plots of the last minute, by class."""
        classes = len(self._figures().network.classes)
        counted = sum(list(self._bins), np.zeros((classes, len(_MIDDLES_S)), np.int64))
        return [_spread(of_class) for of_class in counted]

    def starving(self) -> set[int]:
        """Classes whose response times rise to this moment though their input does not."""
        over = list(self._over)
        if len(over) < 2:
            return set()
        at_s, means, left, arrived = zip(*over, strict=True)
        series = ClassesOverTime(*(np.array(column) for column in (at_s, means, left, arrived)))
        alarms = starvation_alarms_over(series)
        return {c for c, (_, until_s, _) in alarms if until_s >= at_s[-1] - RECENT_S}


def _spread(counts: Ints) -> Spread | None:
    reached = np.cumsum(counts)
    if not reached[-1]:
        return None
    wanted = np.array([0.1, 0.25, 0.5, 0.75, 0.9]) * reached[-1]
    return Spread(*(round(float(s), 6) for s in _MIDDLES_S[np.searchsorted(reached, wanted)]))


def _box_classes(figures: SystemFigures) -> list[int]:
    """A shared box counts in the highest class it serves."""
    return [min(figures.query_class[q] for q in of) for of in figures.network.box_queries]


def _grown(values: Floats, size: int) -> Floats:
    """With zeros for queries that have come since."""
    grown = np.zeros(size)
    grown[: len(values)] = values[:size]
    return grown


#: A class that has answered nothing.
NOTHING_YET = ClassPoint(0, None, None, None, None, None, 0.0, 0)


def class_rows(
    figures: SystemFigures, history: History, queries: Sequence[QueryRow]
) -> tuple[ClassRow, ...]:
    """A row for each class of the network, in its order; ``queries``: those to be counted."""
    points = list(history.points)[-1:]
    recent = points[0].classes if points else (NOTHING_YET,) * len(figures.class_priority)
    means = np.array([np.nan if c.mean_s is None else c.mean_s for c in recent])
    inversion = [*inversion_ratios(figures.class_priority, means).tolist(), 0.0]
    starving, found = history.starving(), []
    for c, (cls, spread) in enumerate(zip(figures.network.classes, history.spreads(), strict=True)):
        members = [q for q in queries if q.cls == cls.name]
        found.append(
            ClassRow(
                name=cls.name,
                priority=figures.class_priority[c],
                queries=len(members),
                recent=recent[c],
                spread=spread,
                oldest_s=max((q.oldest_s for q in members), default=0.0),
                inversion=round(inversion[c], 4),
                starving=c in starving,
                answered=int(history.answered_total[c]),
                response_sum_s=round(float(history.response_total_s[c]), 3),
            )
        )
    return tuple(found)
