"""Chooses how often each cell is served: a Lagrange multiplier over tables, and a knapsack.

Maximise the sum of V over cells while the sum of their loads stays within a budget. For a price
``p`` per worker, every cell by itself takes the choice with the largest V - p load; only choices
on the upper hull of its table (and of not being served: load 0, V 0) are ever taken. The lowest
price at which all together stay within the budget is found by bisection: the problem of spreading
refresh bandwidth over a mirror, whose curves have a closed form (``freshness.multiplier``), and
these do not. What the jump at that price leaves over is spent on the best that still fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np
from numpy.typing import NDArray

from daybreak.model.qos import NS_PER_S
from daybreak.policies.parts.planned.period_tables import Columns, Floats, Flow, Table, tabulate

Ints = NDArray[np.int64]
_HALVINGS = 50
#: What is worth so little more is worth the same.
_SAME = 1e-6
#: The load of what must not be chosen.
_NEVER = 1e9
#: Time that is left shortens periods, until so much of it is used.
COMFORT = 0.6
#: Jobs take up to this share of a deadline, so that who has it need not wait for them in vain.
LONGEST = 0.8


@dataclass(frozen=True)
class Periods:
    """How often each cell is served; all by cell."""

    #: Infinite for cells that are not served by plan.
    period_s: Floats
    load: Floats
    value: Floats
    #: How long a job of each takes.
    job_s: Floats
    #: What one more worker would yield per second.
    price: float
    #: How long a job that is due is expected to wait for a worker.
    wait_s: Floats
    #: The shortest deadline that others' jobs keep clear of.
    guarded_s: float
    #: What a worker-second yields at best, without a backlog.
    density: Floats

    @property
    def served(self) -> NDArray[np.bool_]:
        return np.isfinite(self.period_s)


def deadlines_s(flows: Sequence[Flow]) -> list[float]:
    """The latencies from which answers lose worth, the shortest first."""
    return sorted({_deadline_s(f) for f in flows})


def _deadline_s(flow: Flow) -> float:
    """The first of its graphs' deadlines; without any, where a tenth of the worth is lost."""
    return min(
        graph.deadline_ns / NS_PER_S if graph.deadline_ns else graph.points[-1][0] / 10
        for graph, _ in flow.worth
    )


def plan_periods(
    flows: Sequence[Flow], workers: int, target: float,
    guarded_s: Sequence[float] = (), wait_s: Floats | None = None,
) -> Periods:  # fmt: skip
    """The best periods whose loads fit ``target`` of the workers.

    A job cannot be interrupted. So trains are kept short enough for some deadline; cells with
    shorter ones wait for whole jobs. The deadline that yields most is taken, of those given or
    all. ``wait_s`` is a first guess of how long jobs wait.
    """
    wait = np.zeros(len(flows)) if wait_s is None else wait_s
    every = guarded_s or deadlines_s(flows)
    columns = Columns.of(flows)
    found = [_plan(flows, columns, workers, target, one, wait) for one in every]
    whole = sum(f.weight for f in flows) or 1.0
    return max(found, key=lambda p: round(float(p.value.sum()) / whole, 3))


def _plan(
    flows: Sequence[Flow], columns: Columns, workers: int, target: float, guarded_s: float,
    wait: Floats,
) -> Periods:  # fmt: skip
    """With jobs that keep clear of this deadline; how long they wait is found with the plan."""
    budget, longest_s = target * workers, LONGEST * guarded_s
    for _ in range(3):
        table = tabulate(columns, longest_s, wait)
        choice, price = choose(table, budget)
        guess, wait = wait, _wait_s(flows, table, choice, workers, guarded_s)
        if np.abs(wait - guess).max() < 0.01:
            break
    margin = _margin(flows, table, choice)
    if margin > 0.01 * budget:
        choice, price = choose(table, max(budget - margin, budget / 2))
    choice = _sooner(flows, table, choice, min(COMFORT * workers, budget))
    rows = np.arange(len(choice))
    return Periods(
        table.period_s[rows, choice], table.load[rows, choice], table.value[rows, choice],
        table.job_s[rows, choice], price, wait, guarded_s, _densities(flows, table),
    )  # fmt: skip


