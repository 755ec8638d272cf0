"""F*, Condon's flow and the linear program agree."""

import math
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.examples import ESTIMATES
from tests.filters.oracle import best_over_orders

from daybreak.filters import (
    Dependencies,
    Estimate,
    condon_flow,
    optimum_per_s,
    optimum_with_dependencies,
)
from daybreak.model import ConfigError

ANY_FILTER = st.builds(
    Estimate,
    st.floats(0.01, 1.0),
    st.integers(1, 8),
    st.one_of(st.floats(0.01, 0.99), st.sampled_from([0.0, 0.5, 1.0])),
)


def test_the_report_s_three_filters() -> None:
    assert optimum_per_s(ESTIMATES) == pytest.approx(13.889, abs=5e-4)
    flows = {"".join(str(i + 1) for i in o): f for o, f in condon_flow(ESTIMATES).items()}
    assert flows == pytest.approx(
        {"123": 8.436, "213": 0.309, "231": 2.572, "312": 2.572}, abs=5e-4
    )


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(ANY_FILTER, min_size=1, max_size=5))
def test_subsets_condon_and_the_linear_program_agree(filters: list[Estimate]) -> None:
    best = best_over_orders(filters)
    assert optimum_per_s(filters) == pytest.approx(best, rel=1e-7)
    assert sum(condon_flow(filters).values()) == pytest.approx(best, rel=1e-7)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(ANY_FILTER, min_size=1, max_size=10))
def test_condon_s_flow_overloads_nobody_and_uses_few_orders(filters: list[Estimate]) -> None:
    flows = condon_flow(filters)
    loads = [0.0] * len(filters)
    for order, flow in flows.items():
        assert sorted(order) == list(range(len(filters)))
        survivors = flow
        for i in order:
            loads[i] += survivors
            survivors *= filters[i].selectivity
    for load, f in zip(loads, filters, strict=True):
        assert load <= f.capacity_per_s * (1 + 1e-9)
    assert len(flows) <= len(filters) * len(filters)
    assert sum(flows.values()) == pytest.approx(optimum_per_s(filters), rel=1e-9)


def linear_extensions_only(after: dict[int, list[int]]):  # type: ignore[no-untyped-def]
    def allowed(order: Sequence[int]) -> bool:
        return all(order.index(u) < order.index(v) for v, us in after.items() for u in us)

    return allowed


def test_with_dependencies_the_optimum_is_the_program_over_linear_extensions() -> None:
    rng = Random(5)
    for _ in range(25):
        n = rng.randint(2, 5)
        filters = [
            Estimate(rng.uniform(0.05, 0.5), rng.randint(1, 4), rng.uniform(0.05, 0.95))
            for _ in range(n)
        ]
        after = {v: [u for u in range(v) if rng.random() < 0.4] for v in range(n)}
        graph = Dependencies(
            [str(i) for i in range(n)], {str(v): [str(u) for u in us] for v, us in after.items()}
        )
        expected = best_over_orders(filters, linear_extensions_only(after))
        assert optimum_with_dependencies(filters, graph) == pytest.approx(expected, rel=1e-7)


def test_one_filter_and_filters_that_drop_nothing_or_everything() -> None:
    alone = Estimate(0.1, 2, 0.3)
    assert optimum_per_s([alone]) == pytest.approx(20)
    # Drops nothing: takes what the other passes, at least.
    assert optimum_per_s([Estimate(0.1, 1, 1.0), Estimate(0.001, 1, 0.5)]) == pytest.approx(20)
    assert optimum_per_s([Estimate(0.1, 1, 1.0)] * 2) == pytest.approx(10)
    # Drops everything: the other one need never be asked.
    assert math.isfinite(optimum_per_s([Estimate(0.1, 1, 0.0), Estimate(9.0, 1, 1.0)]))


def test_too_many_filters_are_refused_not_tried() -> None:
    with pytest.raises(ConfigError, match="subsets"):
        optimum_per_s([Estimate(0.1, 1, 0.5)] * 30)
