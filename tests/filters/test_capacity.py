"""Both measurements find the threads and times of services they cannot see into."""

import math
from random import Random

import pytest

from daybreak.filters import Capacity, OnlineEstimator, Trigger, measure
from daybreak.filters.capacity import CallTicket


def service(threads: int, service_time_s: float, jitter: float = 0.0, network_s: float = 0.0):  # type: ignore[no-untyped-def]
    rng = Random(1)

    def send(k: int) -> float:
        noise = 1 + jitter * (2 * rng.random() - 1)
        return network_s + math.ceil(k / threads) * service_time_s * noise

    return send


@pytest.mark.parametrize("threads", [1, 2, 3, 7, 8, 9, 31, 100])
@pytest.mark.parametrize("previous", [1, 5, 8, 64, 500])
def test_the_report_s_measurement_finds_the_threads(threads: int, previous: int) -> None:
    found = measure(service(threads, 0.1), previous)
    assert isinstance(found, Capacity)
    assert found.threads == threads
    assert found.service_time_s == pytest.approx(0.1)


def test_it_bears_jitter_and_takes_off_the_network_delay() -> None:
    found = measure(service(12, 0.05, jitter=0.15, network_s=0.4), network_s=0.4)
    assert found.threads == 12
    assert found.service_time_s == pytest.approx(0.05, rel=0.15)


def test_it_asks_in_the_order_of_the_report() -> None:
    asked: list[int] = []
    send = service(5, 0.1)

    def recorded(k: int) -> float:
        asked.append(k)
        return float(send(k))

    measure(recorded)
    assert asked == [1, 2, 2, 4, 4, 8, 6, 5]


def drive(
    estimator: OnlineEstimator, threads: int, service_time_s: float, calls: int, from_s: float = 0
) -> float:
    """A saturated service of so many threads behind the estimator's own limit."""
    free_at = [from_s] * threads
    inside: list[tuple[float, CallTicket]] = []
    now_s = from_s
    for n in range(calls):
        while len(inside) < estimator.limit:
            thread = min(range(threads), key=free_at.__getitem__)
            free_at[thread] = max(free_at[thread], now_s) + service_time_s
            inside.append((free_at[thread], estimator.started(now_s)))
        first = min(inside, key=lambda x: x[0])
        inside.remove(first)
        now_s = first[0]
        estimator.finished(first[1], now_s, [n % 4 == 0])
    for _, ticket in inside:
        estimator.gone(ticket)
    return now_s


@pytest.mark.parametrize("threads", [1, 2, 4, 9, 30])
def test_the_online_estimator_finds_threads_capacity_and_selectivity(threads: int) -> None:
    estimator = OnlineEstimator()
    drive(estimator, threads, 0.1, 150 * threads)
    found = estimator.estimate
    assert found.threads == pytest.approx(threads, rel=0.05)
    assert found.capacity_per_s == pytest.approx(threads / 0.1, rel=0.05)
    assert found.selectivity == pytest.approx(0.25, abs=0.06)


def test_the_online_estimator_follows_a_service_that_loses_threads_and_speed() -> None:
    estimator = OnlineEstimator(half_life_s=2.0)
    now_s = drive(estimator, 4, 0.1, 400)
    drive(estimator, 2, 0.2, 400, from_s=now_s)
    assert estimator.estimate.threads == 2
    assert estimator.estimate.capacity_per_s == pytest.approx(10, rel=0.05)


def test_before_any_evidence_the_prior_stands_and_one_more_call_is_let_in() -> None:
    estimator = OnlineEstimator()
    assert estimator.limit == 2
    estimator.finished(estimator.started(0.0), 0.2, [True])
    assert estimator.estimate.service_time_s == 0.1
    for n in range(9):
        estimator.finished(estimator.started(n), n + 0.2, [True])
    assert estimator.estimate.service_time_s == pytest.approx(0.2)


def test_tuples_that_travel_together_count_each() -> None:
    estimator = OnlineEstimator()
    for n in range(20):
        estimator.finished(estimator.started(n), n + 0.2, [True, None, False, {"a": 1}])
    assert estimator.estimate.capacity_per_s == pytest.approx(20)
    assert estimator.estimate.selectivity == pytest.approx(0.5)


def test_the_trigger_fires_on_time_and_on_drastic_change() -> None:
    trigger = Trigger(every_s=60, factor=2)
    assert trigger.due(0.0)  # never measured
    trigger.measured(0.0)
    for _ in range(20):
        trigger.returned(0.1)
    assert not trigger.due(30.0)
    for _ in range(3):
        trigger.returned(0.15)
    assert not trigger.due(31.0)
    for _ in range(20):
        trigger.returned(0.25)
    assert trigger.due(32.0)
    trigger.measured(32.0)
    assert not trigger.due(33.0)
    assert trigger.due(92.0)
