"""What a cell costs and yields when it is served every T seconds, as a table over periods.

A cell (queries that run as one job) on which ``r`` tuples arrive per second, whose jobs take ``f``
seconds to start and ``s`` per tuple, takes ``load(T) = f / T + r s`` of one worker. Its tuples wait
between 0 and T, and then ``lag(T) = f + r s T`` for the job itself, so it yields per second

    V(T) = r sum_q w_q (1/T) integral over x in [0, T] of U_q(lag(T) + x)

With the lag held fixed this is concave in 1/T; with the lag it is S-shaped, hence a table. Three
refinements: a period begins with the first tuple that waits, so that where tuples are rare a
cycle takes T + 1/r; where they come as files, all of a file wait equally long, and no cycle is
shorter than the time from one file to the next; and rows of windows all become pending as their
window closes, so periods are multiples of the slide. All times are in seconds here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S, QoSGraph

Floats = NDArray[np.float64]
#: Periods per cell, in equal steps of their logarithm.
POINTS = 48
#: A cell whose tuples alone take more than this share of a worker cannot keep up: its jobs run
#: one at a time.
MOST_WORK = 0.98
#: The load of what cannot be served.
NEVER = 1e9
#: No period is longer than so many times the latency beyond which nothing more is lost.
BEYOND = 2.0


class Flow(NamedTuple):
    """What arrives at a cell, what its jobs cost, and what answers are worth."""

    rate_per_s: float
    fixed_s: float
    per_tuple_s: float
    #: Graphs of the cell's queries, each with the weight of all queries that have it.
    worth: tuple[tuple[QoSGraph, float], ...]
    #: How far apart windows close; 0 for queries that answer rows.
    slide_s: float = 0.0
    #: Seconds of work on what has piled up, and its load if it is spread over a long time.
    backlog_s: float = 0.0
    backlog_load: float = 0.0
    #: The share of its yield that is left, as answers are late until that is done.
    in_time: float = 1.0
    #: Standard errors of the costs, and their correlation.
    fixed_error_s: float = 0.0
    per_tuple_error_s: float = 0.0
    error_correlation: float = 0.0
    #: What a job takes is known within this share at least, as jobs of the cell have shown it.
    most_unsure: float = 1.0
    #: Tuples that arrive at one instant: those of a file or a segment.
    together: float = 1.0

    @property
    def gap_s(self) -> float:
        """From one arrival to the next; 0 for windows, which close when their time has come."""
        return 0.0 if self.slide_s else self.together / self.rate_per_s

    @property
    def next_s(self) -> float:
        """From a job's start to the next arrival: single tuples come at random, files evenly."""
        return self.gap_s * (1 + 1 / self.together) / 2

    def job_error_s(self, job_s: float) -> float:
        """The standard error of what such a job takes."""
        each_s = (job_s - self.fixed_s) / max(self.per_tuple_s, 1e-15) * self.per_tuple_error_s
        both = 2 * self.error_correlation * self.fixed_error_s * each_s
        error_s = sqrt(max(self.fixed_error_s**2 + both + each_s**2, 0.0))
        return min(error_s, self.most_unsure * job_s)

    @property
    def work(self) -> float:
        """Seconds of work per second on tuples alone."""
        return self.rate_per_s * self.per_tuple_s

    @property
    def weight(self) -> float:
        """What it yields per second if every answer is in time."""
        return self.rate_per_s * sum(weight for _, weight in self.worth)

    @property
    def end_s(self) -> float:
        """The latency beyond which a longer wait loses nothing more."""
        return max(graph.points[-1][0] for graph, _ in self.worth)


@dataclass(frozen=True)
class Table:
    """One row per cell, one column per choice; the first choice is not to serve it."""

    period_s: Floats
    load: Floats
    value: Floats
    #: Mean latency of its tuples.
    latency_s: Floats
    #: How long a job takes.
    job_s: Floats


