"""How much longer jobs take because others run: learned from jobs beside few and beside many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.interference import LEAST_ALONE, Interference


def learned(*jobs: tuple[float, float], times: int = 50) -> Interference:
    found = Interference()
    for _ in range(times):
        for off, others in jobs:
            found.ended(off, others)
    return found


def test_jobs_that_take_longer_beside_others_would_take_less_by_themselves() -> None:
    """On average beside one other; a job takes 0.4 of that longer for each."""
    assert learned((0.6, 0.0), (1.4, 2.0)).alone == pytest.approx(0.6, abs=0.02)


def test_jobs_that_others_do_not_slow_down_would_take_as_long() -> None:
    assert learned((1.0, 0.0), (1.0, 2.0)).alone == 1.0
    assert learned((1.1, 0.0), (0.9, 2.0)).alone == 1.0, "faster beside others is chance"


def test_nothing_is_concluded_from_jobs_that_all_ran_beside_as_many() -> None:
    assert Interference().alone == 1.0
    assert learned((0.9, 1.0), (1.1, 1.0)).alone == 1.0
    assert learned((0.9, 0.95), (1.1, 1.05)).alone > 0.8, "hardly anything"


def test_a_job_that_was_compiled_says_nothing_of_others() -> None:
    assert learned((1.0, 0.0), (1.0, 2.0), (50.0, 2.0)).alone == 1.0


@given(st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 10.0)), max_size=60))
def test_the_share_is_never_below_what_is_believed_possible(
    jobs: list[tuple[float, float]],
) -> None:
    assert LEAST_ALONE <= learned(*jobs, times=1).alone <= 1.0