def _wait_s(
    flows: Sequence[Flow], table: Table, choice: Ints, workers: int, guarded_s: float
) -> Floats:
    """How long a job that is due waits: for the rest of another's, if all workers have one."""
    rows = np.arange(len(choice))
    job, load = table.job_s[rows, choice], table.load[rows, choice]
    busy = float(load.sum())
    if not busy:
        return np.zeros(len(flows))
    rest_s = float(job @ load) / busy / 2
    usual_s = min(busy / workers, 1.0) ** workers * rest_s / workers
    deadline = np.array([_deadline_s(f) for f in flows])
    wait: Floats = usual_s + np.where(deadline < guarded_s, 2 * rest_s, 0.0)
    # Windows close together, and wait for each other; so do cells that answer every file at once.
    period = table.period_s[rows, choice].tolist()
    soon = [f.slide_s > 0 or t < f.gap_s for f, t in zip(flows, period, strict=True)]
    meet = np.flatnonzero(np.array(soon) & (choice > 0))
    order = meet[np.argsort(deadline[meet], kind="stable")]
    before = np.concatenate([[0.0], np.cumsum(job[order])])[:-1]
    wait[order] += before / workers / 2
    return wait


def _densities(flows: Sequence[Flow], table: Table) -> Floats:
    """Yield per worker-second at the best period."""
    backlog = np.array([f.backlog_load for f in flows])[:, None]
    in_time = np.array([f.in_time for f in flows])
    load = np.maximum(table.load[:, 1:] - backlog, 1e-12)
    best: Floats = (table.value[:, 1:] / load).max(axis=1) / in_time
    return best


def _margin(flows: Sequence[Flow], table: Table, choice: Ints) -> float:
    """The standard error of all loads together, of jobs as long as planned."""
    rows = np.arange(len(choice))
    job_s, load = table.job_s[rows, choice].tolist(), table.load[rows, choice].tolist()
    errors = [
        f.job_error_s(job) * (whole - f.backlog_load) / job
        for f, job, whole in zip(flows, job_s, load, strict=True)
        if job
    ]
    return hypot(*errors)


def choose(table: Table, budget: float) -> tuple[Ints, float]:
    """The column of each row, and the price at which they were chosen."""
    high = float(np.max(table.value[:, 1:] / np.maximum(table.load[:, 1:], 1e-12), initial=0.0))
    same = _SAME * np.abs(table.value).max(axis=1, keepdims=True)

    def best(price: float) -> Ints:
        """Of equals the first: not to serve, then the longest period."""
        worth = table.value - price * table.load
        choice: Ints = np.argmax(worth >= worth.max(axis=1, keepdims=True) - same, axis=1)
        return choice

    choice = best(0.0)
    if _load(table, choice) <= budget:
        return choice, 0.0
    low, high = 0.0, high * 1.01 + 1e-300
    for _ in range(_HALVINGS):
        middle = (low + high) / 2 if low < high / 1e6 else sqrt(low * high)
        if _load(table, best(middle)) > budget:
            low = middle
        else:
            high = middle
        if high - low < 1e-4 * high:
            break
    return _fill(table, best(high), budget), high


def _load(table: Table, choice: Ints) -> float:
    return float(table.load[np.arange(len(choice)), choice].sum())


def _fill(table: Table, choice: Ints, budget: float) -> Ints:
    """Spends what is left of the budget, on the largest gain that fits each time."""
    rows = np.arange(len(choice))
    choice = choice.copy()
    for _ in range(2 * len(choice)):
        left = budget - _load(table, choice)
        gain = table.value - table.value[rows, choice][:, None]
        more = table.load - table.load[rows, choice][:, None]
        gain[more > left] = 0.0
        row, column = np.unravel_index(np.argmax(gain), gain.shape)
        if gain[row, column] <= _SAME * table.value[row].max():
            break
        choice[row] = column
    return choice


def _sooner(flows: Sequence[Flow], table: Table, choice: Ints, budget: float) -> Ints:
    """Shorter periods that are worth as much: with time to spare, answers come sooner."""
    rows = np.arange(len(choice))
    if _load(table, choice) >= budget:
        return choice
    value = table.value[rows, choice][:, None]
    as_good = (table.value >= value * (1 - _SAME)) & (choice > 0)[:, None]
    urgency = np.array([f.weight / max(f.end_s, 1e-3) for f in flows])[:, None]
    longest = np.where(choice > 0, table.latency_s[rows, choice], 0.0)[:, None]
    finite = np.where(np.isfinite(table.latency_s), table.latency_s, 0.0)
    saved = np.where(as_good, urgency * np.maximum(longest - finite, 0.0), 0.0)
    saved[:, 0] = 0.0
    load = np.where(as_good, table.load, _NEVER)
    load[choice == 0, 0] = 0.0
    eager = Table(table.period_s, load, saved, table.latency_s, table.job_s)
    base = load[rows, choice].sum()
    # What is chosen already is paid: only more than that has a price.
    found, _ = choose(_above(eager, load[rows, choice]), budget - float(base))
    return np.where(saved[rows, found] > 0, found, choice)


def _above(table: Table, paid: Floats) -> Table:
    """The table with loads beyond what is paid already."""
    return Table(
        table.period_s, np.maximum(table.load - paid[:, None], 0.0), table.value,
        table.latency_s, table.job_s,
    )  # fmt: skip
