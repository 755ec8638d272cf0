"""The simulator against queueing theory: means within three standard errors."""

import math

import numpy as np
import pytest

from daybreak.model import Arrivals, Box, Network, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.report import RunReport
from daybreak.simulation.arrivals import draw_schedule
from daybreak.simulation.simulate import simulate

SERVICE_S = 0.1
SEEDS = range(1, 13)


def station(queues: int, rate_per_s: float, service: str) -> Network:
    """``queues`` boxes on one worker, sharing the total arrival rate equally."""
    return Network(
        streams=[
            Stream(name=f"s{i}", arrivals=Arrivals(rate_per_s=rate_per_s / queues))
            for i in range(queues)
        ],
        boxes=[
            Box(
                name=f"b{i}",
                inputs=(f"s{i}",),
                cost_ns=round(SERVICE_S * 1e9),
                service="exponential" if service == "M" else "constant",
            )
            for i in range(queues)
        ],
        queries=[Query(name=f"q{i}", output=f"b{i}") for i in range(queues)],
    )


def run(network: Network, policy: str, seed: int, **params: object) -> RunReport:
    schedule = draw_schedule(network, 2500.0, seed)
    return simulate(network, make_policy_with(policy, **params), schedule, seed=seed)


def assert_mean_wait(theory_s: float, reports: list[RunReport]) -> None:
    waits = [float(r.response_s.mean()) - SERVICE_S for r in reports]
    error = float(np.std(waits, ddof=1)) / math.sqrt(len(waits))
    assert abs(float(np.mean(waits)) - theory_s) <= 3 * error, (np.mean(waits), theory_s, error)
    assert error < 0.1 * theory_s, "too noisy to mean anything"


@pytest.mark.slow
@pytest.mark.parametrize(("service", "factor"), [("M", 1.0), ("D", 0.5)])
def test_mean_wait_of_one_queue(service: str, factor: float) -> None:
    """Pollaczek-Khinchine: rho / (1 - rho) x service x (1 for M, 1/2 for D)."""
    rho = 0.8
    theory_s = factor * rho / (1 - rho) * SERVICE_S
    network = station(1, rho / SERVICE_S, service)
    assert_mean_wait(theory_s, [run(network, "fcfs", seed, train=1) for seed in SEEDS])


@pytest.mark.slow
@pytest.mark.parametrize("train", [1, 0])
def test_mean_wait_under_round_robin(train: int) -> None:
    """Kleinrock's conservation law: with equal queues, the mean wait is that of M/D/1."""
    rho = 0.8
    network = station(5, rho / SERVICE_S, "D")
    theory_s = 0.5 * rho / (1 - rho) * SERVICE_S
    reports = [run(network, "round-robin", seed, train=train) for seed in SEEDS]
    assert_mean_wait(theory_s, reports)


@pytest.mark.slow
def test_two_workers_wait_as_in_erlang_c() -> None:
    """M/M/2 from two queues that one list serves: P(wait) / (2 mu - lambda).

    A box runs on one worker at a time, so several boxes share the stream of arrivals.
    """
    rho, mu = 0.7, 1 / SERVICE_S
    lam = 2 * rho * mu
    wait_probability = 2 * rho**2 / (1 + rho)
    theory_s = wait_probability / (2 * mu - lam)
    network = station(200, lam, "M")
    reports = []
    for seed in SEEDS:
        schedule = draw_schedule(network, 1500.0, seed)
        policy = make_policy_with("fcfs", train=1)
        reports.append(simulate(network, policy, schedule, workers=2, seed=seed))
    assert_mean_wait(theory_s, reports)
