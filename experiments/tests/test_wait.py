"""Policies that wait for an instant, by exact instants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from daybreak.model import Arrivals, Box, EngineBug, Network, Query, Stream
from daybreak.model.shedding import SheddingParams
from daybreak.policies.base import BasePolicy, Decision, Plan, Step, Wait
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import ArrivalSchedule
from daybreak.simulation.simulate import simulate
from daybreak_experiments.polling.deliveries import Deliveries
from daybreak_experiments.polling.simulator import System, simulate_polling

MS = 1_000_000
#: How old its oldest tuple is when a query runs.
AGE_NS = 10 * MS


class ByAge(BasePolicy):
    """Runs a query when its oldest tuple has waited long enough; urgent ones at once."""

    name = "by-age"

    def __init__(self, urgent: int | None = None) -> None:
        super().__init__()
        self.urgent = urgent
        self.asked_ns: list[int] = []

    def decide(self, now_ns: int, worker: int) -> Decision:
        view = self.view
        self.asked_ns.append(now_ns)
        waiting = [b for b, n in enumerate(view.pending) if n and not view.running[b]]
        due = {b: 0 if b == self.urgent else view.head_ns[b] + AGE_NS for b in waiting}
        if not due:
            return None
        first = min(due, key=lambda b: (due[b], b))
        return Plan((Step(first),)) if due[first] <= now_ns else Wait(due[first])


def network(queries: int = 1, wait_ns: int = 0) -> Network:
    """A tuple takes 1 ms."""
    names = [f"q{i}" for i in range(queries)]
    return Network(
        streams=[Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=1.0)) for i in range(queries)],
        boxes=[
            Box(name=n, inputs=(f"s{i}",), cost_ns=MS, wait_ns=wait_ns) for i, n in enumerate(names)
        ],
        queries=[Query(name=n, output=n) for n in names],
    )


def arriving(*at_ms: tuple[int, int]) -> ArrivalSchedule:
    """Instants and streams."""
    at, streams = zip(*at_ms, strict=True)
    return ArrivalSchedule(np.array(at, np.int64) * MS, np.array(streams, np.int32))


BATCHES = arriving((0, 0), (4, 0), (8, 0), (30, 0))


def responses_ms(report: RunReport, query: int = 0) -> list[float]:
    mine = report.outputs.query == query
    took = report.outputs.departure_ns[mine] - report.outputs.arrival_ns[mine]
    return [float(ns) / MS for ns in took]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("shedding", [None, SheddingParams()], ids=["plain", "shedding"])
def test_batches_by_age_leave_when_they_should(
    workers: int, shedding: SheddingParams | None
) -> None:
    policy = ByAge()
    report = simulate(network(), policy, BATCHES, workers=workers, shedding=shedding)
    # Three tuples run at 10 ms and leave 1 ms apart; the last one waits though input has ended.
    assert responses_ms(report) == [11.0, 8.0, 5.0, 11.0]
    if workers == 1:
        assert policy.asked_ns == [
            0,
            0,
            4 * MS,
            8 * MS,
            10 * MS,
            13 * MS,
            30 * MS,
            40 * MS,
            41 * MS,
        ]


def test_boxes_that_wait_for_others_and_a_policy_that_waits() -> None:
    report = simulate(network(wait_ns=2 * MS), ByAge(), BATCHES)
    assert responses_ms(report) == [13.0, 10.0, 7.0, 13.0]


def test_an_earlier_event_comes_first() -> None:
    policy = ByAge(urgent=1)
    report = simulate(network(2), policy, arriving((0, 0), (3, 1), (20, 1)))
    assert responses_ms(report, 1) == [1.0, 1.0]
    assert responses_ms(report, 0) == [11.0]
    assert policy.asked_ns == [0, 0, 3 * MS, 4 * MS, 10 * MS, 11 * MS, 20 * MS, 21 * MS]


def test_an_answer_takes_back_an_earlier_one() -> None:
    class ChangesItsMind(ByAge):
        def decide(self, now_ns: int, worker: int) -> Decision:
            decision = super().decide(now_ns, worker)
            return None if 2 * MS <= now_ns < 12 * MS else decision

    policy = ChangesItsMind()
    report = simulate(network(), policy, arriving((0, 0), (2, 0), (15, 0)))
    assert policy.asked_ns == [0, 0, 2 * MS, 15 * MS, 18 * MS], "nobody asks at 10 ms"
    assert responses_ms(report) == [16.0, 15.0, 3.0]


def test_a_system_that_polls_waits_too() -> None:
    deliveries = Deliveries.at_once(BATCHES)
    for listens in (True, False):
        policy = ByAge()
        if listens:
            policy.__dict__["on_arrival"] = lambda box, count, now_ns: None
        report = simulate_polling(network(), policy, deliveries, System(noise=0.0))
        assert responses_ms(report) == [11.0, 8.0, 5.0, 11.0]


class Waiting(ByAge):
    """Waits by a rule, and never runs anything."""

    def __init__(self, until: Callable[[int], int]) -> None:
        super().__init__()
        self._until = until

    def decide(self, now_ns: int, worker: int) -> Decision:
        return Wait(self._until(now_ns))


@pytest.mark.parametrize("late_ns", [0, 1])
def test_waiting_for_what_has_passed_is_an_error(late_ns: int) -> None:
    with pytest.raises(EngineBug, match=r"by-age waits until .* not after now"):
        simulate(network(), Waiting(lambda now: now - late_ns), BATCHES)


def test_a_policy_that_only_waits_does_not_hang_the_run() -> None:
    with pytest.raises(EngineBug, match="never runs what is pending"):
        simulate(network(), Waiting(lambda now: now + MS), BATCHES)


def test_waiting_for_nothing_ends_with_the_input() -> None:
    class Restless(ByAge):
        def decide(self, now_ns: int, worker: int) -> Decision:
            return super().decide(now_ns, worker) or Wait(now_ns + 7 * MS)

    report = simulate(network(), Restless(), BATCHES)
    assert responses_ms(report) == [11.0, 8.0, 5.0, 11.0]
    assert report.duration_s == 0.041
