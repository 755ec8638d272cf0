"""Change-rate estimation and profiles."""

import numpy as np
import pytest

from daybreak.freshness.estimate import (
    RatePrior,
    Visits,
    estimate_rates,
    exploration_floor,
    regular_estimate,
)
from daybreak.freshness.profiles import Profile, Rule, master_profile
from daybreak.model import ConfigError


def test_equal_intervals_give_the_closed_form() -> None:
    n, tau = 12, 0.7
    for x in range(n + 1):
        visits = Visits.of(np.zeros(n, int), np.full(n, tau), np.arange(n) < x)
        assert estimate_rates(visits, 1)[0] == pytest.approx(
            float(regular_estimate(n, x, tau)), rel=1e-9, abs=1e-15
        )


def test_irregular_intervals_recover_the_rates() -> None:
    rng = np.random.default_rng(3)
    rates = np.array([0.05, 0.5, 3.0])
    item = rng.integers(0, 3, 60_000)
    elapsed = rng.exponential(0.8, 60_000) + 0.01
    changed = rng.random(60_000) < -np.expm1(-rates[item] * elapsed)
    found = estimate_rates(Visits.of(item, elapsed, changed), 3)
    # About 800 changes of the slowest: 0.1 is three standard errors.
    assert found == pytest.approx(rates, rel=0.1)


def test_the_estimate_is_the_likelihoods_maximum() -> None:
    rng = np.random.default_rng(5)
    elapsed, changed = rng.exponential(1, 30), rng.random(30) < 0.6
    best = estimate_rates(Visits.of(np.zeros(30, int), elapsed, changed), 1)[0]

    def log_likelihood(rate: float) -> float:
        quiet = elapsed[~changed].sum() + elapsed.mean() / 2
        return float(np.log(-np.expm1(-rate * elapsed[changed])).sum() - rate * quiet)

    assert all(
        log_likelihood(best) >= log_likelihood(best * k) for k in (0.99, 0.9999, 1.0001, 1.01)
    )


def test_a_new_object_gets_the_priors_mean_and_visits_override_it() -> None:
    prior = RatePrior(mean=2.0, weight=0.5)
    visits = Visits.of(np.ones(400, int), np.full(400, 0.1), np.zeros(400, bool))
    new, quiet = estimate_rates(visits, 2, prior)
    assert new == pytest.approx(2.0)
    assert 0 < quiet < 0.02
    assert estimate_rates(visits, 2).tolist() == [0, 0]


def test_always_changed_stays_finite() -> None:
    visits = Visits.of([0] * 5, [1.0] * 5, [True] * 5)
    assert estimate_rates(visits, 1)[0] == pytest.approx(-np.log(0.5 / 5.5))


def test_the_exploration_floor_covers_only_the_little_known() -> None:
    floor = exploration_floor(np.array([0, 9, 10]), longest=4, trusted=10)
    assert floor.tolist() == [0.25, 0.25, 0]


def test_visits_without_a_time_before_them_are_refused() -> None:
    with pytest.raises(ConfigError, match="no time before"):
        Visits.of([0], [0.0], [True])
    with pytest.raises(ConfigError, match="prior"):
        RatePrior(mean=0)


IDS = ["a", "b", "c", "d"]
PRICE = {"price": np.array([1, 5, 10, 20])}


def test_profiles_aggregate_by_user_weight() -> None:
    general = Profile("general", {"a": 3, "b": 1}, weight=3)
    clerk = Profile("clerk", rules=[Rule("price", ">=", 10, 7)])
    master = master_profile([general, clerk], IDS, PRICE)
    assert master == pytest.approx([3 / 4 * 3 / 4, 3 / 4 / 4, 1 / 8, 1 / 8])
    assert master.sum() == pytest.approx(1)


def test_rules_and_objects_add_up_within_one_user() -> None:
    mixed = Profile("u", {"a": 1}, [Rule("price", "in", [1, 20], 1)])
    assert master_profile([mixed], IDS, PRICE) == pytest.approx([2 / 3, 0, 0, 1 / 3])


@pytest.mark.parametrize(
    ("profile", "finding"),
    [
        (Profile("u", {"z": 1}), "unknown object 'z'"),
        (Profile("u", rules=[Rule("prize", ">", 1, 1)]), "unknown attribute 'prize'"),
        (Profile("u", {}), "no interest"),
        (Profile("u", {"a": 1}, weight=-1), "weight -1"),
    ],
)
def test_profiles_that_make_no_sense_are_refused(profile: Profile, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding):
        master_profile([profile], IDS, PRICE)


def test_a_rule_knows_its_comparisons() -> None:
    with pytest.raises(ConfigError, match="=>"):
        Rule("price", "=>", 1, 1)
