"""The optimal order against all orders, and its expectations against drawn fates."""

from itertools import permutations
from random import Random

import pytest

from daybreak_experiments.fas import clairvoyant
from daybreak_experiments.fas.clairvoyant import Arriving, draw_arriving
from daybreak_experiments.fas.optimum import Backlog, draw_backlog, fas, optimum, rb


def expected(backlog: Backlog, order: tuple[int, ...]) -> float:
    left, total = list(backlog.pending), 0.0
    for q in order:
        total += backlog.step_cost(q, tuple(left))
        left[q] -= 1
    return total


@pytest.mark.parametrize("number", range(8))
def test_the_optimum_is_the_least_over_all_orders(number: int) -> None:
    backlog = draw_backlog(1, number, queries=3, most=3)
    updates = [q for q, n in enumerate(backlog.pending) for _ in range(n)]
    orders = set(permutations(updates)) if len(updates) <= 7 else set()
    best = optimum(backlog)
    assert fas(backlog) >= best - 1e-9
    assert rb(backlog) >= best - 1e-9
    if orders:
        assert best == pytest.approx(min(expected(backlog, order) for order in orders))


def replayed(instance: Arriving, order: tuple[int, ...]) -> int | None:
    """Stale time by each update's own interval; None if the order idles or runs ahead."""
    now, done = 0, [0] * len(instance.costs)
    spans: list[list[tuple[int, int]]] = [[] for _ in instance.costs]
    for q in order:
        heads = [t[k] for t, k in zip(instance.arrivals, done, strict=True) if k < len(t)]
        now = max(now, min(heads))
        arrival = instance.arrivals[q][done[q]]
        if arrival > now:
            return None
        now += instance.costs[q]
        spans[q].append((arrival, now))
        done[q] += 1
    return sum(len({t for a, b in mine for t in range(a, b)}) for mine in spans)


@pytest.mark.parametrize("number", range(8))
def test_with_arrivals_the_optimum_is_the_least_over_all_orders(number: int) -> None:
    instance = draw_arriving(2, number, queries=3, updates=2)
    orders = set(permutations([0, 0, 1, 1, 2, 2]))
    totals = [t for order in orders if (t := replayed(instance, order)) is not None]
    best = clairvoyant.optimum(instance)
    assert best == min(totals)
    assert clairvoyant.fas(instance) in totals
    assert clairvoyant.rb(instance) in totals


def test_expected_stale_time_is_the_mean_over_fates() -> None:
    backlog = Backlog(costs=(1, 4), predicates=(0.5, 0.8), pending=(3, 2))
    order = (1, 0, 0, 1, 0)
    random = Random(5)
    runs = 20_000
    total = sum(stale_time(backlog, order, random) for _ in range(runs))
    assert total / runs == pytest.approx(expected(backlog, order), rel=0.02)


def stale_time(backlog: Backlog, order: tuple[int, ...], random: Random) -> float:
    """One draw: each query is stale until its last passing update has been processed."""
    now, fresh_at = 0.0, [0.0] * len(backlog.costs)
    for q in order:
        share, cost = backlog.predicates[q], backlog.costs[q]
        passed = 0
        while passed < 2 and random.random() < share:
            passed += 1
        now += cost * (passed + 1)
        if passed == 2:
            fresh_at[q] = now
    return sum(fresh_at)
