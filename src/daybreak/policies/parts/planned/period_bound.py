"""The most that any schedule of some cells can yield.

For any price p >= 0 per worker, ``sum over cells of max(V - p load) + p W`` is at least what any
schedule on W workers yields (weak duality); the least of it over some prices is the bound. It must
hold for every policy, so each cell is relaxed: jobs find a worker at once, take the latest tuples,
are as fast as ones without riders, and riders may be left behind.

Any schedule is a mixture of jobs. One that takes n tuples costs f + s n and answers them f + s n
after its start at the earliest, when they have waited for up to n/r. What it yields net of the
price, per tuple, is at most that of the best n; so the best period T = n/r, or none, bounds a cell,
however uneven its jobs and whatever it leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import JobCost
from daybreak.policies.parts.planned.period_tables import Floats

#: Periods per cell, much finer than for planning: each counts with the load of the next longer one.
_FINE = 400
#: The longest period, in latencies beyond which nothing more is lost.
_BEYOND = 50.0
#: The shortest of several periods, as a share of what a job takes to start.
_SHORTER = 8.0
_HALVINGS = 40


class Offer(NamedTuple):
    """What comes to a cell, and what answers are worth, query by query."""

    rate_per_s: float
    cost: JobCost
    #: Graph and weight of each query.
    worth: tuple[tuple[QoSGraph, float], ...]
    slide_s: float = 0.0
    #: Tuples that arrive at one instant.
    together: float = 1.0

    @property
    def weight(self) -> float:
        """What it yields per second if every answer is in time."""
        return self.rate_per_s * sum(weight for _, weight in self.worth)


def bound_utility(offers: Sequence[Offer], workers: float) -> float:
    """No schedule yields more, as a share of all that arrives, if it arrives evenly."""
    total = sum(o.weight for o in offers)
    if not total:
        return 1.0
    rows = [_alternatives(o) for o in offers]
    load = np.stack([load for load, _ in rows])
    value = np.stack([value for _, value in rows])
    rows_at = np.arange(len(offers))
    best, low, high = total, 0.0, 1e3 * total / workers
    for _ in range(_HALVINGS):  # any price gives a bound; the lowest is where the loads just fit
        price = (low + high) / 2 if low < high / 1e9 else float(np.sqrt(low * high))
        net = value - price * load
        column = net.argmax(axis=1)
        gain = net[rows_at, column]
        best = min(best, float(gain.clip(0.0).sum()) + price * workers)
        fits = float(load[rows_at, column][gain > 0].sum()) <= workers
        low, high = (low, price) if fits else (price, high)
    return min(1.0, best / total)


def _alternatives(offer: Offer) -> tuple[Floats, Floats]:
    """Loads and values of serving one query, or all, at any period.

    Between one and all, where queries are worth the same, yield and cost are linear. Where they
    are not, all count at the cost of one.
    """
    cost, riders = offer.cost, len(offer.worth) - 1
    alone = cost.fixed_ns / NS_PER_S, offer.rate_per_s * cost.per_tuple_ns / NS_PER_S
    more = cost.per_rider_ns / NS_PER_S, offer.rate_per_s * cost.per_rider_tuple_ns / NS_PER_S
    together = alone[0] + riders * more[0], alone[1] + riders * more[1]
    if len(set(offer.worth)) > 1:
        together = alone
    period, mean = _periods(offer, *alone)
    per_graph = {graph: mean(graph) for graph, _ in offer.worth}
    each = [weight * per_graph[graph] for graph, weight in offer.worth]
    every: Floats = offer.rate_per_s * np.sum(each, axis=0)
    one: Floats = offer.rate_per_s * np.max(each, axis=0)
    # Between two periods nothing yields more than the shorter, or costs less than the longer one.
    starts = 1 / np.append(period[1:], np.inf)
    load = np.concatenate([fixed * starts + work for fixed, work in (alone, together)])
    value = np.concatenate([one, every])
    size = 2 * _FINE
    return np.pad(load, (0, size - len(load)), constant_values=1e12), np.pad(
        value, (0, size - len(value))
    )


def _periods(offer: Offer, fixed_s: float, work: float) -> tuple[Floats, _Mean]:
    """Periods from the shortest of use on, and the mean worth of answers at each."""
    end_s = max(graph.points[-1][0] for graph, _ in offer.worth)
    if offer.slide_s:
        most = 4 + _BEYOND * end_s / offer.slide_s
        slides = np.unique(np.geomspace(1, most, _FINE // 2).astype(np.int64))
        period: Floats = slides * np.float64(offer.slide_s)
        return period, _WindowMean(fixed_s + work * period, slides, offer.slide_s)
    gap_s = offer.together / offer.rate_per_s
    low = max(fixed_s / _SHORTER, 1e-6)
    high = _BEYOND * max(end_s, gap_s, low)
    # The first stands for all that are shorter.
    period = np.append(1e-9, np.geomspace(low, high, _FINE - 1, dtype=np.float64))
    return period, _RowMean(fixed_s + work * period, period, gap_s)


class _Mean:
    """The mean worth of answers by a graph, at each period."""

    def __call__(self, graph: QoSGraph) -> Floats:
        raise NotImplementedError


class _RowMean(_Mean):
    """Those of the last arrival have not waited, the others evenly for up to the period."""

    def __init__(self, job_s: Floats, period_s: Floats, gap_s: float) -> None:
        self._job_ns, self._period_ns = job_s * NS_PER_S, period_s * NS_PER_S
        self._at_once_ns = np.minimum(self._period_ns, gap_s * NS_PER_S)

    def __call__(self, graph: QoSGraph) -> Floats:
        at_once = self._at_once_ns * np.interp(self._job_ns, *graph.knots_ns)
        waited_ns = self._period_ns - self._at_once_ns
        waited = graph.area(self._job_ns + waited_ns) - graph.area(self._job_ns)
        mean: Floats = (at_once + waited) / self._period_ns
        return mean


class _WindowMean(_Mean):
    """Every so many-th window begins a job that answers all since the last."""

    def __init__(self, job_s: Floats, slides: NDArray[np.int64], slide_s: float) -> None:
        self._job_ns = job_s * NS_PER_S
        self._slide_ns = np.array([slide_s * NS_PER_S])
        self._slides = slides.astype(np.float64)

    def __call__(self, graph: QoSGraph) -> Floats:
        return graph.mean_of_steps(self._job_ns, self._slide_ns, self._slides)
