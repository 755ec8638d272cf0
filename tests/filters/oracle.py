"""The optimum as a linear program with one variable per order of the filters."""

from collections.abc import Callable, Sequence
from itertools import permutations

from scipy.optimize import linprog

from daybreak.filters import Estimate


def best_over_orders(
    filters: Sequence[Estimate], allowed: Callable[[tuple[int, ...]], bool] = lambda _: True
) -> float:
    """Maximal total flow such that no filter gets more than its capacity."""
    orders = [order for order in permutations(range(len(filters))) if allowed(order)]
    loads = [[0.0] * len(orders) for _ in filters]
    for column, order in enumerate(orders):
        survivors = 1.0
        for i in order:
            loads[i][column] = survivors
            survivors *= filters[i].selectivity
    solved = linprog([-1.0] * len(orders), A_ub=loads, b_ub=[f.capacity_per_s for f in filters])
    assert solved.fun is not None
    return -float(solved.fun)
