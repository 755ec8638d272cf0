"""Levelling: few, measured steps that slow violators down to their victims' level."""

from __future__ import annotations

import pytest

from daybreak.policies.parts.mbd.correction import Frequencies, Levelling

ORDER = (0, 1, 2)
PRIORITIES = (50.0, 40.0, 30.0)
START: Frequencies = (50, 40, 30)
SECOND = 1_000_000_000


def levelling(percentile: int | None = None, **response_ns: int) -> Levelling:
    made = Levelling(3, percentile, equal_inverts=False, patience_s=0.5)
    answer(made, **response_ns)
    return made


def answer(made: Levelling, count: int = 1000, **response_ns: int) -> None:
    for name, response in response_ns.items():
        made.add(int(name[1:]) - 1, [0] * count, [response] * count)


def test_a_violator_is_slowed_down_by_the_measured_ratio() -> None:
    made = levelling(c1=200, c2=100, c3=500)
    found = made.corrected(SECOND, ORDER, PRIORITIES, START)
    # Twice as fast so far: to be made up for within as long again.
    step = (100 / (200 * 1.1 + 100)) ** 1.25
    assert list(found) == pytest.approx([50, 40 * step, 30])
    assert found[1] < found[2], "below the next class's frequency, if response times ask for it"


def test_a_class_that_is_slowed_down_may_push_the_next_one() -> None:
    made = levelling(c1=200, c2=100, c3=150)
    _, second, third = made.corrected(SECOND, ORDER, PRIORITIES, START)
    assert second < 40
    assert third == pytest.approx(30 * (150 / ((200 * 1.1 + 100) * 1.1)) ** 1.25)


def test_nothing_happens_without_inversion_patience_or_enough_results() -> None:
    assert levelling(c1=1, c2=2, c3=3).corrected(SECOND, ORDER, PRIORITIES, START) == START
    early = levelling(c1=200, c2=100, c3=500)
    assert early.corrected(SECOND // 3, ORDER, PRIORITIES, START) == START
    few = levelling(c1=200, c3=500)
    answer(few, count=10, c2=100)
    assert few.corrected(SECOND, ORDER, PRIORITIES, START) == START
    equal = levelling(c1=200, c2=100, c3=500)
    assert equal.corrected(SECOND, ORDER, (40.0, 40.0, 30.0), START) == START


def test_each_step_is_judged_on_results_since_the_last() -> None:
    made = levelling(c1=200, c2=100, c3=500)
    first = made.corrected(SECOND, ORDER, PRIORITIES, START)
    answer(made, c1=200, c2=330, c3=500)
    assert made.corrected(2 * SECOND, ORDER, PRIORITIES, first) == first, "it worked"
    answer(made, c2=10, count=5000)
    again = made.corrected(3 * SECOND, ORDER, PRIORITIES, first)
    assert again[1] < first[1]


def test_what_is_owed_over_all_results_is_made_up_for() -> None:
    made = levelling(c1=200, c2=100, c3=500)
    first = made.corrected(SECOND, ORDER, PRIORITIES, START)
    # Slower than its victim since, but not by enough: 165 against 200 over all results.
    answer(made, c1=200, c2=230, c3=500)
    second = made.corrected(2 * SECOND, ORDER, PRIORITIES, first)
    assert list(second) == pytest.approx([50, first[1] * (230 / (200 * 1.1 + 35)) ** 1.25, 30])
    # Still owing, but as slow as wanted: time will do the rest.
    answer(made, c1=200, c2=256, c3=500)
    assert made.corrected(3 * SECOND, ORDER, PRIORITIES, second) == second


def test_it_never_stops_a_class() -> None:
    made, frequencies = levelling(c1=10**9, c2=1, c3=2 * 10**9), START
    for second in range(1, 20):
        frequencies = made.corrected(second * SECOND, ORDER, PRIORITIES, frequencies)
        answer(made, c1=10**9, c2=1, c3=2 * 10**9)
    assert frequencies[1] == pytest.approx(40 / 64)


def test_it_judges_at_a_percentile_where_asked() -> None:
    made = Levelling(3, 75, equal_inverts=False, patience_s=0.0)
    made.add(0, [0] * 1000, [100] * 700 + [900] * 300)
    made.add(1, [0] * 1000, [200] * 900 + [9_000] * 100)
    made.add(2, [0] * 1000, [1_000] * 1000)
    assert made.corrected(SECOND, ORDER, PRIORITIES, START)[1] < 40
