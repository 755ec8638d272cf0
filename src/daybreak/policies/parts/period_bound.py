"""The most that any schedule of some cells can yield.

For any price p >= 0 per worker, ``sum over cells of max(V - p load) + p W`` is at least what any
schedule on W workers yields (weak duality); the least of it over some prices is the bound. It must
hold for every policy, so each cell is relaxed: jobs find a worker at once, tuples do not slow down
the job that answers them, a job is as fast as one without riders, and riders may be left behind.
Uneven intervals yield less than even ones (V is concave in 1/T where the lag is fixed), and serving
some of the tuples is a mixture of serving all and none; so periods are general enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from daybreak.model.qos import NS_PER_S, QoSGraph
from daybreak.policies.base import JobCost
from daybreak.policies.parts.period_tables import Floats

#: Periods per cell, much finer than for planning: each counts with the load of the next longer one.
_FINE = 400
#: The longest period, in latencies beyond which nothing more is lost.
_BEYOND = 50.0
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


def bound_utility(offers: Sequence[Offer], workers: int) -> float:
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
    period, mean = _periods(offer, alone[0])
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


def _periods(offer: Offer, lag_s: float) -> tuple[Floats, _Mean]:
    """Periods from the shortest of use on, and the mean worth of answers at each."""
    end_s = max(graph.points[-1][0] for graph, _ in offer.worth)
    if offer.slide_s:
        most = 4 + _BEYOND * end_s / offer.slide_s
        slides = np.unique(np.geomspace(1, most, _FINE // 2).astype(np.int64))
        late_ns = (lag_s + np.arange(slides[-1]) * offer.slide_s) * NS_PER_S
        period: Floats = slides * np.float64(offer.slide_s)
        return period, _WindowMean(late_ns, slides)
    gap_s = offer.together / offer.rate_per_s
    low = max(gap_s, lag_s, 1e-6)
    period = np.geomspace(low, _BEYOND * max(end_s, low), _FINE, dtype=np.float64)
    # Tuples that arrive together: the first of them would have waited for the last, and did not.
    return period, _RowMean((lag_s - gap_s) * NS_PER_S, period * NS_PER_S)


class _Mean:
    """The mean worth of answers by a graph, at each period."""

    def __call__(self, graph: QoSGraph) -> Floats:
        raise NotImplementedError


class _RowMean(_Mean):
    def __init__(self, begin_ns: float, period_ns: Floats) -> None:
        self._begin_ns, self._period_ns = begin_ns, period_ns

    def __call__(self, graph: QoSGraph) -> Floats:
        begins = graph.area(np.array([self._begin_ns]))
        mean: Floats = (graph.area(self._begin_ns + self._period_ns) - begins) / self._period_ns
        return mean


class _WindowMean(_Mean):
    def __init__(self, late_ns: Floats, slides: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
        self._late_ns, self._slides = late_ns, slides

    def __call__(self, graph: QoSGraph) -> Floats:
        worth = np.interp(self._late_ns, *graph.knots_ns)
        mean: Floats = np.cumsum(worth)[self._slides - 1] / self._slides
        return mean
