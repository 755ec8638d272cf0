"""What jobs cost: learned from few of them, and honest about what they cannot show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daybreak.engine.costs import COLD_JOBS, PRIORS, CostModel, Kind, pooled

Truth = tuple[float, float, float, float]
KINDS = st.sampled_from(list(PRIORS))
JOBS = st.lists(
    st.tuples(st.integers(1, 60), st.integers(0, 10**6), st.integers(0, 10**11)), max_size=40
)


def taught(
    kind: Kind,
    truth: Truth,
    lengths: Callable[[int], int],
    jobs: int,
    *,
    riders: Callable[[int], int] = lambda _i: 0,
    noise: float = 0.0,
    slow: int = 0,
    model: CostModel | None = None,
) -> CostModel:
    """A model after jobs with this true cost; the first ``slow`` take 50 times as long."""
    model = CostModel(PRIORS[kind]) if model is None else model
    random = np.random.default_rng(1)
    for i in range(jobs):
        n, r = lengths(i), riders(i)
        cost = truth[0] + truth[1] * n + r * (truth[2] + truth[3] * n)
        cost *= random.lognormal(-(noise**2) / 2, noise) * (50 if i < slow else 1)
        model.learn(r + 1, n, round(cost))
    return model


def test_without_noise_all_four_figures_are_found() -> None:
    truth = (30e6, 2e3, 0.5e6, 100.0)
    model = taught("filter", truth, lambda i: 500 * 2 ** (i % 5), 60, riders=lambda i: i % 7 * 6)
    assert model.cost()[:4] == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("fixed_ns", [50e6, 120e6, 250e6])
def test_one_length_leaves_the_fixed_part_to_the_prior(fixed_ns: float) -> None:
    prior = PRIORS["window"]
    model = taught("window", (fixed_ns, 20e3, 0, 0), lambda _i: 10_000, 60, noise=0.1)
    cost = model.cost()
    assert abs(cost.fixed_ns - prior.means[0]) <= prior.widths[0]
    assert cost.fixed_error_ns > prior.widths[0] / 2, "and it knows that it does not know"
    assert model.expected_ns(10_000) == pytest.approx(fixed_ns + 200e6, rel=0.1)
    assert model.error_ns(10_000) < 0.1 * model.expected_ns(10_000)


@pytest.mark.parametrize(("kind", "fixed_ns"), [("filter", 20e6), ("job", 150e6), ("window", 40e6)])
def test_a_handful_of_other_lengths_tells_the_fixed_part(kind: Kind, fixed_ns: float) -> None:
    truth = (fixed_ns, 5e3, 0.0, 0.0)
    before = taught(kind, truth, lambda _i: 8_000, 20, noise=0.05)
    error_ns = before.cost().fixed_error_ns
    after = taught(kind, truth, lambda i: 1_000 * 3**i, 5, noise=0.05, model=before)
    assert after.cost().fixed_ns == pytest.approx(fixed_ns, rel=0.15)
    assert after.cost().per_tuple_ns == pytest.approx(5e3, rel=0.15)
    assert after.cost().fixed_error_ns < error_ns / 2


def test_what_lengths_have_shown_is_not_forgotten_when_they_no_longer_differ() -> None:
    truth = (250e6, 5e3, 0.0, 0.0)
    model = taught("window", truth, lambda i: 1_000 * 4 ** (i % 4), 12, noise=0.05)
    taught("window", truth, lambda _i: 16_000, 60, noise=0.05, model=model)
    assert model.cost().fixed_ns == pytest.approx(250e6, rel=0.15)


def test_jobs_of_long_ago_are_forgotten_even_if_none_was_as_long_since() -> None:
    model = taught("window", (100e6, 50e3, 0, 0), lambda i: 1_000 * 4 ** (i % 4), 40)
    taught("window", (100e6, 5e3, 0, 0), lambda i: 1_000 * 2 ** (i % 2), 600, model=model)
    assert model.expected_ns(64_000) == pytest.approx(420e6, rel=0.15)
    assert model._age.min() > 1e-4


@pytest.mark.parametrize("fixed_ns", [1e6, 9e6, 300e6, 2e9])
@pytest.mark.parametrize("per_tuple_ns", [100.0, 5e3, 1e6])
def test_costs_far_from_the_prior_are_learned(fixed_ns: float, per_tuple_ns: float) -> None:
    truth = (fixed_ns, per_tuple_ns, 0.0, 0.0)
    model = taught("filter", truth, lambda i: 200 * 3 ** (i % 4), 40, noise=0.2)
    for n in (200, 1_000, 5_000):
        assert model.expected_ns(n) == pytest.approx(fixed_ns + per_tuple_ns * n, rel=0.25)


def test_a_costly_function_is_believed_after_six_jobs() -> None:
    model = taught("job", (60e6, 500e3, 0, 0), lambda _i: 4_000, COLD_JOBS + 1)
    assert model.expected_ns(4_000) == pytest.approx(2e9, rel=0.3)


def test_a_slow_job_on_few_tuples_does_not_make_tuples_dear() -> None:
    """As measured: three jobs of a join on 7026, 23 999 and 999 tuples, each compiled again."""
    model = CostModel(PRIORS["prepared"])
    for tuples, cost_ns in [(7026, 1047e6), (23999, 1194e6), (999, 525e6)]:
        model.learn(3, tuples, round(cost_ns))
    assert model.cost() == CostModel(PRIORS["prepared"]).cost()
    for _ in range(COLD_JOBS):
        model.learn(3, 999, round(525e6))
    assert model.cost().per_tuple_ns < 100e3, "as the job on 23 999 has shown"


def test_jobs_that_were_compiled_do_not_count_once_others_of_the_kind_have_shown_more() -> None:
    """As measured: a join whose only job was compiled was believed 20 times too dear."""
    model = CostModel(PRIORS["prepared"])
    model.learn(3, 5_000, 400_000_000)
    now = pooled(PRIORS["prepared"], [taught("prepared", (9e6, 300.0, 0, 0), lambda _: 10_000, 20)])
    model.rebase(now)
    assert model.cost() == CostModel(now).cost()
    model.learn(3, 20_000, 20_000_000)
    assert model.cost().per_tuple_ns < 3e3


def test_short_jobs_do_not_make_the_tuples_of_long_ones_cheap() -> None:
    """As measured: windows of a join, the first of which held few rows."""
    model = CostModel(PRIORS["prepared"])
    for tuples, cost_ns in [(24_000, 5e6), (24_000, 5e6), (470_000, 261e6), (480_000, 300e6)]:
        model.learn(1, tuples, round(cost_ns))
    assert model.expected_ns(480_000) > 0.5 * 280e6


@pytest.mark.parametrize("slow", [1, 2, 4])
def test_jobs_that_are_compiled_do_not_poison_what_follows(slow: int) -> None:
    truth = (9e6, 1e3, 0.4e6, 50.0)
    model = taught(
        "filter", truth, lambda i: 1_000 * 2 ** (i % 3), slow + 3, riders=lambda _i: 5, slow=slow
    )
    expected = 9e6 + 2_000 * 1e3 + 5 * (0.4e6 + 2_000 * 50)
    assert model.expected_ns(2_000, 5) == pytest.approx(expected, rel=0.25)


def test_noise_is_averaged_out() -> None:
    """fixed 30 ms + 2 µs a tuple; each rider 0.5 ms + 0.1 µs a tuple."""
    model = CostModel(PRIORS["job"])
    random = np.random.default_rng(1)
    for _ in range(400):
        k, n = int(random.integers(0, 40)), int(random.integers(1, 4000))
        cost = 30e6 + 2e3 * n + k * (5e5 + 100 * n)
        model.learn(k + 1, n, round(cost * random.uniform(0.8, 1.2)))
    assert model.solo_ns(1000) == pytest.approx(32e6, rel=0.2)
    assert model.margin_ns(1000) == pytest.approx(6e5, rel=0.2)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_costs_that_drift_are_followed_within_fifty_jobs(factor: float) -> None:
    truth = (100e6, 5e3, 0.0, 0.0)
    model = taught("window", truth, lambda i: 2_000 * 2 ** (i % 3), 200, noise=0.1)
    now = (factor * truth[0], factor * truth[1], 0.0, 0.0)
    taught("window", now, lambda i: 2_000 * 2 ** (i % 3), 50, noise=0.1, model=model)
    assert model.expected_ns(4_000) == pytest.approx(factor * 120e6, rel=0.1)


def test_the_error_covers_the_truth_and_shrinks_with_jobs() -> None:
    truth, errors = (150e6, 8e3, 0.0, 0.0), []
    for jobs in (5, 20, 60):
        model = taught("window", truth, lambda i: 1_000 * 3 ** (i % 4), jobs, noise=0.2)
        cost = model.cost()
        errors.append(cost.fixed_error_ns)
        assert abs(cost.fixed_ns - 150e6) < 3 * cost.fixed_error_ns
        assert abs(cost.per_tuple_ns - 8e3) < 3 * cost.per_tuple_error_ns
    assert errors[0] > 2 * errors[1]
    assert errors[2] < 1.1 * errors[1], "old jobs are forgotten, so it does not fall without end"


def test_jobs_of_one_length_are_known_though_their_figures_are_not() -> None:
    model = CostModel(PRIORS["job"])
    for _ in range(30):
        model.learn(1, 10_000, 400_000_000)
    cost = model.cost()
    both = 2 * cost.error_correlation * cost.fixed_error_ns * cost.per_tuple_error_ns * 1e4
    error_ns = (cost.fixed_error_ns**2 + both + (1e4 * cost.per_tuple_error_ns) ** 2) ** 0.5
    assert error_ns == pytest.approx(model.error_ns(10_000), rel=1e-6)
    assert error_ns < 0.05 * 400e6 < cost.fixed_error_ns


@settings(deadline=None)
@given(KINDS, JOBS, st.integers(1, 60), st.integers(0, 10**6), st.integers(0, 10**10))
def test_whatever_jobs_cost_the_figures_stay_sane(
    kind: Kind, jobs: list[tuple[int, int, int]], queries: int, tuples: int, cost_ns: int
) -> None:
    model = CostModel(PRIORS[kind])
    for together, taken, took_ns in jobs:
        model.learn(together, taken, took_ns)
    cost = model.cost()
    assert np.isfinite(cost).all()
    assert min(cost[:-1]) >= 0
    assert abs(cost.error_correlation) <= 1 + 1e-9
    assert cost.fixed_ns >= PRIORS[kind].floor_ns
    riders = queries - 1
    assert model.expected_ns(tuples, riders) <= model.expected_ns(tuples + 1, riders)
    assert model.expected_ns(tuples, riders) <= model.expected_ns(tuples, riders + 1)
    assert model.error_ns(tuples, riders) >= 0
    shares = model.shares(queries, tuples, cost_ns)
    assert sum(shares) == cost_ns
    assert min(shares) >= 0
    assert len(shares) == queries


def test_a_new_cell_starts_with_what_its_kind_has_shown() -> None:
    truth = (210e6, 9e3, 0.0, 0.0)
    shown = [taught("job", truth, lambda i: 500 * 4 ** (i % 4), 20) for _ in range(5)]
    cost = CostModel(pooled(PRIORS["job"], shown)).cost()
    assert cost.fixed_ns == pytest.approx(210e6, rel=0.1)
    assert cost.per_tuple_ns == pytest.approx(9e3, rel=0.1)


def test_one_slow_function_does_not_make_its_kind_look_expensive() -> None:
    function = taught("job", (60e6, 5e6, 0, 0), lambda i: 100 * 4 ** (i % 4), 20)
    assert pooled(PRIORS["job"], [function]).means == pytest.approx(PRIORS["job"].means)
    joins = [taught("job", (80e6, 2e3, 0, 0), lambda i: 500 * 4 ** (i % 4), 20) for _ in range(3)]
    assert pooled(PRIORS["job"], [function, *joins]).means[1] < 4e3


def test_a_model_that_starts_from_another_keeps_its_figures() -> None:
    model = taught("window", (300e6, 2e3, 0, 0), lambda i: 500 * 4 ** (i % 4), 20)
    heir = CostModel(model.as_prior())
    assert heir.cost()[:4] == pytest.approx(model.cost()[:4])
    assert heir.cost().fixed_error_ns > model.cost().fixed_error_ns


def test_long_jobs_that_all_take_longer_than_foreseen_are_no_exceptions() -> None:
    """What a row of a join costs depends on how many there are: short jobs do not show it."""
    model = CostModel(PRIORS["prepared"])
    model.learn(1, 285_000, 350_000_000)
    assert model.expected_ns(1_150_000) < 1.6e9
    model.learn(1, 1_150_000, 6_200_000_000)
    assert model.expected_ns(1_150_000) > 3e9
    model.learn(1, 1_150_000, 1_500_000_000)
    assert model.expected_ns(1_150_000) < 2.5e9, "the first of them was one"