def tabulate(
    flows: Sequence[Flow], longest_s: float, wait_s: Floats, periods_s: Floats | None = None
) -> Table:
    """The table of these cells.

    Jobs take up to ``longest_s``, or twice their start if that is more, or one window; and ones
    that are due wait for a worker for ``wait_s``, by cell. If periods are given, one for each
    cell, it has these alone.
    """
    wait = wait_s[:, None]
    fixed = np.array([f.fixed_s for f in flows])[:, None]
    each = np.array([f.per_tuple_s for f in flows])[:, None]
    rate = np.array([f.rate_per_s for f in flows])[:, None]
    backlog = np.array([f.backlog_load for f in flows])[:, None]
    gap = np.array([f.gap_s for f in flows])[:, None]
    until_next = np.array([f.next_s for f in flows])[:, None]
    if periods_s is None:
        period = _periods(flows, fixed, rate * each, until_next, wait, longest_s)
    else:
        period = np.where(np.isfinite(periods_s), periods_s, 1.0)[:, None]
    slides = np.array([f.slide_s for f in flows])
    cycle = np.maximum(period + until_next, gap)
    job = fixed + each * rate * cycle
    load = job / cycle + backlog
    value, lag = np.zeros_like(period), job + wait
    arrivals = cycle / np.maximum(gap, 1e-12)
    # Of a train, the first arrival waits for the whole period, the others for up to so long.
    others = np.maximum(period + until_next - gap, 1e-6)
    for graph, rows, weights in _by_graph(flows, windows=False):
        worth = _mean_worth(graph, arrivals[rows], period[rows], others[rows], lag[rows])
        value[rows] += rate[rows] * weights[:, None] * worth
    latency = lag + others / 2 + (period - others / 2) / arrivals
    for graph, rows, weights in _by_graph(flows, windows=True):
        slide = slides[rows][:, None]
        worth = _mean_of_windows(
            graph, np.maximum(np.rint(period[rows] / slide), 1), slide, lag[rows]
        )
        value[rows] += rate[rows] * weights[:, None] * worth
        latency[rows] = lag[rows] + (period[rows] - slide) / 2
    value *= np.array([f.in_time for f in flows])[:, None]
    stuck = np.array([f.work >= MOST_WORK for f in flows])
    value[stuck], load[stuck] = 0.0, NEVER
    first = np.zeros((len(flows), 1))
    return Table(
        period_s=np.hstack([first + np.inf, period]),
        load=np.hstack([first, load]),
        value=np.hstack([first, value]),
        latency_s=np.hstack([first + np.inf, latency]),
        job_s=np.hstack([first, job]),
    )


def _periods(
    flows: Sequence[Flow], fixed: Floats, work: Floats, until_next: Floats, wait: Floats,
    longest_s: float,
) -> Floats:  # fmt: skip
    """From the shortest period that leaves time for its jobs to the longest of use."""
    spare = 1 - np.minimum(work, MOST_WORK)
    low = np.maximum(fixed / spare - until_next, np.maximum(fixed / 20, 1e-6))
    end = np.array([BEYOND * f.end_s for f in flows])[:, None]
    train = np.maximum(longest_s - fixed, fixed) / np.maximum(work, 1e-12)
    high = np.maximum(np.minimum(end, train), low * 1.05)
    steps = np.linspace(1.0, 0.0, POINTS)  # the longest first: of equals, the cheapest
    periods: Floats = low * (high / low) ** steps
    knees = sorted({c for f in flows for g, _ in f.worth for c in g.critical_ns[:1]})
    # Just in time for a deadline is where the best choice often is.
    exact = [(knee / NS_PER_S - fixed - wait) / (1 + work) for knee in knees]
    if exact:
        periods = np.hstack([periods, np.clip(np.hstack(exact), low, high)])
        periods = -np.sort(-periods, axis=1)
    for c, flow in enumerate(flows):
        if flow.slide_s:
            least = max(1.0, float(np.ceil(low[c, 0] / flow.slide_s)))
            periods[c] = flow.slide_s * np.maximum(np.floor(periods[c] / flow.slide_s), least)
    return periods


def _by_graph(flows: Sequence[Flow], *, windows: bool) -> list[tuple[QoSGraph, list[int], Floats]]:
    """Each graph with the cells that have it, and its weight in each."""
    found: dict[QoSGraph, tuple[list[int], list[float]]] = {}
    for c, flow in enumerate(flows):
        for graph, weight in flow.worth if windows == (flow.slide_s > 0) else ():
            rows, weights = found.setdefault(graph, ([], []))
            rows.append(c)
            weights.append(weight)
    return [(graph, rows, np.array(weights)) for graph, (rows, weights) in found.items()]


def _mean_worth(
    graph: QoSGraph, arrivals: Floats, period: Floats, others: Floats, lag: Floats
) -> Floats:
    """The mean worth of a train: the arrival that begins it waits longest, others evenly less."""
    ends_ns, begins_ns = (lag + others) * NS_PER_S, lag * NS_PER_S
    mean = (graph.area(ends_ns) - graph.area(begins_ns)) / (others * NS_PER_S)
    first: Floats = np.interp((lag + period) * NS_PER_S, *graph.knots_ns)
    worth: Floats = mean + (first - mean) / arrivals
    return worth


def _mean_of_windows(graph: QoSGraph, slides: Floats, slide_s: Floats, lag: Floats) -> Floats:
    """The mean worth of windows of which every so many-th begins a job that answers them all."""
    total = np.zeros_like(lag)
    for ago in range(int(slides.max())):
        worth = np.interp((lag + ago * slide_s) * NS_PER_S, *graph.knots_ns)
        total += np.where(ago < slides, worth, 0.0)
    mean: Floats = total / slides
    return mean
