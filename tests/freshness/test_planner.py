"""The exact planner: the text's table, optimality conditions, extremes, limits, errors."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from daybreak.freshness import (
    Mirror,
    RefreshLimits,
    RefreshPlan,
    condensed,
    curve,
    floor_for_age,
    floor_for_freshness,
    freshness,
    perceived_freshness,
    plan,
)
from daybreak.freshness.mirror import Floats
from daybreak.freshness.stationarity import solve_staleness, staleness_for_freshness
from daybreak.model import ConfigError

RATES = [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        ([1, 1, 1, 1, 1], [1.15, 1.36, 1.35, 1.14, 0.00]),
        ([1, 2, 3, 4, 5], [0.33, 0.67, 1.00, 1.33, 1.67]),
        # The thesis prints 1.68 for the first; 1.6857 is exact.
        ([5, 4, 3, 2, 1], [1.6857, 1.8263, 1.4880, 0, 0]),
    ],
)
def test_table_2_1(access: list[float], expected: list[float]) -> None:
    made = plan(Mirror.of(RATES, access), 5)
    assert made.frequency == pytest.approx(expected, abs=0.01)
    assert made.gap < 1e-12


def marginal_values(mirror: Mirror, frequency: Floats) -> Floats:
    """dPF per unit of bandwidth; at f = 0 the limit p/(s lambda)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        x = mirror.change_rate / frequency
        slope = -np.expm1(np.log1p(x) - x) / mirror.change_rate
    slope = np.where(frequency > 0, slope, 1 / mirror.change_rate)
    return mirror.access * slope / mirror.size


def random_mirror(seed: int, n: int, sigma: float = 1.0) -> Mirror:
    rng = np.random.default_rng(seed)
    return Mirror.of(
        rng.lognormal(0, sigma, n), rng.gamma(0.5, 1, n) + 1e-9, rng.pareto(2, n) + 0.1
    )


@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(-2, 2))
@example(472, 27, 1.3125)
@settings(max_examples=60, deadline=None)
def test_kkt_conditions_hold(seed: int, n: int, exponent: float) -> None:
    """Every refreshed object has the marginal value mu, every other one at most mu.

    The multiplier is an end of the bracket that the plan lies within, so the two agree to the
    bracket's width; what is exact is the gap.
    """
    mirror = random_mirror(seed, n)
    made = plan(mirror, 10**exponent * float(mirror.size @ mirror.change_rate))
    assert made.spent == pytest.approx(made.bandwidth, rel=1e-9)
    values, refreshed = marginal_values(mirror, made.frequency), made.frequency > 0
    assert made.gap < 1e-10
    assert values[refreshed] == pytest.approx(made.multiplier, rel=1e-5)
    assert (values[~refreshed] <= made.multiplier * (1 + 1e-5)).all()


@pytest.mark.parametrize("seed", range(40))
def test_the_gap_stays_tiny_from_starved_to_lavish_budgets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.choice([1, 2, 7, 300, 25_000]))
    mirror = Mirror.of(
        rng.lognormal(0, 4, n), rng.zipf(1.5, n).astype(float), rng.pareto(1.1, n) + 1e-3
    )
    for exponent in (-8, -3, -0.5, 1, 8):
        budget = 10.0**exponent * float(mirror.size @ mirror.change_rate)
        made = plan(mirror, budget)
        assert made.gap <= 1e-8
        assert made.spent == pytest.approx(budget, rel=1e-9)
        assert made.passes < 60


def test_the_gap_bounds_what_any_other_plan_achieves() -> None:
    mirror, rng = random_mirror(3, 30), np.random.default_rng(4)
    made = plan(mirror, 20)
    for _ in range(300):
        other = made.frequency * rng.lognormal(0, 0.05, 30) + rng.exponential(1e-3, 30)
        other *= 20 / float(mirror.size @ other)
        assert perceived_freshness(mirror, other) <= made.perceived_freshness + made.gap


def test_what_never_changes_or_is_never_read_gets_nothing() -> None:
    made = plan(Mirror.of([0, 1, 2], [1, 1, 0]), 3)
    assert made.frequency == pytest.approx([0, 3, 0])
    assert made.perceived_freshness == pytest.approx(0.5 + 0.5 * freshness(3, 1))


def test_a_mirror_that_never_changes_needs_no_bandwidth() -> None:
    made = plan(Mirror.of([0, 0]), 5)
    assert (made.spent, made.perceived_freshness, made.multiplier, made.gap) == (0, 1, 0, 0)


def test_equal_objects_share_equally_however_scarce() -> None:
    for budget in (1e-12, 1.0, 1e12):
        made = plan(Mirror.of([2.0] * 7), budget)
        assert made.frequency == pytest.approx([budget / 7] * 7, rel=1e-9)


