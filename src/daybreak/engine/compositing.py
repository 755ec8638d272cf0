"""Who runs along: queries that join the job of the one a policy asked for. The same on Spark and
where a run is replayed.

Queries of one class over one stream that are filters, joins with the same static tables, or
aggregates over the same windows and keys, and at the same place of the stream, run as one job.
Riders join while the delay they add to the query that was asked is expected to stay within a
stated bound, or below what that query costs by itself if that is more.

What Spark compiles is the *cell*: all filters of the class over the stream, whoever of them runs.
Who is at the same place changes from job to job, and a changing text would be compiled again and
again; a condition that nobody asked for costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from daybreak.engine.state import SystemState

#: Queries that are compiled together, at most: beyond about 300 conditions the code Spark
#: generates for one projection exceeds 64 KB.
MOST = 240
#: The same of aggregates over windows, whose code is larger.
MOST_WINDOWS = 24
#: A job cannot be interrupted by a more important one, so none is to take much longer than this.
#: Much shorter ones would spend their time on being started.
JOB_BOUND_NS = 250_000_000
FIRST_TRAIN, LEAST_TRAIN = 8_000, 500
#: How much older jobs still count when a new one is learned from.
MEMORY = 0.98


class Costs:
    """What a job costs: a fixed part, a scan per tuple, and a margin per query that runs along.

    cost = fixed + scan x n + riders x (margin + margin_each x n), by least squares over recent
    jobs, beginning with plausible figures that a few dozen jobs outweigh.
    """

    _PRIOR_NS = np.array([50e6, 5e3, 1e6, 100.0])
    _TYPICAL = np.array([1.0, 1000.0, 10.0, 10_000.0])
    _PRIOR_JOBS = 1.0
    #: Nothing is free: jobs that are all alike may leave next to nothing for one of the figures.
    _LEAST_NS = _PRIOR_NS / 100

    def __init__(self) -> None:
        typical = self._TYPICAL / (self._PRIOR_NS @ self._TYPICAL)
        # Never forgotten: jobs that are all alike cannot tell the four figures apart.
        self._prior = np.diag(typical**2) * self._PRIOR_JOBS
        self._gram = np.zeros((4, 4))
        self._moment = np.zeros(4)
        self._figures = self._PRIOR_NS

    def learn(self, queries: int, tuples: int, cost_ns: int) -> None:
        riders = queries - 1
        # Relative errors: a slow job must not drown the fast ones.
        seen = np.array([1.0, tuples, riders, riders * tuples]) / max(1.0, cost_ns)
        self._gram = MEMORY * self._gram + np.outer(seen, seen)
        self._moment = MEMORY * self._moment + seen
        scale = self._TYPICAL  # the columns differ by ten orders of magnitude
        gram = (self._prior + self._gram) * np.outer(scale, scale)
        scaled = np.linalg.solve(gram, (self._prior @ self._PRIOR_NS + self._moment) * scale)
        self._figures = np.maximum(scaled * scale, self._LEAST_NS)

    def margin_ns(self, tuples: int) -> float:
        """What one more query adds to a job on so many tuples."""
        return float(self._figures[2] + self._figures[3] * tuples)

    def tuples_within(self, margin_ns: float) -> int:
        """How many tuples one more query takes that long for."""
        spare_ns, each_ns = margin_ns - self._figures[2], max(float(self._figures[3]), 0.1)
        return max(LEAST_TRAIN, int(spare_ns / each_ns))

    def solo_ns(self, tuples: int) -> float:
        """What a query costs that runs by itself."""
        return float(self._figures[0] + self._figures[1] * tuples)

    def shares(self, queries: int, tuples: int, cost_ns: int) -> list[int]:
        """A job's cost by query, the one that was asked first; they add up to the cost.

        Riders pay their margin, the one that was asked pays the rest.
        """
        rider = min(round(self.margin_ns(tuples)), cost_ns // queries)
        return [cost_ns - rider * (queries - 1), *([rider] * (queries - 1))]


class _Line:
    """What jobs of one cell cost: fixed + each x n, by least squares over recent jobs.

    Jobs that are all of one length cannot tell the two apart: then ``least_fixed_ns`` is nothing,
    and ``least_each_ns`` is. Where lengths differ, the figures agree.
    """

    _RIDGE = 1e-3

    def __init__(self) -> None:
        self._ones = self._cross = self._squares = self._y_one = self._y_n = 0.0
        self.least_fixed_ns = self.most_fixed_ns = self.least_each_ns = 0.0

    def learn(self, tuples: int, cost_ns: int) -> None:
        one, n = 1.0 / max(1, cost_ns), tuples / max(1, cost_ns)  # relative errors, as in Costs
        self._ones = MEMORY * self._ones + one * one
        self._cross = MEMORY * self._cross + one * n
        self._squares = MEMORY * self._squares + n * n
        self._y_one = MEMORY * self._y_one + one
        self._y_n = MEMORY * self._y_n + n
        self.least_fixed_ns = self._fixed_ns(1 + self._RIDGE, 1.0)
        self.most_fixed_ns = self._fixed_ns(1.0, 1 + self._RIDGE)
        rest = max(self._y_n - self.most_fixed_ns * self._cross, 0.0)
        self.least_each_ns = rest / self._squares

    def _fixed_ns(self, damp_fixed: float, damp_each: float) -> float:
        """The fixed part; where nothing is known, the figure that is damped is nothing."""
        ones, squares = self._ones * damp_fixed, self._squares * damp_each
        determinant = ones * squares - self._cross**2
        fixed = (squares * self._y_one - self._cross * self._y_n) / determinant
        return min(max(fixed, 0.0), self._y_one / self._ones)


class Trains:
    """The longest train of each cell whose job stays within the bound: doubled, halved.

    Where it takes more than half the bound to start a job at all, the bound is twice that:
    shorter trains would be more of them, each hardly any faster. What is not known is tried:
    trains are halved unless it is sure that this does not help, and doubled unless it is sure
    that this takes too long. Once tried, it is known for some dozens of jobs.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}
        self._lines: dict[int, _Line] = {}

    def most(self, cell: int) -> int:
        return self._most.get(cell, FIRST_TRAIN)

    def learn(self, cell: int, tuples: int, cost_ns: int) -> None:
        line = self._lines.setdefault(cell, _Line())
        line.learn(tuples, cost_ns)
        most = self.most(cell)
        shorter, twice_ns = min(most, tuples) // 2, cost_ns + line.least_each_ns * tuples
        if cost_ns > max(JOB_BOUND_NS, 2 * line.least_fixed_ns) and shorter >= LEAST_TRAIN:
            self._most[cell] = shorter
        elif tuples >= most and twice_ns < max(JOB_BOUND_NS, 2 * line.most_fixed_ns):
            self._most[cell] = most * 2


