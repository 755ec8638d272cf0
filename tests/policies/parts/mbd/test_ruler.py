"""The ruler's exact schedules and its laws."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.model.errors import ConfigError
from daybreak.policies.parts.mbd.ruler import longest_waits, one_turn_each, ruler, slots_of, whole

PRIORITIES = st.lists(st.integers(1, 300), min_size=1, max_size=12)


def test_the_schedule_of_figure_8() -> None:
    cycles = ruler([5, 4, 3, 2, 1])
    assert "|".join("".join("ABCDE"[c] for c in cycle) for cycle in cycles) == (
        "AB|CD|AB|ACE|AB|CD|AB"
    )


@pytest.mark.parametrize(
    ("priorities", "waits"),
    [
        # Figure 8's prose allows A four slots; the schedule it prints needs three.
        ((5, 4, 3, 2, 1), (3, 4, 5, 8, 14)),
        ((50, 40, 30, 20, 10), (4, 4, 6, 9, 18)),
        ((60, 30, 10), (2, 3, 12)),
        ((1,), (0,)),
    ],
)
def test_longest_waits(priorities: tuple[int, ...], waits: tuple[int, ...]) -> None:
    assert tuple(longest_waits(slots_of(ruler(priorities))).values()) == waits


def test_cqc_lets_a_class_wait_for_all_the_others_slots() -> None:
    assert longest_waits(one_turn_each([5, 4, 3, 2, 1])) == {0: 10, 1: 11, 2: 12, 3: 13, 4: 14}


@given(PRIORITIES)
def test_each_class_appears_exactly_as_often_as_its_priority_says(priorities: list[int]) -> None:
    slots = slots_of(ruler(priorities))
    assert [slots.count(c) for c in range(len(priorities))] == priorities
    assert sorted(slots) == sorted(one_turn_each(priorities))


@given(PRIORITIES)
def test_the_slots_of_each_bit_are_evenly_spaced(priorities: list[int]) -> None:
    cycles = ruler(priorities)
    bits = max(priorities).bit_length()
    assert len(cycles) == 2**bits - 1
    for bit in range(bits):
        holders = tuple(c for c, p in enumerate(priorities) if p >> bit & 1)
        # Bit 2^j comes round every 2^(b-j) cycles, first after half of that.
        step = 2 ** (bits - bit)
        assert cycles[step // 2 - 1 :: step] == (holders,) * 2**bit


@given(PRIORITIES)
def test_a_class_waits_no_longer_than_under_cqc(priorities: list[int]) -> None:
    waits = longest_waits(slots_of(ruler(priorities)))
    whole_round = sum(priorities)
    for c, priority in enumerate(priorities):
        assert waits[c] <= whole_round - priority == longest_waits(one_turn_each(priorities))[c]


@pytest.mark.parametrize("bad", [[0], [3, -1], [2**20]])
def test_priorities_out_of_range_are_refused(bad: list[int]) -> None:
    with pytest.raises(ConfigError, match="priority"):
        ruler(bad)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ([50.0, 40.0], [50, 40]),
        ([1.5, 1.0], [3, 2]),
        ([1e6, 5e5, 1.0], [1023, 512, 1]),
        ([0.5, 0.25], [2, 1]),
    ],
)
def test_priorities_become_whole_numbers(given_: list[float], expected: list[int]) -> None:
    assert whole(given_) == expected


@given(st.lists(st.floats(1e-6, 1e9), min_size=1, max_size=8))
def test_whole_priorities_keep_their_order_and_fit_the_ruler(priorities: list[float]) -> None:
    made = whole(priorities)
    assert all(1 <= n <= 1023 for n in made)
    pairs = sorted(zip(priorities, made, strict=True))
    assert [n for _, n in pairs] == sorted(made)