def check_limits(mirror: Mirror, limits: RefreshLimits, made: RefreshPlan) -> None:
    """KKT with bounds: at a floor the marginal value is at most the group's, at a cap more."""
    values = marginal_values(mirror, made.frequency)
    assert limits.floor is not None
    assert limits.cap is not None
    assert limits.group is not None
    assert limits.group_cap is not None
    use = np.bincount(limits.group, weights=mirror.size * made.frequency)
    assert (use <= limits.group_cap * (1 + 1e-9)).all()
    for group in range(len(limits.group_cap)):
        mine = limits.group == group
        f, low, high = (a[mine] for a in (made.frequency, limits.floor, limits.cap))
        free = (f > low * (1 + 1e-9)) & (f < high * (1 - 1e-9))
        shared = made.multiplier
        if free.any():
            assert np.ptp(values[mine][free]) <= 1e-6 * values[mine][free].max()
            shared = float(values[mine][free].mean())
        full = use[group] >= limits.group_cap[group] * (1 - 1e-9)
        assert shared >= made.multiplier * (1 - 1e-6) if full else True
        if not full:
            assert shared == pytest.approx(made.multiplier, rel=1e-6)
        assert (values[mine][f <= low * (1 + 1e-9)] <= shared * (1 + 1e-6)).all()
        if not full:
            assert (values[mine][f >= high * (1 - 1e-9)] >= shared * (1 - 1e-6)).all()


@pytest.mark.parametrize("seed", range(25))
def test_floors_caps_and_groups_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mirror = random_mirror(seed, 60)
    group = rng.integers(0, 6, 60)
    floor = rng.uniform(0, 0.1, 60) * (rng.random(60) < 0.5)
    cap = np.where(rng.random(60) < 0.3, rng.uniform(0.2, 2, 60), np.inf)
    needs = np.bincount(group, weights=mirror.size * floor, minlength=6)
    limits = RefreshLimits(floor, cap, group, needs + rng.uniform(0.01, 20, 6))
    made = plan(mirror, float(needs.sum()) + rng.uniform(1, 60), limits)
    assert made.gap < 1e-9
    assert (made.frequency >= floor).all()
    assert (made.frequency <= cap).all()
    check_limits(mirror, limits, made)


def test_a_closed_group_gets_nothing_and_the_others_its_share() -> None:
    mirror = Mirror.of([1.0, 1.0, 1.0])
    limits = RefreshLimits(group=np.array([0, 1, 1]), group_cap=np.array([0.0, np.inf]))
    assert plan(mirror, 4, limits).frequency == pytest.approx([0, 2, 2])


def test_caps_that_leave_bandwidth_over_are_all_used() -> None:
    made = plan(Mirror.of(RATES), 100, RefreshLimits(cap=np.full(5, 2.0)))
    assert made.frequency.tolist() == [2] * 5
    assert (made.multiplier, made.spent) == (0, 10)


def test_floors_that_cannot_be_paid_name_the_smallest_bandwidth() -> None:
    mirror = Mirror.of(RATES)
    floor = floor_for_freshness(mirror, 0.5)
    with pytest.raises(ConfigError, match="give at least") as caught:
        plan(mirror, 5, RefreshLimits(floor=floor))
    smallest = float(caught.value.remedy.split("at least ")[1].split(",")[0])
    made = plan(mirror, smallest * 1.00001, RefreshLimits(floor=floor))
    assert freshness(made.frequency, mirror.change_rate) == pytest.approx([0.5] * 5, abs=1e-4)


def test_a_group_whose_floors_exceed_its_cap_is_named() -> None:
    limits = RefreshLimits(np.ones(5), None, np.array([0, 0, 1, 1, 1]), np.array([9.0, 2.0]))
    with pytest.raises(ConfigError, match="group 1 need 3"):
        plan(Mirror.of(RATES), 50, limits)


def test_least_freshness_holds_for_every_object() -> None:
    mirror = random_mirror(1, 200)
    targets = np.random.default_rng(2).uniform(0, 0.9, 200)
    floor = floor_for_freshness(mirror, targets)
    made = plan(mirror, float(mirror.size @ floor) * 1.2, RefreshLimits(floor=floor))
    assert (freshness(made.frequency, mirror.change_rate) >= targets - 1e-12).all()


def test_age_floor_meets_its_probability_and_no_more() -> None:
    """Checked against the integral over a refresh interval, by the midpoint rule."""
    mirror = Mirror.of([0.0, 0.1, 1.0, 40.0])
    floor = floor_for_age(mirror, age=0.5, probability=0.05)
    assert floor[0] == 0
    for rate, f in zip(mirror.change_rate[1:], floor[1:], strict=True):
        since = (np.arange(200_000) + 0.5) / 200_000 / f
        older = -np.expm1(-rate * np.maximum(since - 0.5, 0)).mean()
        assert older == pytest.approx(0.05, abs=1e-4)