class Ride(NamedTuple):
    """Boxes to run together, the one that was asked first."""

    boxes: list[int]
    #: The boxes whose composite is compiled, among them those that run.
    cell: list[int]
    #: How many tuples each takes.
    tuples: int


class Compositor:
    """Chooses riders. Used by the loop's thread alone."""

    def __init__(
        self,
        state: SystemState,
        kin: Callable[[int], str | None],
        windows: Callable[[int], bool],
        *,
        bound_ns: int,
    ) -> None:
        """``kin``: what a box has in common with all it may run along with, else None.

        ``windows``: whether it answers windows, and so has jobs of another kind.
        """
        #: What jobs cost, by what their queries have in common.
        self._costs: dict[str | None, Costs] = {}
        self.trains = Trains()
        #: Boxes that have to run by themselves: they failed, or a group with them did.
        self.alone: set[int] = set()
        self._state = state
        self._kin_of = kin
        self._windows = windows
        #: How much riders may delay the query that was asked for.
        self.bound_ns = bound_ns
        self._kin: dict[str, list[int]] = {}
        for b in range(len(state.pending)):
            self.adopt(b)

    def adopt(self, box: int) -> None:
        """A box is new, or holds another query than before."""
        self.forget(box)
        kin = self._kin_of(box)
        if kin is not None:
            self._kin.setdefault(kin, []).append(box)

    def forget(self, box: int) -> None:
        """A box holds no query any more."""
        self.alone.discard(box)
        for members in self._kin.values():
            if box in members:
                members.remove(box)

    def group(self, asked: int, limit: int) -> Ride:
        """Who runs together, on how much."""
        cell, costs = self.cell(asked), self.costs_of(asked)
        members = [b for b in cell if b != asked]
        limit = min(limit, self.trains.most(cell[0]))
        pending = self._state.pending  # what is parked shows nothing there
        mine = pending[asked]
        # Who is ahead has less waiting. Stop where the nearest one is, to go on together.
        ahead = [n for b in members if 0 < (n := pending[b]) < mine]
        take = min(limit, mine - max(ahead)) if ahead else min(limit, mine)
        # Riders may add the bound, or as much again as the query costs by itself.
        allowed_ns = max(self.bound_ns, costs.solo_ns(take))
        riders = [b for b in members if pending[b] == mine and not self._state.running[b]]
        riders = riders[: int(allowed_ns / max(costs.margin_ns(0), 1.0))]
        # A shorter train rather than fewer riders: who stays behind is a job of its own later.
        if riders:
            take = min(take, costs.tuples_within(allowed_ns / len(riders)))
        return Ride([asked, *riders], cell, take)

    def costs_of(self, box: int) -> Costs:
        """What is known of jobs such as this box's."""
        return self.costs(self._kin_of(box))

    def costs(self, kin: str | None) -> Costs:
        """The same by what queries have in common; None of those that run alone."""
        if kin not in self._costs:
            self._costs[kin] = Costs()
        return self._costs[kin]

    def cell(self, asked: int) -> list[int]:
        """The queries that may run along with this one and itself, in a fixed order."""
        kin = self._kin_of(asked)
        if kin is None or asked in self.alone or not self.bound_ns:
            return [asked]
        cls = self._state.query_class
        members = [b for b in self._kin[kin] if cls[b] == cls[asked] and b not in self.alone]
        most = MOST_WINDOWS if self._windows(asked) else MOST
        first = members.index(asked) // most * most
        return members[first : first + most]
