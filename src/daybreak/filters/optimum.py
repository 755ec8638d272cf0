"""The largest throughput any order of filters can reach.

With rate limits r_i and selectivities p_i, every tuple that is decided was either dropped by
one filter or passed by all. For a set S of filters, at most ``sum_S r_i (1 - p_i)`` tuples per
second are dropped inside S, while at least ``F (prod_{i not in S} p_i - prod_i p_i)`` of F must
be: those that pass all the others and not all of S. The bound is met for some S, so

    F* = min over non-empty S of  sum_S r_i (1 - p_i) / (prod_{i not in S} p_i - prod_i p_i).

With precedence constraints no such formula holds; there the optimum is a linear program over
the flows between sets of passed filters (`optimum_with_dependencies`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from daybreak.filters.declared_filters import Estimate
from daybreak.filters.dependencies import Dependencies
from daybreak.model.errors import ConfigError

#: 2**20 subsets take seconds; more filters in one conjunction are a mistake, or need condon.
MOST_FILTERS = 20


def optimum_per_s(filters: Sequence[Estimate]) -> float:
    """F*, in tuples per second."""
    bound = math.inf
    for i, f in enumerate(filters):
        if f.selectivity == 1:
            # 0/0 in the formula; its limit says that a filter which drops nothing must at
            # least take every tuple that passes all the others.
            others = math.prod(g.selectivity for j, g in enumerate(filters) if j != i)
            bound = min(bound, f.capacity_per_s / others if others else math.inf)
    dropping = [f for f in filters if f.selectivity < 1]
    if len(dropping) > MOST_FILTERS:
        raise ConfigError(
            "optimum",
            f"{len(dropping)} filters have 2^{len(dropping)} subsets",
            f"give at most {MOST_FILTERS}, or ask for Condon's flow, which takes O(n^2)",
        )
    everything = math.prod(f.selectivity for f in dropping)
    # Rounds of doubling: after f, `sums` holds (dropped inside S, product outside S) for every S.
    sums = [(0.0, 1.0)]
    for f in dropping:
        drops = f.capacity_per_s * (1 - f.selectivity)
        sums = [
            *((inside, outside * f.selectivity) for inside, outside in sums),
            *((inside + drops, outside) for inside, outside in sums),
        ]
    for inside, outside in sums[1:]:
        if outside > everything:
            bound = min(bound, inside / (outside - everything))
    return bound


def optimum_with_dependencies(
    filters: Sequence[Estimate],
    dependencies: Dependencies,
    passing: Callable[[int], float] | None = None,
) -> float:
    """The optimum over orders that keep the precedence constraints; needs scipy.

    What may happen to a tuple depends only on the set of filters it passed, not on their order.
    So instead of one variable per linear extension there is one per (reachable set, next
    filter): its flow. Flow into a set, thinned by selectivity, equals flow out; no filter
    takes more than its capacity; the flow out of the empty set is maximal.

    ``passing`` gives the share of tuples that a set of filters lets pass together, where it is
    not the product of their selectivities.
    """
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise ConfigError(
            "optimum", "dependencies need scipy", "pip install 'daybreak[filters]'"
        ) from error
    n = len(filters)
    steps = _steps(n, dependencies)
    sets = {s: row for row, s in enumerate(dict.fromkeys(s for s, _ in steps))}
    balance: list[tuple[int, int, float]] = []
    load: list[tuple[int, int, float]] = []
    for column, (s, i) in enumerate(steps):
        load.append((i, column, 1.0))
        balance.append((sets[s], column, 1.0))
        if (after := s | 1 << i) in sets:
            goes_on = passing(after) / passing(s) if passing else filters[i].selectivity
            balance.append((sets[after], column, -goes_on))
    balance = [entry for entry in balance if entry[0] != sets[0]]

    def matrix(entries: list[tuple[int, int, float]], rows: int) -> NDArray[np.float64]:
        made = np.zeros((rows, len(steps)))
        for row, column, value in entries:
            made[row, column] = value
        return made

    solved = linprog(
        [-1.0 if s == 0 else 0.0 for s, _ in steps],
        A_ub=matrix(load, n),
        b_ub=[f.capacity_per_s for f in filters],
        A_eq=matrix(balance, len(sets)),
        b_eq=[0.0] * len(sets),
    )
    assert solved.fun is not None
    return -float(solved.fun)


def _steps(n: int, dependencies: Dependencies) -> list[tuple[int, int]]:
    """Every (set of passed filters, filter that may come next), reachable from nothing."""
    found: list[tuple[int, int]] = []
    seen = {0}
    open_ = [0]
    while open_:
        s = open_.pop()
        for i in range(n):
            if dependencies.allows(s, i):
                found.append((s, i))
                if (after := s | 1 << i) not in seen:
                    seen.add(after)
                    open_.append(after)
        if len(found) > 20_000:
            raise ConfigError("optimum", f"{n} filters reach too many sets", "give fewer filters")
    return found
