"""The simulator against queueing theory, and the routers inside it."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from tests.filters.examples import ESTIMATES, REPORT

from daybreak.filters import (
    ROUTERS,
    Estimate,
    Filter,
    FilterChange,
    Load,
    make_router,
    optimum_per_s,
    simulate,
)
from daybreak.filters.routers import Fixed, FreeFirst
from daybreak.model import ConfigError


@pytest.mark.slow
def test_one_filter_waits_as_the_m_d_1_queue() -> None:
    alone = (Filter(name="only", service_time_s=0.1, selectivity=0.5),)
    load = Load(tuples=60_000, rate_per_s=6)
    # rho = 0.6: wait = rho * st / (2 (1 - rho)) = 75 ms
    report = simulate(alone, make_router("fixed"), load, seed=1)
    assert report.mean_latency_s == pytest.approx(0.175, rel=0.03)
    assert report.utilisation[0] == pytest.approx(0.6, rel=0.02)


def test_the_fixed_order_equals_a_direct_recursion_tuple_by_tuple() -> None:
    """Three queues in a row: a tuple starts when it is there and the one before it is done."""
    tuples, rate, seed = 5000, 8.0, 4
    arrivals, fates = Random(f"{seed}/arrivals"), Random(f"{seed}/fates")
    now_s, free_s, expected = 0.0, [0.0] * len(REPORT), []
    for _ in range(tuples):
        now_s += arrivals.expovariate(rate)
        at_s, verdicts = now_s, [fates.random() for _ in REPORT]
        for i, f in enumerate(REPORT):
            at_s = free_s[i] = max(at_s, free_s[i]) + f.service_time_s
            if verdicts[i] >= f.selectivity:
                break
        expected.append(at_s - now_s)
    load = Load(tuples=tuples, rate_per_s=rate, warmup=0.0)
    report = simulate(REPORT, make_router("fixed"), load, seed)
    # The simulator lists tuples by decision; rounding to ns adds up over the arrivals.
    assert np.sort(report.latencies_s) == pytest.approx(np.sort(expected), abs=1e-5)


def test_uniform_arrivals_below_capacity_never_wait() -> None:
    alone = (Filter(name="only", service_time_s=0.1, selectivity=0.5),)
    load = Load(tuples=1000, rate_per_s=9.9, process="uniform")
    assert simulate(alone, make_router("fixed"), load, seed=1).latencies_s.max() == pytest.approx(
        0.1
    )


@pytest.mark.parametrize("name", ROUTERS)
def test_the_same_seed_gives_the_same_run_and_no_router_changes_a_fate(name: str) -> None:
    load = Load(tuples=2000, rate_per_s=8, warmup=0.0)
    first = simulate(REPORT, make_router(name), load, seed=3)
    again = simulate(REPORT, make_router(name), load, seed=3)
    assert np.array_equal(first.latencies_s, again.latencies_s)
    assert first.counts == again.counts
    fixed = simulate(REPORT, make_router("fixed"), load, seed=3)
    assert first.counts.passed == fixed.counts.passed
    assert first.counts.decided == 2000


@pytest.mark.slow
def test_with_all_filters_idle_free_first_takes_as_long_as_the_first_to_drop() -> None:
    load = Load(tuples=20_000, rate_per_s=0.5, process="uniform")
    report = simulate(REPORT, FreeFirst(), load, seed=1)
    # 0.6 x 100 + 0.24 x 150 + 0.16 x 200 ms
    assert report.mean_latency_s == pytest.approx(0.128, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    "filters",
    [
        REPORT,
        # One filter far ahead of the others: it must see every tuple first.
        tuple(
            Filter(name=str(i), service_time_s=s, selectivity=p, threads=k)
            for i, (s, p, k) in enumerate([(0.01, 0.4, 4), (0.5, 0.7, 2), (0.4, 0.2, 1)])
        ),
        tuple(
            Filter(name=str(i), service_time_s=0.1, selectivity=0.9, threads=3) for i in range(4)
        ),
    ],
)
@pytest.mark.parametrize("online", [False, True])
def test_free_first_reaches_the_optimum(filters: tuple[Filter, ...], online: bool) -> None:
    best = optimum_per_s([f.estimate for f in filters])
    # Half is warm-up: until the closed loop's tuples are those that wait for the bottleneck,
    # more of them are decided per second than can be for long.
    load = Load(tuples=8000, population=24, warmup=0.5)
    runs = [
        simulate(filters, FreeFirst(), load, seed, online=online).throughput_per_s
        for seed in range(3)
    ]
    assert np.mean(runs) == pytest.approx(best, rel=0.03)


def test_dependencies_hold_and_cost_what_the_program_says() -> None:
    from daybreak.filters import Dependencies, optimum_with_dependencies

    last = Filter(name="fast", service_time_s=0.1, selectivity=0.4, after=("slow",))
    filters = (last, *REPORT[1:])
    graph = Dependencies([f.name for f in filters], {"fast": ["slow"]})
    best = optimum_with_dependencies([f.estimate for f in filters], graph)
    report = simulate(filters, FreeFirst(), Load(tuples=8000, population=64), seed=1)
    assert best == pytest.approx(8.7607, abs=1e-4)
    assert report.throughput_per_s == pytest.approx(best, rel=0.03)


@pytest.mark.slow
def test_condon_told_of_a_drift_keeps_up_where_a_fixed_order_does_not() -> None:
    slower = [FilterChange(at_s=0.0, filter=0, service_time_s=0.4)]
    drifted = [Estimate(0.4, 1, 0.4), *ESTIMATES[1:]]
    best = optimum_per_s(drifted)
    load = Load(tuples=8000, population=64, warmup=0.4)
    learned = simulate(REPORT, make_router("condon"), load, 1, changes=slower, online=True)
    fixed = simulate(REPORT, Fixed((0, 1, 2)), load, 1, changes=slower)
    assert learned.throughput_per_s > 0.93 * best
    assert fixed.throughput_per_s == pytest.approx(2.5, rel=0.02)


def test_a_changed_selectivity_is_learned() -> None:
    change = [FilterChange(at_s=200.0, filter=2, selectivity=0.05)]
    load = Load(tuples=8000, population=64, warmup=0.6)
    best = optimum_per_s([*ESTIMATES[:2], Estimate(0.2, 1, 0.05)])
    report = simulate(REPORT, make_router("condon"), load, 1, changes=change, online=True)
    assert report.throughput_per_s > 0.95 * best


def test_batches_share_the_cost_of_a_call() -> None:
    load = Load(tuples=8000, population=200)

    def reached(batch: int) -> float:
        return simulate(
            REPORT, FreeFirst(), load, 1, batch=batch, call_overhead_s=0.2
        ).throughput_per_s

    costs = [[0.2 / b + f.service_time_s for f in REPORT] for b in (1, 8)]
    best = [optimum_per_s([Estimate(c, 1, 0.4) for c in cost]) for cost in costs]
    assert reached(1) == pytest.approx(best[0], rel=0.03)
    assert reached(8) == pytest.approx(best[1], rel=0.03)


def test_cancelling_frees_threads_and_loses_nothing() -> None:
    load = Load(tuples=4000, rate_per_s=8, warmup=0.0)
    kept = simulate(REPORT, FreeFirst(), load, seed=2)
    cancelled = simulate(REPORT, FreeFirst(), load, seed=2, cancel=True)
    assert cancelled.counts.decided == kept.counts.decided == 4000
    assert cancelled.counts.passed == kept.counts.passed
    assert cancelled.counts.wasted < kept.counts.wasted
    assert cancelled.mean_latency_s < kept.mean_latency_s


@pytest.mark.parametrize(
    ("arguments", "finding"),
    [
        ({"tuples": 10}, "open or closed"),
        ({"tuples": 10, "rate_per_s": 1.0, "population": 3}, "open or closed"),
        ({"tuples": 0, "rate_per_s": 1.0}, "0 tuples"),
        ({"tuples": 10, "rate_per_s": float("nan")}, "rate nan"),
        ({"tuples": 10, "population": 0}, "population 0"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused(arguments: dict[str, float], finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        Load(**arguments)  # type: ignore[arg-type]


def test_filters_choose_after_everything_that_happens_at_the_same_instant() -> None:
    """Both filters finish after 100 ms. Between the two completions, the first would find only
    the other's tuple, and duplicate work."""
    alike = tuple(Filter(name=n, service_time_s=0.1, selectivity=1.0) for n in ("a", "b"))
    report = simulate(alike, FreeFirst(), Load(tuples=2, population=2, warmup=0.0), seed=1)
    assert report.decided_s == pytest.approx([0.2, 0.2])
    assert report.counts.handed == 4
    assert report.counts.duplicated == 0


