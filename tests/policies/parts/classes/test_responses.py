"""What a policy sees of its classes' response times."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.classes.class_responses import ClassResponses
from daybreak.runtime.report import weighted_percentiles


def test_means_count_tuples_and_begin_anew() -> None:
    seen = ClassResponses(2)
    seen.add(0, [0, 10], [4, 30], tuples=1)
    seen.add(0, [0], [30], tuples=2)
    assert seen.counts == [4, 0]
    assert seen.response_ns(0) == (4 + 20 + 60) / 4
    assert math.isnan(seen.response_ns(1))
    seen.reset()
    assert math.isnan(seen.response_ns(0))


@given(
    st.lists(st.tuples(st.integers(1, 10**10), st.integers(1, 4)), min_size=1, max_size=60),
    st.sampled_from([10, 50, 75, 95]),
)
def test_percentiles_are_right_to_a_hundredth(
    responses: list[tuple[int, int]], percentile: int
) -> None:
    seen = ClassResponses(1, percentile)
    for response, tuples in responses:
        seen.add(0, [5], [5 + response], tuples)
    values = np.array([r for r, _ in responses], dtype=float)
    exact = weighted_percentiles(values, np.array([t for _, t in responses]), [percentile])
    assert seen.response_ns(0) == pytest.approx(exact[percentile], rel=0.011)


def test_classes_closer_than_a_bucket_are_told_apart() -> None:
    seen = ClassResponses(2, 75)
    for cls, longest_ns in enumerate((2_000_000, 2_010_000)):
        left = np.linspace(1_000_000, longest_ns, 5_000).astype(int).tolist()
        seen.add(cls, [0] * len(left), left)
    fast, slow = seen.all_ns()
    assert fast < slow
    assert fast == pytest.approx(1_750_000, rel=0.001)
    assert slow == pytest.approx(1_757_500, rel=0.001)
