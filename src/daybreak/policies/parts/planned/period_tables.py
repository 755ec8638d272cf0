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
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S, QoSGraph

Floats = NDArray[np.float64]
#: A graph, the cells that have it, and its weight in each.
_Graded = tuple[QoSGraph, list[int], Floats]
#: Periods per cell, in equal steps of their logarithm.
POINTS = 48
#: A cell has no shorter period than one in which its jobs, which run one at a time, keep up, if its
#: tuples alone take less than this share of a worker.
MOST_WORK = 0.9
#: A cell whose jobs take more than a whole worker falls behind. Where they take this share more, it
#: is worth half: how far it falls behind depends on costs and rates that are estimates.
BEHIND = 0.05
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
    #: The share of its load that would be left if others made way, and tuples arrived no faster
    #: than on average: whether a cell can keep up is judged by that, and by nothing else.
    at_best: float = 1.0
    #: What its tuples count for at most, in workers; their cost is hardly known then.
    most_work: float = inf

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
        return min(self.rate_per_s * self.per_tuple_s, self.most_work)

    @property
    def each_s(self) -> float:
        """What a tuple counts for."""
        return self.work / self.rate_per_s

    @property
    def least_work(self) -> float:
        """The same where others make way: of the one worker that its jobs, one at a time, have."""
        return self.work * self.at_best

    @property
    def is_pressed(self) -> bool:
        """Whether it answers rows, and answers them late until its backlog is gone."""
        return not self.slide_s and self.backlog_s > 0

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


@dataclass(frozen=True)
class Columns:
    """What a table is made of, one row per cell."""

    fixed: Floats
    each: Floats
    rate: Floats
    backlog: Floats
    gap: Floats
    until_next: Floats
    slide: Floats
    in_time: Floats
    at_best: Floats
    #: The longest period of use.
    end: Floats
    #: Each graph with the cells that have it, and its weight in each: of rows, and of windows.
    rows: Sequence[_Graded]
    windows: Sequence[_Graded]

    @classmethod
    def of(cls, flows: Sequence[Flow]) -> Columns:
        figures = [
            (f.fixed_s, f.each_s, f.rate_per_s, f.backlog_load, f.gap_s, f.next_s,
             f.slide_s, f.in_time, f.at_best, BEYOND * f.end_s)
            for f in flows
        ]  # fmt: skip
        fixed, each, rate, backlog, gap, until_next, slide, in_time, at_best, end = (
            np.array(figures, dtype=np.float64).reshape(len(flows), 10).T[:, :, None]
        )
        rows, windows = _by_graph(flows, windows=False), _by_graph(flows, windows=True)
        return cls(
            fixed, each, rate, backlog, gap, until_next, slide, in_time, at_best, end, rows, windows
        )


def tabulate(
    columns: Columns, longest_s: float, wait_s: Floats, periods_s: Floats | None = None
) -> Table:
    """The table of these cells.

    Jobs take up to ``longest_s``, or twice their start if that is more, or one window; and ones
    that are due wait for a worker for ``wait_s``, by cell. If periods are given, one for each
    cell, it has these alone.
    """
    of, wait = columns, wait_s[:, None]
    if periods_s is None:
        period = _periods(of, wait, longest_s)
    else:
        period = np.where(np.isfinite(periods_s), periods_s, 1.0)[:, None]
    cycle = np.maximum(period + of.until_next, of.gap)
    job = of.fixed + of.each * of.rate * cycle
    load = job / cycle
    value, lag = np.zeros_like(period), job + wait
    arrivals = cycle / np.maximum(of.gap, 1e-12)
    # Of a train, the first arrival waits for the whole period, the others for up to so long.
    others = np.maximum(period + of.until_next - of.gap, 1e-6)
    for graph, rows, weights in of.rows:
        worth = _mean_worth(graph, arrivals[rows], period[rows], others[rows], lag[rows])
        value[rows] += of.rate[rows] * weights[:, None] * worth
    latency = lag + others / 2 + (period - others / 2) / arrivals
    for graph, rows, weights in of.windows:
        slide = of.slide[rows]
        # A job answers all windows that closed since the last one began.
        slides = np.maximum(np.rint(period[rows] / slide), 1.0)
        worth = graph.mean_of_steps(lag[rows] * NS_PER_S, slide * NS_PER_S, slides)
        value[rows] += of.rate[rows] * weights[:, None] * worth
        latency[rows] = lag[rows] + (period[rows] - slide) / 2
    # Its jobs run one at a time: more than a worker they cannot take, and fall behind instead.
    value *= of.in_time / (1 + np.maximum(load * of.at_best - 1, 0.0) / BEHIND)
    load = np.minimum(load, 1.0) + of.backlog
    first = np.zeros_like(of.fixed)
    return Table(
        period_s=np.hstack([first + np.inf, period]),
        load=np.hstack([first, load]),
        value=np.hstack([first, value]),
        latency_s=np.hstack([first + np.inf, latency]),
        job_s=np.hstack([first, job]),
    )


def _periods(of: Columns, wait: Floats, longest_s: float) -> Floats:
    """From the shortest period that leaves time for its jobs to the longest of use."""
    fixed, work = of.fixed, of.rate * of.each
    spare = 1 - np.minimum(work, MOST_WORK)
    low = np.maximum(fixed / spare - of.until_next, np.maximum(fixed / 20, 1e-6))
    train = np.maximum(longest_s - fixed, fixed) / np.maximum(work, 1e-12)
    high = np.maximum(np.minimum(of.end, train), low * 1.05)
    steps = np.linspace(1.0, 0.0, POINTS)  # the longest first: of equals, the cheapest
    periods: Floats = low * (high / low) ** steps
    knees = sorted({c for graph, _, _ in (*of.rows, *of.windows) for c in graph.critical_ns[:1]})
    # Just in time for a deadline is where the best choice often is.
    exact = [(knee / NS_PER_S - fixed - wait) / (1 + work) for knee in knees]
    if exact:
        periods = np.hstack([periods, np.clip(np.hstack(exact), low, high)])
        periods = -np.sort(-periods, axis=1)
    slide = np.maximum(of.slide, 1e-9)
    whole = slide * np.maximum(np.floor(periods / slide), np.maximum(np.ceil(low / slide), 1.0))
    return np.where(of.slide > 0, whole, periods)


def _by_graph(flows: Sequence[Flow], *, windows: bool) -> list[_Graded]:
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
