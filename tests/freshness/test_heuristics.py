"""The thesis's heuristics, our bins, the baselines: all spend the budget, none is better."""

import numpy as np
import pytest

from daybreak.freshness import Mirror, bandwidth_of, perceived_freshness, plan
from daybreak.freshness import baselines as base
from daybreak.freshness.heuristics import (
    ORDERINGS,
    allocate,
    heuristic,
    order_key,
    partition,
    ratio_bins,
    refine,
)
from daybreak.model import ConfigError
from daybreak_experiments.freshening.mirrors import pareto_sizes, thesis_mirror


def sized_mirror(n: int = 2000) -> Mirror:
    mirror = thesis_mirror(3, objects=n)
    sizes = pareto_sizes(n, 1.5, np.random.default_rng(8))
    return Mirror.of(mirror.change_rate, mirror.access, sizes)


@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("allocation", ["ffa", "fba"])
def test_heuristics_spend_the_budget_and_stay_below_the_optimum(
    ordering: str, allocation: str
) -> None:
    mirror = sized_mirror()
    best = plan(mirror, 1000).perceived_freshness
    for iterations in (0, 3):
        f = heuristic(mirror, 1000, ordering, 50, iterations, allocation)  # type: ignore[arg-type]
        assert bandwidth_of(mirror, f) == pytest.approx(1000, rel=1e-9)
        assert 0.2 < perceived_freshness(mirror, f) <= best + 1e-12


def test_one_partition_per_object_is_the_optimum() -> None:
    mirror = thesis_mirror(1, objects=200)
    f = heuristic(mirror, 100, "lambda", 200)
    assert f == pytest.approx(plan(mirror, 100).frequency, rel=1e-6, abs=1e-9)


def test_partitions_are_runs_of_equal_length_in_sorted_order() -> None:
    mirror = Mirror.of([5, 1, 4, 2, 3, 6, 7])
    assert partition(mirror, "lambda", 3).tolist() == [1, 0, 1, 0, 0, 2, 2]


def test_order_keys_follow_their_formulas() -> None:
    mirror = Mirror.of([2.0, 4.0], [0.25, 0.75], [1.0, 0.5])
    at_one = [0.25 * (1 - np.exp(-2)) / 2, 0.75 * (1 - np.exp(-4)) / 4]
    assert order_key(mirror, "pf") == pytest.approx(at_one)
    assert order_key(mirror, "p/lambda") == pytest.approx([0.125, 0.1875])
    # Size 0.5 buys two refreshes with the bandwidth that buys one of size 1.
    assert order_key(mirror, "pfs")[1] == pytest.approx(0.75 * (1 - np.exp(-2)) / 2)
    with pytest.raises(ConfigError, match="partitioning"):
        order_key(mirror, "pdf")


def test_k_means_moves_objects_to_the_nearest_mean_of_eq_2_3() -> None:
    mirror = Mirror.of([1, 1, 9, 9], [0.1, 0.1, 0.4, 0.4])
    assert refine(mirror, np.array([0, 0, 0, 1]), 10).tolist() == [0, 0, 1, 1]


def test_k_means_helps_and_needs_the_normalisation() -> None:
    mirror = thesis_mirror(2, objects=20_000, rate_deviation=2.0)
    best = plan(mirror, 10_000).perceived_freshness

    def share(iterations: int, normalised: bool = True) -> float:
        f = heuristic(mirror, 10_000, "pf", 100, iterations, normalised=normalised)
        return perceived_freshness(mirror, f) / best

    assert share(10) > share(0) + 0.02
    assert share(10, normalised=False) < 0.75


def test_mirrors_that_never_change_do_not_disturb_the_heuristics() -> None:
    still = Mirror.of([0.0, 0.0, 0.0], [0.5, 0.0, 0.5])
    for ordering in ORDERINGS:
        assert heuristic(still, 5, ordering, 2, 3).tolist() == [0, 0, 0]


def test_fba_gives_members_of_a_partition_equal_bandwidth() -> None:
    mirror = Mirror.of([1, 1], [0.5, 0.5], [1, 3])
    label = np.zeros(2, np.int64)
    assert allocate(mirror, label, 8, "fba") * mirror.size == pytest.approx([4, 4])
    assert allocate(mirror, label, 8, "ffa") == pytest.approx([2, 2])


def test_hundred_bins_of_log_r_reach_four_nines() -> None:
    mirror = sized_mirror(20_000)
    best = plan(mirror, 10_000).perceived_freshness
    f = ratio_bins(mirror, 10_000, 100)
    assert bandwidth_of(mirror, f) == pytest.approx(10_000, rel=1e-9)
    assert 0.9998 * best < perceived_freshness(mirror, f) <= best + 1e-12


def test_baselines_spend_the_budget_in_their_proportions() -> None:
    mirror = sized_mirror(50)
    for rule in (base.uniform, base.proportional_to_change, base.proportional_to_access):
        assert bandwidth_of(mirror, rule(mirror, 30)) == pytest.approx(30)
    assert np.ptp(base.uniform(mirror, 30)) == pytest.approx(0)
    by_change = base.proportional_to_change(mirror, 30) / mirror.change_rate
    assert by_change == pytest.approx(np.full(50, by_change[0]))


def test_an_interval_rule_settles_where_growing_and_shrinking_balance() -> None:
    """Simulates Nutch's rule itself: its mean log interval comes to rest at ours."""
    rng = np.random.default_rng(5)
    interval = np.full(4000, 1000.0)
    for _ in range(400):
        changed = rng.random(4000) < -np.expm1(-interval / 5000)
        interval *= np.where(changed, 1 - base.NUTCH.shrink, 1 + base.NUTCH.grow)
    settled = base.NUTCH.settled_interval_s(np.array([1 / 5000]))[0]
    assert np.exp(np.log(interval).mean()) == pytest.approx(settled, rel=0.15)


def test_interval_rules_keep_their_limits() -> None:
    mirror = Mirror.of([0.0, 1e-9, 1e9])
    rule = base.STORMCRAWLER
    assert rule.settled_interval_s(mirror.change_rate).tolist() == [rule.most_s] * 2 + [
        rule.least_s
    ]
    assert bandwidth_of(mirror, base.by_interval_rule(mirror, 7, rule)) == pytest.approx(7)