def test_more_bandwidth_never_hurts_and_is_worth_ever_less() -> None:
    plans = curve(random_mirror(9, 400), np.geomspace(1, 1e4, 30))
    assert (np.diff([p.perceived_freshness for p in plans]) > 0).all()
    assert (np.diff([p.multiplier for p in plans]) < 0).all()


def test_mu_is_what_one_more_unit_buys() -> None:
    mirror = random_mirror(5, 300)
    low, high = (plan(mirror, 100 + d).perceived_freshness for d in (-1e-3, 1e-3))
    assert plan(mirror, 100).multiplier == pytest.approx((high - low) / 2e-3, rel=1e-5)


def test_a_warm_start_saves_passes_and_changes_nothing() -> None:
    mirror = random_mirror(6, 5000)
    cold = plan(mirror, 900)
    warm = plan(mirror, 900, start=cold.multiplier)
    assert warm.passes <= cold.passes
    assert warm.frequency == pytest.approx(cold.frequency, rel=1e-7, abs=1e-12)


def test_staleness_is_exact_over_the_whole_range() -> None:
    """Against Newton's method with fifty digits."""
    getcontext().prec = 50
    depths = np.geomspace(1e-30, 1e8, 150)
    for depth, x in zip(depths, solve_staleness(depths), strict=True):
        exact, target = Decimal(float(x)), Decimal(float(depth))
        for _ in range(4):
            exact -= (exact - (1 + exact).ln() - target) * (1 + exact) / exact
        assert abs(Decimal(float(x)) / exact - 1) < Decimal("1e-11")


def test_staleness_for_freshness_inverts_freshness() -> None:
    for target in (1e-6, 0.1, 0.5, 0.999999):
        assert freshness(1.0, staleness_for_freshness(target)) == pytest.approx(target, rel=1e-9)


@pytest.mark.parametrize(
    ("make", "finding"),
    [
        (lambda: Mirror.of([]), "no objects"),
        (lambda: Mirror.of([1, -2]), "change_rate of object 1"),
        (lambda: Mirror.of([1, float("nan")]), "change_rate of object 1 is nan"),
        (lambda: Mirror.of([1, 2], [1]), "access has 1 values"),
        (lambda: Mirror.of([1, 2], [0, 0]), "access sums to 0"),
        (lambda: Mirror.of([1, 2], None, [1, 0]), "size of object 1"),
        (lambda: Mirror.of(["x"]), "not numeric"),
        (lambda: plan(Mirror.of([1]), 0), "bandwidth"),
        (
            lambda: plan(Mirror.of([1]), 1, RefreshLimits(np.array([2.0]), np.array([1.0]))),
            "above cap",
        ),
        (lambda: plan(Mirror.of([1]), 1, RefreshLimits(group=np.array([0]))), "go together"),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, finding: str) -> None:
    assert callable(make)
    with pytest.raises(ConfigError, match=finding):
        make()


@pytest.mark.parametrize("seed", range(30))
def test_floors_that_leave_next_to_nothing(seed: int) -> None:
    """What remains is so scarce that mu is the best object's r to the last digit."""
    rng = np.random.default_rng(seed)
    mirror = random_mirror(seed, 20, sigma=6)
    floor = rng.exponential(1, 20) * (rng.random(20) < 0.3)
    needed = float(mirror.size @ floor) or 1.0
    for exponent in range(1, 14):
        made = plan(mirror, needed * (1 + 10.0**-exponent), RefreshLimits(floor=floor))
        assert made.gap <= 1e-8
        assert made.spent == pytest.approx(made.bandwidth, rel=1e-9)


@pytest.mark.parametrize("kind", ["zipf", "sizes", "equal", "idle"])
def test_a_condensed_mirror_has_the_same_curve(kind: str) -> None:
    """For pictures of half a million objects: a plan of each budget took minutes."""
    rng, n = np.random.default_rng(7), 6000
    rates = rng.lognormal(0, 1.5, n)
    some = rng.random(n) < 0.3
    mirror = {
        "zipf": Mirror.of(rates, 1 / np.arange(1, n + 1)),
        "sizes": Mirror.of(rates, rng.pareto(1.1, n), 1 + rng.pareto(1.1, n)),
        "equal": Mirror.of(np.ones(n)),
        "idle": Mirror.of(np.where(some, 0, rates), np.where(rng.random(n) < 0.3, 0, 1.0)),
    }[kind]
    small = condensed(mirror)
    assert len(small) < min(n, 4003)
    budgets = [float(b) for b in np.geomspace(n / 50, n * 20, 5)]
    for exact, rough in zip(curve(mirror, budgets), curve(small, budgets), strict=True):
        assert rough.perceived_freshness == pytest.approx(exact.perceived_freshness, abs=1e-5)