def test_priority_as_worded_keeps_a_tuple_queued_while_its_filter_works() -> None:
    """Then no queue is empty while its filter works, and less is fetched."""
    load = Load(tuples=5000, population=64)
    ours, literal = (
        simulate(REPORT, make_router(name), load, seed=1).throughput_per_s
        for name in ("priority", "priority-literal")
    )
    assert literal == pytest.approx(10.0, rel=0.01)
    assert ours > 1.1 * literal


def test_a_disjunction_is_a_conjunction_of_the_opposite_filters() -> None:
    """With the same fates: what one filter accepts here, the opposite one drops there."""
    accepting = tuple(replace(f, selectivity=0.6) for f in REPORT)
    opposite = tuple(replace(f, selectivity=0.4) for f in REPORT)
    load = Load(tuples=4000, rate_per_s=8, warmup=0.0)
    for name in ("fixed", "free-first"):
        any_of = simulate(accepting, make_router(name), load, seed=2, any_of=True)
        all_of = simulate(opposite, make_router(name), load, seed=2)
        # A fate below 0.6 accepts; turned round, one below 0.4 passes: 0.4^3 either way.
        assert 1 - any_of.passed.mean() == pytest.approx(0.064, abs=0.012)
        assert all_of.passed.mean() == pytest.approx(0.064, abs=0.012)
        assert any_of.mean_latency_s == pytest.approx(all_of.mean_latency_s, rel=0.05)


def test_correlated_fates_keep_each_selectivity() -> None:
    alike = tuple(replace(f, selectivity=0.4) for f in REPORT)
    load = Load(tuples=8000, population=64, warmup=0.0, correlation=1.0)
    report = simulate(alike, make_router("free-first"), load, seed=1)
    assert report.passed.mean() == pytest.approx(0.4, abs=0.02)
    half = replace(load, correlation=0.5)
    assert simulate(alike, make_router("free-first"), half, seed=1).passed.mean() == pytest.approx(
        0.5 * 0.4 + 0.5 * 0.064, abs=0.02
    )


def test_a_disjunction_with_dependencies_is_refused() -> None:
    after = (REPORT[0], replace(REPORT[1], after=(REPORT[0].name,)))
    load = Load(tuples=10, rate_per_s=1)
    with pytest.raises(ConfigError, match="disjunction"):
        simulate(after, make_router("fixed"), load, seed=1, any_of=True)
