"""Arrival rates: over any window, for indices that come later, in bounded memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.policies.parts.rates.arrival_rates import ArrivalRates

S = 10**9


def test_rates_are_taken_over_the_window_that_is_asked_for() -> None:
    rates = ArrivalRates(0)
    for tenth in range(1, 201):  # 10 a second, and 100 a second in the last second
        rates.note(tenth * S // 10, [tenth + 9 * max(0, tenth - 190), 0])
    assert rates.short_per_s(0) == pytest.approx(100, rel=0.15)
    assert rates.long_per_s(0) == pytest.approx(19, rel=0.05)
    assert rates.burst_per_s(0) == rates.short_per_s(0)
    assert rates.per_s(0, 5.0) == pytest.approx(28, rel=0.1)
    assert rates.all_per_s(10.0) == [rates.long_per_s(0), 0.0]


def test_a_rate_is_known_from_the_second_note_on() -> None:
    rates = ArrivalRates()
    assert rates.short_per_s(0) == 0.0
    assert rates.all_per_s(1.0) == []
    rates.note(5 * S, [700])  # came before anybody counted
    assert rates.long_per_s(0) == 0.0
    rates.note(6 * S, [750])
    assert rates.long_per_s(0) == pytest.approx(50)


def test_an_index_that_comes_later_has_a_rate_from_then_on() -> None:
    rates = ArrivalRates(0)
    for second in range(1, 9):
        rates.note(second * S, [10 * second])
    rates.note(9 * S, [90, 20])
    rates.note(10 * S, [100, 40])
    assert rates.long_per_s(0) == pytest.approx(10)
    assert rates.long_per_s(1) == pytest.approx(20), "since 8 s, when it was not there"
    assert rates.long_per_s(2) == 0.0


def test_a_count_that_begins_again_is_no_negative_rate() -> None:
    rates = ArrivalRates(0)
    rates.note(1 * S, [500])
    rates.note(2 * S, [3])
    assert rates.short_per_s(0) == 0.0


@given(st.lists(st.integers(0, 3 * S), max_size=300))
def test_samples_are_thinned_out_and_the_mean_rate_stays_right(gaps_ns: list[int]) -> None:
    rates, now_ns = ArrivalRates(0, short_s=1.0, long_s=10.0), 0
    for gap_ns in gaps_ns:
        now_ns += gap_ns
        rates.note(now_ns, [now_ns // 10**6])  # a thousand a second
    assert len(rates._samples) <= 10 * 8 + 3
    if now_ns > S // 10:
        assert rates.long_per_s(0) == pytest.approx(1000, rel=0.01)
        assert rates.per_s(0, 3.0) == pytest.approx(1000, rel=0.01)
