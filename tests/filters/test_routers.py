"""Laws every router keeps, then what each one picks, as exact lists."""

from random import Random

import pytest
from tests.filters.examples import ESTIMATES

from daybreak.filters import ROUTERS, Dependencies, Estimate, Estimates, make_router
from daybreak.filters.dispatch import Call, Dispatcher
from daybreak.filters.routers import Fixed, Routing
from daybreak.model import ConfigError

NAMES = ("a", "b", "c")


def dispatcher(routing: Routing, after: dict[str, list[str]] | None = None) -> Dispatcher:
    return Dispatcher(routing, Estimates(ESTIMATES), Dependencies(NAMES, after or {}), Random(7))


def shown(calls: list[Call]) -> list[tuple[int, int]]:
    return [(c.tuples[0].sequence, c.filter) for c in calls]


def settle(d: Dispatcher, threads: list[int], rng: Random, failing: float = 0.0) -> list[int]:
    """Finishes calls in random order until nothing is left; returns the order of decisions."""
    decided: list[int] = []
    open_: list[Call] = []
    free = list(threads)
    while True:
        for call in d.assign(free):
            free[call.filter] -= 1
            open_.append(call)
        assert all(n >= 0 for n in free)
        if not open_:
            return decided
        call = open_.pop(rng.randrange(len(open_)))
        free[call.filter] += 1
        if rng.random() < failing:
            d.fail(call)
        else:
            decided += [
                t.sequence for t in d.finish(call, [rng.random() < 0.6 for _ in call.tuples])
            ]


@pytest.mark.parametrize("name", ROUTERS)
@pytest.mark.parametrize("batch", [1, 3])
def test_every_tuple_is_decided_once_even_if_services_fail(name: str, batch: int) -> None:
    rng = Random(f"{name}{batch}")
    d = dispatcher(make_router(name))
    d.batch = batch
    for value in range(300):
        d.arrive(value, 0.0)
    assert sorted(settle(d, [2, 1, 3], rng, failing=0.2)) == list(range(300))
    assert d.counts.undecided == 0


@pytest.mark.parametrize("name", sorted(set(ROUTERS) - {"condon"}))
def test_dependencies_are_kept(name: str) -> None:
    # The dispatcher raises EngineBug if a router breaks a frontier.
    d = dispatcher(make_router(name), {"a": ["c"], "b": ["c"]})
    for value in range(200):
        d.arrive(value, 0.0)
    assert len(settle(d, [1, 1, 1], Random(1))) == 200


@pytest.mark.parametrize("name", ROUTERS)
def test_the_same_stream_of_chance_gives_the_same_decisions(name: str) -> None:
    runs = []
    for _ in range(2):
        d = dispatcher(make_router(name))
        for value in range(100):
            d.arrive(value, 0.0)
        runs.append(settle(d, [1, 2, 1], Random(3)))
    assert runs[0] == runs[1]


def test_fixed_goes_by_capacity_over_selectivity() -> None:
    slow_but_sharp = Estimate(0.2, 1, 0.1)  # 5 / 0.1 = 50 > 10 / 0.4 = 25
    routing = Fixed()
    routing.attach(Estimates([ESTIMATES[0], slow_but_sharp]), Dependencies("ab", {}), Random(1))
    assert routing.route == (1, 0)


def test_least_cost_counts_the_tuples_ahead() -> None:
    d = dispatcher(make_router("least-cost"))
    for value in range(4):
        d.arrive(value, 0.0)
    # 100 ms; then 200 behind it or 150: 150; then 200 or 200: the first; then the slow one.
    assert shown(d.assign([1, 1, 1])) == [(0, 0), (1, 1), (3, 2)]


def test_condon_draws_orders_in_proportion_to_their_flow() -> None:
    d = dispatcher(make_router("condon"))
    routes = [d.arrive(None, 0.0).route for _ in range(20_000)]
    share = routes.count((0, 1, 2)) / len(routes)
    assert share == pytest.approx(8.436 / 13.889, abs=3 * (0.24 / 20_000) ** 0.5)


def test_condon_plans_anew_when_a_service_drifts_and_refuses_dependencies() -> None:
    d = dispatcher(make_router("condon"))
    d.arrive(None, 0.0)
    d.estimates.update(0, Estimate(10.0, 1, 0.4))
    # The first filter now is the slowest by far: nobody goes there first.
    assert all(d.arrive(None, 0.0).route[0] != 0 for _ in range(200))
    with pytest.raises(ConfigError, match="dependencies"):
        dispatcher(make_router("condon"), {"a": ["b"]})


def test_priority_duplicates_while_tuples_wait_outside() -> None:
    d = dispatcher(make_router("priority"))
    for value in range(5):
        d.arrive(value, 0.0)
    # a's queue empties, so 1 is fetched; b and c then still have tuples in their queues.
    assert shown(d.assign([1, 0, 0])) == [(0, 0)]
    assert shown(d.assign([0, 1, 1])) == [(1, 1), (0, 2)]


def test_free_first_takes_a_new_tuple_before_it_duplicates() -> None:
    d = dispatcher(make_router("free-first"))
    for value in range(3):
        d.arrive(value, 0.0)
    assert shown(d.assign([1, 1, 1])) == [(0, 0), (1, 1), (2, 2)]
    assert d.counts.duplicated == 0


def test_free_first_duplicates_when_nothing_is_free_cheapest_filter_first() -> None:
    d = dispatcher(make_router("free-first"))
    d.arrive(None, 0.0)
    assert shown(d.assign([1, 1, 1])) == [(0, 0), (0, 1), (0, 2)]
    assert d.counts.duplicated == 2


def test_free_first_prefers_what_most_filters_have_passed_then_the_oldest() -> None:
    d = dispatcher(make_router("free-first"))
    for value in range(3):
        d.arrive(value, 0.0)
    first, second = d.assign([1, 1, 0])
    d.arrive(None, 0.0)
    d.finish(second, [True])  # 1 passed b; 0 is still at a; 2 and 3 are new
    assert shown(d.assign([0, 0, 3])) == [(1, 2), (2, 2), (3, 2)]
    d.finish(first, [True])


def test_at_peak_load_a_picked_tuple_has_nobody_else() -> None:
    """The report's claim (5.3): numCurrThread = 0. It holds for free-first, by rule."""
    d = dispatcher(make_router("free-first"))
    rng = Random(2)
    open_: list[Call] = []
    for _ in range(3000):
        while d.counts.undecided < 20:
            d.arrive(None, 0.0)
        free = [1 - sum(c.filter == i for c in open_) for i in range(3)]
        open_ += d.assign(free)
        call = open_.pop(rng.randrange(len(open_)))
        d.finish(call, [rng.random() < 0.4])
    assert d.counts.duplicated == 0


def test_work_stealing_prefers_tuples_likely_to_survive() -> None:
    estimates = [Estimate(0.1, 1, 0.9), Estimate(0.1, 1, 0.1), Estimate(0.1, 1, 0.5)]
    d = Dispatcher(
        make_router("work-stealing"), Estimates(estimates), Dependencies(NAMES, {}), Random(1)
    )
    d.arrive(None, 0.0)
    d.arrive(None, 0.0)
    at_a, at_b = d.assign([1, 0, 0]) + d.assign([0, 1, 0])
    assert [t.sequence for t in at_b.tuples] == [1]
    d.finish(at_a, [True])
    d.finish(at_b, [True])
    # 0 has b and c to come (0.05), 1 has a and c (0.45).
    assert shown(d.assign([0, 0, 1])) == [(1, 2)]


def test_an_unknown_router_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="free-first"):
        make_router("freefirst")
