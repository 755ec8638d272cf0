"""The four inversion modules by the vectors of section 6.1.5."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.mbd.inversion import LARGEST, MODULES, dsp, dvp, isp, ivp, victims


@pytest.mark.parametrize(
    ("before", "violator", "after"),
    [
        ((50, 40, 30), 3, (50, 40, 29)),
        ((60, 20, 1), 3, (60, 21, 1)),
        ((30, 20, 19), 2, (60, 39, 38)),
    ],
)
def test_dvp(before: tuple[int, ...], violator: int, after: tuple[int, ...]) -> None:
    assert dvp(before, before, {violator - 2}) == after


@pytest.mark.parametrize(
    ("before", "victim", "after"),
    [((50, 40, 30, 20, 10), 2, (50, 41, 30, 20, 10)), ((42, 41, 30), 2, (43, 42, 30))],
)
def test_ivp(before: tuple[int, ...], victim: int, after: tuple[int, ...]) -> None:
    assert ivp(before, before, {victim - 1}) == after


@pytest.mark.parametrize(
    ("before", "violator", "after"),
    [((50, 40, 30, 20, 10), 3, (50, 40, 29, 19, 9)), ((3, 2, 1), 3, (4, 3, 1))],
)
def test_dsp(before: tuple[int, ...], violator: int, after: tuple[int, ...]) -> None:
    assert dsp(before, before, {violator - 2}) == after


def test_isp() -> None:
    before = (50, 40, 30, 20, 10)
    assert isp(before, before, {1}) == (51, 41, 30, 20, 10)


def test_several_violators_at_once_add_up_on_their_side() -> None:
    before = (50, 40, 30, 20, 10)
    assert dsp(before, before, {0, 2}) == (50, 39, 29, 18, 8)
    assert isp(before, before, {0, 2}) == (52, 41, 31, 20, 10)


def test_dvp_gives_up_before_schedules_grow_without_end() -> None:
    frequencies: tuple[int, ...] = (30, 20, 19)
    for _ in range(5_000):
        frequencies = dvp(frequencies, (30, 20, 19), {0})  # class 2 violates for ever
    assert max(frequencies) <= LARGEST


def test_victims_are_slower_classes_of_really_higher_priority() -> None:
    assert victims((50, 40, 30), (2.0, 1.0, 3.0)) == (0,)
    assert victims((40, 40, 30), (2.0, 1.0, 3.0)) == ()
    assert victims((50, 40, 30), (math.nan, 1.0, 0.5)) == (1,), "no results, no verdict"
    assert victims((50, 40), (1.0, 1.0)) == ()
    assert victims((50, 40), (1.0, 1.0), equal_inverts=True) == (0,), "section 2.3.2"


@given(
    priorities=st.lists(st.integers(1, 60), min_size=2, max_size=6, unique=True),
    name=st.sampled_from(sorted(MODULES)),
    data=st.data(),
)
def test_modules_keep_the_order_of_classes_and_a_slot_for_each(
    priorities: list[int], name: str, data: st.DataObject
) -> None:
    declared = sorted(priorities, reverse=True)
    frequencies = tuple(declared)
    for _ in range(4):
        slower = data.draw(st.sets(st.integers(0, len(declared) - 2), min_size=1))
        changed = MODULES[name](frequencies, declared, slower)
        assert min(changed) >= 1
        assert all(a > b for a, b in pairwise(changed))
        assert changed != frequencies or name == "dvp"
        frequencies = changed
